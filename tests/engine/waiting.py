"""Wait for events, and stop the engine's thread at one, without a sleep."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from spectui.engine.events import Event, Notice, RoundDone
from spectui.engine.isolation.process import EngineProcess
from spectui.engine.session import Session
from spectui.engine.worker import Worker

Wanted = TypeVar("Wanted")

PATIENCE = 120.0
"""Seconds until a test gives up; no test waits so long unless it fails."""


class Events(deque[Event]):
    """A worker's deque that wakes a waiting thread, and calls `hook` in the thread that appends."""

    def __init__(self) -> None:
        super().__init__()
        self._arrived = threading.Condition()
        self.hook: Callable[[Event], None] = lambda _: None

    def append(self, event: Event) -> None:
        with self._arrived:
            super().append(event)
            self._arrived.notify_all()
        self.hook(event)

    def wait(self, kind: type[Wanted], count: int = 1) -> Wanted:
        """The `count`th event of this kind; fails if it does not come."""
        with self._arrived:
            came = self._arrived.wait_for(lambda: len(self.of(kind)) >= count, PATIENCE)
            assert came, f"no {kind.__name__}: {[type(event).__name__ for event in self]}"
            return self.of(kind)[count - 1]

    def wait_for_notice(self, beginning: str) -> None:
        """Fails if no notice comes that begins like this. Some machines have notices of their own."""
        with self._arrived:
            came = self._arrived.wait_for(lambda: any(each.message.startswith(beginning) for each in self.of(Notice)), PATIENCE)
            assert came, f"only {[each.message for each in self.of(Notice)]}"

    def of(self, kind: type[Wanted]) -> list[Wanted]:
        """The events of this kind until now."""
        return [event for event in list(self) if isinstance(event, kind)]


class Held:
    """Holds the engine's thread at the first event that `at` answers true to, until `release`. Use it as a context."""

    def __init__(self, events: Events, at: Callable[[Event], bool]) -> None:
        self._reached = threading.Event()
        self._released = threading.Event()
        self._events = events
        self._at = at
        events.hook = self._hold

    def _hold(self, event: Event) -> None:
        if not self._reached.is_set() and self._at(event):
            self._reached.set()
            assert self._released.wait(PATIENCE)

    def __enter__(self) -> Held:
        assert self._reached.wait(PATIENCE), f"never there: {[type(event).__name__ for event in self._events]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()


def prompt_tokens(session: Session, events: Sequence[Event]) -> list[int]:
    """What the target has read for the last of these replies."""
    assert session.pair is not None and session.pair.context is not None
    rounds = [event.round for event in events if isinstance(event, RoundDone)]
    begin = next(round.position for round in reversed(rounds) if round.index == 0)
    return session.pair.context.tokens[:begin]


def events_of(engine: Worker | EngineProcess) -> Events:
    """Its events, where a test has put this deque in the place of the usual one."""
    assert isinstance(engine.events, Events)
    return engine.events
