"""The server's requests for people: a line for each, and one at a time in the window, as if its reply were the chat's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from time import localtime, strftime

from spectui.chat.figures.estimates import speed_ups
from spectui.chat.player import PassiveEngine
from spectui.engine.events import FREE, Failed, Finished, Loaded, Message, RoundDone, Terms
from spectui.engine.requests import KEPT, Request, Requests
from spectui.knobs import Knobs, Setup


def in_words(request: Request) -> str:
    """A line: when, who, which turn, how much was read, how far it is, how fast, or why it failed."""
    figures, last = request.figures, request.events[-1] if request.events else None
    turn = 1 + sum(message.role == "assistant" for message in request.messages)
    line = f"{strftime('%H:%M:%S', localtime(request.since))} {request.client[:18]:<18} turn {turn:<3}"
    if request.prompt is not None:
        line += f"{request.prompt.total:6} read, {request.prompt.reused} reused"
    if figures.emitted:
        gain = _gain(request) if isinstance(last, Finished) else ""
        line += f"{figures.emitted:6} at {figures.emitted / (figures.decode_s or 1):5.1f} t/s{gain}"
    if isinstance(last, Failed):
        return f"{line} failed: {last.message}"
    state = {"waiting": "waiting", "running": "writing" if figures.emitted else "reading"}.get(request.state, "")
    return f"{line} {state}".rstrip()


@lru_cache(KEPT)
def _gain(request: Request) -> str:
    """How many times as fast as without drafts its last rounds were; "" if that is not known."""
    rounds = [event.round for event in request.events[-400:] if isinstance(event, RoundDone)]
    return "".join(f"{gain:5.1f}x" for gain in speed_ups(rounds, request.figures)[-1:])


class WatchedEngine(PassiveEngine):
    """Implements `protocol.Engine` for the window: what it generates is the reply of the request that is `shown`."""

    def __init__(self, requests: Requests, loaded: Loaded) -> None:
        super().__init__()
        self.requests, self.loaded = requests, loaded
        self.guess = ""
        self.shown: Request | None = None
        self._next: int | None = None  # the event that comes next; None: the window has not asked for the reply

    @property
    def knobs(self) -> Knobs:
        return self.requests.knobs

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        self.requests.knobs = knobs

    def load(self, setup: Setup) -> None:
        """The models are loaded."""
        self.say(self.loaded)

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
            self.say(event)
            if isinstance(event, Finished | Failed):
                self._next = None

    def leave(self) -> None:
        """Tell no more of it."""
        if self._next is not None:
            self._next = None
            self.say(Failed(""))
        self.shown = None

    def stop(self) -> None:
        """End the request that is shown."""
        if self.shown is not None:
            self.requests.cancel(self.shown)
