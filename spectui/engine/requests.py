"""What several clients ask of one engine: one reply at a time, and each client in turn."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from queue import SimpleQueue
from time import time
from typing import Any, Literal

from spectui.engine.events import FREE, Event, Failed, Finished, Message, Prompt, RoundDone, Terms
from spectui.engine.protocol import Engine, also
from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.statistics import Statistics

_log = logging.getLogger(__name__)

KEPT = 100
"""Requests that can be looked at, the latest."""


class TooManyError(SpectuiError):
    """So many requests wait that another one is refused."""


@dataclass(eq=False)
class Request:
    """One reply that a client asks for."""

    messages: Sequence[Message]
    listen: Callable[[Event], None]
    """Called in a thread of the engine with the reply's events. The last one is one Finished or Failed, whatever happens."""
    client: str = ""
    terms: Terms = FREE
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Those that the request sets itself; the others are the engine's, and may change meanwhile."""
    state: Literal["waiting", "running", "ended"] = "waiting"
    since: float = field(default_factory=time)
    events: list[Event] = field(default_factory=list)
    """What came of it so far."""
    figures: Statistics = field(default_factory=Statistics)
    prompt: Prompt | None = None
    """The latest news of how much of the prompt is read."""

    def tell(self, event: Event) -> None:
        """One more event."""
        if isinstance(event, RoundDone):
            self.figures.add(event.round)
        elif isinstance(event, Prompt):
            self.prompt = event
        self.events.append(event)
        self.listen(event)


class Requests:
    """The queue. A thread of its own gives the engine one request after the other: one that is cancelled while it waits never
    reaches it."""

    def __init__(self, engine: Engine, most: int = 64) -> None:
        """`most`: how many may wait."""
        self.engine, self._most = engine, most
        self._knobs = engine.knobs
        self.running: Request | None = None
        self.waiting: list[Request] = []
        """In the order in which they came."""
        self._begun = 0  # requests
        self._turns: dict[str, int] = {}  # client that waits -> how many requests had begun when it came, or was served last
        self._commands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = False
        self.seen: tuple[Request, ...] = ()
        """The latest, ended ones too. Replaced, never changed: other threads go through it meanwhile."""
        self.ended: Callable[[Request], None] = lambda request: None
        """Called with each request that has ended."""
        engine.listen = also(engine.listen, self._heard)
        self._thread = threading.Thread(target=self._run, name="spectui-requests", daemon=True)
        self._thread.start()

    @property
    def knobs(self) -> Knobs:
        """Those that hold where a request sets none."""
        return self._knobs

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        self._knobs = knobs
        self._commands.put(self._set_knobs)

    def submit(self, request: Request) -> None:
        """Put it into the queue. Raises TooManyError."""
        if self._closed or len(self.waiting) >= self._most:
            raise TooManyError(f"{len(self.waiting)} requests wait already: try again later.")
        self.waiting.append(request)
        self.seen = (*self.seen, request)[-KEPT:]
        self._commands.put(self._begin_next)

    def cancel(self, request: Request) -> None:
        """End it, whether it waits or runs. Nothing happens if it has ended."""
        self._commands.put(lambda: self._cancel(request))

    def close(self, timeout: float = 2.0) -> None:
        """End all requests and the thread; the engine stays open. Waits at most `timeout` seconds."""
        self._closed = True
        self._commands.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        while (command := self._commands.get()) is not None:
            try:
                command()
            except Exception as error:  # an engine that cannot begin: the others are answered all the same
                _log.exception("a request failed", exc_info=error)
                if (running := self.running) is not None:
                    self._commands.put(partial(self._end, running, Failed(f"Something in spectui broke ({error}).")))
        for request in list(self.waiting):
            self._cancel(request)
        if (running := self.running) is not None:
            self.engine.stop()
            self._end(running, Failed("The server ends."))

    def _begin_next(self) -> None:
        if self.running is not None or not self.waiting:
            return
        waiting = [*self.waiting]
        self._turns = {asked.client: self._turns.get(asked.client, self._begun) for asked in waiting}
        request = min(waiting, key=lambda asked: self._turns[asked.client])
        self.waiting.remove(request)
        self._begun += 1
        self._turns[request.client] = self._begun + 1  # behind who came meanwhile, before who comes later
        self.running, request.state = request, "running"
        self._set_knobs()
        self.engine.generate(request.messages, request.terms)

    def _set_knobs(self) -> None:
        own = self.running.knobs if self.running is not None else {}
        self.engine.knobs = replace(self._knobs, **own)

    def _cancel(self, request: Request) -> None:
        if request is self.running:
            self.engine.stop()
        elif request in self.waiting:
            self.waiting.remove(request)
            self._end(request, Failed("It was cancelled while it waited."))

    def _heard(self, event: Event) -> None:
        """An event of the engine, in its thread."""
        if (request := self.running) is None:
            return
        if isinstance(event, Finished | Failed):
            self._commands.put(lambda: self._end(request, event))
        else:
            _told(request.tell, event)

    def _end(self, request: Request, event: Finished | Failed) -> None:
        if request.state != "ended":
            request.state = "ended"
            if request is self.running:
                self.running = None
                self._set_knobs()
            _told(request.tell, event)
            _told(self.ended, request)
        self._begin_next()


def _told(listen: Callable[[Any], None], what: object) -> None:
    """Tell one who listens. Whatever that raises, the others are told, and the reply goes on."""
    try:
        listen(what)
    except Exception as error:
        _log.exception("a listener of a request failed", exc_info=error)
