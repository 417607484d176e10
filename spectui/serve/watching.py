"""The server's requests for people: a line for each, and one at a time in the window, as if its reply were the chat's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import localtime, strftime

from spectui.chat.figures.estimates import speed_ups
from spectui.engine.events import FREE, Event, Failed, Finished, Loaded, Message, Prompt, RoundDone, Terms
from spectui.engine.requests import Request, Requests
from spectui.knobs import Knobs, Setup
from spectui.speculation.statistics import Statistics

KEPT = 100
"""Requests that can be looked at, the latest."""


@dataclass(eq=False)
class Watched:
    """A request and what came of it."""

    request: Request
    events: list[Event] = field(default_factory=list)
    figures: Statistics = field(default_factory=Statistics)
    prompt: Prompt | None = None
    gain: str = ""

    def take(self, event: Event) -> None:
        """One more event, in a thread of the engine."""
        if isinstance(event, RoundDone):
            self.figures.add(event.round)
        elif isinstance(event, Prompt):
            self.prompt = event
        elif isinstance(event, Finished):
            rounds = [event.round for event in self.events[-400:] if isinstance(event, RoundDone)]
            self.gain = "".join(f"{gain:5.1f}x" for gain in speed_ups(rounds, self.figures)[-1:])
        self.events.append(event)

    @property
    def in_words(self) -> str:
        """A line: when, who, which turn, how much was read, how far it is, how fast, or why it failed."""
        request, figures, last = self.request, self.figures, self.events[-1] if self.events else None
        turn = 1 + sum(message.role == "assistant" for message in request.messages)
        line = f"{strftime('%H:%M:%S', localtime(request.since))} {request.client[:18]:<18} turn {turn:<3}"
        if self.prompt is not None:
            line += f"{self.prompt.total:6} read, {self.prompt.reused} reused"
        if figures.emitted:
            line += f"{figures.emitted:6} at {figures.emitted / (figures.decode_s or 1):5.1f} t/s{self.gain}"
        if isinstance(last, Failed):
            return f"{line} failed: {last.message}"
        state = "writing" if figures.emitted else "reading"
        return f"{line} {state if request.state == 'running' else '' if request.state == 'ended' else request.state}".rstrip()


class WatchedEngine:
    """Implements `protocol.Engine` for the window: what it generates is the reply of the request that is `shown`."""

    def __init__(self, requests: Requests, loaded: Loaded) -> None:
        self.requests, self.loaded = requests, loaded
        self.ended: Callable[[Watched], None] = lambda watched: None
        """Called with each request that has ended."""
        self.events: deque[Event] = deque()
        self.listen: Callable[[Event], None] = lambda event: None
        self.wants_probabilities = False
        self.guess = ""
        self.seen: tuple[Watched, ...] = ()
        """Replaced, never changed: other threads go through it meanwhile."""
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
            self.seen = (*self.seen, Watched(request))[-KEPT:]
            return
        for watched in self.seen:
            if watched.request is request:
                watched.take(event)
                if isinstance(event, Finished | Failed):
                    self.ended(watched)

    def load(self, setup: Setup) -> None:
        """The models are loaded."""
        self._say(self.loaded)

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
