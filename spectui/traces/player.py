"""An engine without a model: it repeats a trace's events, at any speed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from spectui.engine.events import (
    Asked,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    Message,
    ModelInfo,
    Notice,
    Prompt,
    RoundDone,
)
from spectui.knobs import Knobs, Setup

SLOWEST, FASTEST = 0.01, 1000.0
"""Bounds of the speed, in times as fast as it was."""

UNKNOWN_S = 0.05
"""Seconds for a round whose time was not recorded."""

ENDED = "The trace ends here, in the middle of a reply."
BROKEN_OFF = "The reply broke off here."


class TracePlayer:
    """Implements `protocol.Engine`. It has no thread: the window calls `advance` with the seconds that have passed.

    The trace's prompts are `asked` one by one; `generate` lets the reply begin.
    """

    def __init__(self, entries: Iterable[Event], speed: float = 1.0) -> None:
        self.knobs = Knobs()
        """The knobs of the last played round."""
        self.events: deque[Event] = deque()
        self.listen: Callable[[Event], None] = lambda event: None
        self.looked_at = False
        self.speed = speed
        self.paused = False
        self.asked: Asked | None = None
        """The prompt that comes next: hand it to `generate`."""
        self.asked_plainly = False
        """Its reply was decoded without drafts."""
        self.ended = False
        """All has been said."""
        self._entries: Iterator[Event] = iter(entries)
        self._ahead: deque[Event] = deque()  # looked at, and not taken yet
        self._next: Event | None = next(self._entries, None)
        self._due = 0.0  # seconds until the next one, at the recorded speed
        self._writing = False
        self._loaded = False

    def load(self, setup: Setup) -> None:
        """Emit the events up to the first load."""
        while not self._loaded:
            if isinstance(self._next, Loaded | LoadFailed | Notice):
                self._step()
            else:
                self._say(_unknown())

    def unload(self) -> None:
        """There is nothing to free."""

    def generate(self, messages: Sequence[Message], at: float | None = None) -> None:
        """Begin the recorded reply to the prompt that was asked, whatever `messages` are."""
        if self.asked is not None:
            self.asked, self._writing, self._due = None, True, 0.0
            self._take()

    def stop(self) -> None:
        """Pause."""
        self.paused = True

    def close(self) -> None:
        """Nothing is left to be closed."""

    def advance(self, seconds: float) -> None:
        """Emit the events of the next `seconds`."""
        if self.paused or self.ended or not self._loaded:
            return
        self._due -= seconds * self.speed
        while self._due <= 0 and self.asked is None and not self.ended:
            self._step()

    def step(self) -> None:
        """Emit the events up to the end of the next round."""
        while self._loaded and self.asked is None and not self.ended:
            was_round = isinstance(self._next, RoundDone)
            self._step()
            if was_round:
                break

    def faster(self, factor: float) -> None:
        """Change the speed by this factor."""
        self.speed = min(max(self.speed * factor, SLOWEST), FASTEST)

    def _step(self) -> None:
        """Say the next entry, or note the prompt that comes next."""
        entry = self._next
        if isinstance(entry, Asked) or entry is None:
            if self._writing:  # its end was not recorded
                self._say(Failed(BROKEN_OFF if entry is not None else ENDED))
            self.asked, self.ended, self._due = entry, entry is None, 0.0
            self.asked_plainly = entry is not None and self._is_plain()
            return
        self._say(entry)
        self._take()

    def _take(self) -> None:
        """Take the next entry out of the trace; it is due when its time has passed."""
        self._next = self._ahead.popleft() if self._ahead else next(self._entries, None)
        match self._next:
            case RoundDone(round=done):
                self._due += done.seconds or UNKNOWN_S
            case Prompt(seconds=seconds):
                self._due += seconds

    def _is_plain(self) -> bool:
        """Whether the reply that comes next begins without a drafter."""
        for entry in self._entries:
            self._ahead.append(entry)
            if isinstance(entry, RoundDone):
                return entry.round.knobs.drafter == "off"
            if isinstance(entry, Asked):
                break
        return False

    def _say(self, event: Event) -> None:
        match event:
            case Loaded():
                self._loaded = True
            case RoundDone(round=done):
                self.knobs = done.knobs
            case Finished() | Failed():
                self._writing = False
        self.events.append(event)
        self.listen(event)


def _unknown() -> Loaded:
    """Models that the trace says nothing about."""
    return Loaded(Setup(model="recorded"), ModelInfo("recorded", "a recorded model", 0, 0, 0, 0, 0), None, ())


def first_setup(entries: Iterable[Event]) -> Setup:
    """The set-up that the trace begins with, with the system prompt of its first conversation."""
    setup = _unknown().setup
    for entry in entries:
        match entry:
            case Loaded():
                setup = entry.setup
            case Asked(messages=messages):
                system = next((each.content for each in messages if each.role == "system"), "")
                return replace(setup, system=system)
            case _:
                pass
    return setup
