"""The server's requests for the window: it shows one at a time, as if its reply were the chat's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import localtime, strftime

from spectui.chat.figures.counts import RoundCounts
from spectui.chat.figures.estimates import speed_ups
from spectui.engine.events import FREE, Event, Failed, Finished, Loaded, Message, RoundDone, Terms
from spectui.engine.requests import Request, Requests
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import Round

KEPT = 100
"""Requests that can be looked at, the latest."""


@dataclass(eq=False)
class Watched:
    """A request and what came of it."""

    request: Request
    events: list[Event] = field(default_factory=list)
    counts: RoundCounts = field(default_factory=RoundCounts)
    rounds: list[Round] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """One more event, in a thread of the engine."""
        if isinstance(event, RoundDone):
            self.counts.add(event.round)
            self.rounds.append(event.round)
        self.events.append(event)

    @property
    def in_words(self) -> str:
        """A line: when, who, which turn, how far, how fast."""
        request, figures = self.request, self.counts.statistics
        turn = 1 + sum(message.role == "assistant" for message in request.messages)
        line = f"{strftime('%H:%M:%S', localtime(request.since))} {request.client[:18]:<18} turn {turn:<3} "
        last = self.events[-1] if self.events else None
        if not figures.emitted:
            return line + ("failed" if isinstance(last, Failed) else "reading" if request.state == "running" else request.state)
        gains = speed_ups(self.rounds[-400:], figures) if request.state == "ended" else []
        gain = f"{gains[-1]:5.1f}x" if gains else ""
        state = "" if request.state == "ended" else "writing"
        return f"{line}{figures.emitted:5} at {figures.emitted / (figures.decode_s or 1):5.1f} t/s{gain} {state}"


class WatchedEngine:
    """Implements `protocol.Engine` for the window: what it generates is the reply of the request that is `shown`."""

    def __init__(self, requests: Requests, loaded: Loaded) -> None:
        self.requests, self._loaded = requests, loaded
        self.events: deque[Event] = deque()
        self.listen: Callable[[Event], None] = lambda event: None
        self.wants_probabilities = False
        self.guess = ""
        self.seen: deque[Watched] = deque(maxlen=KEPT)
        self.shown: Watched | None = None
        self._next: int | None = None  # the event that comes next; None: the window has not asked for the reply
        requests.watch = self._heard

    @property
    def knobs(self) -> Knobs:
        return self.requests.knobs

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        self.requests.knobs = knobs

    def _heard(self, request: Request, event: Event | None) -> None:
        """An event of a request; None: it has come. In a thread of the queue or the engine."""
        if event is None:
            self.seen.append(Watched(request))
            return
        for watched in self.seen:
            if watched.request is request:
                watched.take(event)

    def load(self, setup: Setup) -> None:
        """The models are loaded."""
        self._say(self._loaded)

    def unload(self) -> None:
        """They stay."""

    def generate(self, messages: Sequence[Message], terms: Terms = FREE) -> None:
        """Tell the events of the request that is shown."""
        self._next = 0

    def advance(self) -> None:
        """Tell what is new of it."""
        if self.shown is None or self._next is None:
            return
        new = self.shown.events[self._next :]
        self._next += len(new)
        for event in new:
            self._say(event)
            if isinstance(event, Finished | Failed):
                self._next = None

    def leave(self) -> None:
        """Tell no more of it."""
        if self._next is not None:
            self._next = None
            self._say(Failed(""))
        self.shown = None

    def stop(self) -> None:
        """End the request that is shown."""
        if self.shown is not None:
            self.requests.cancel(self.shown.request)

    def forget(self) -> None:
        """Nothing is kept of it."""

    def close(self) -> None:
        """The server closes the engine."""

    def _say(self, event: Event) -> None:
        self.listen(event)
        self.events.append(event)
