"""The interface of an engine. `worker.Worker` computes in a thread, `isolation` in another process; tests have a
`FakeEngine`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from spectui.engine.events import FREE, Event, Finished, Loaded, Message, Terms
from spectui.knobs import Knobs, Setup

Result = TypeVar("Result")
Told = TypeVar("Told")


class Engine(Protocol):
    """The engine of a chat. Its methods return at once; the results are events in a deque that the caller drains."""

    knobs: Knobs
    """The decoder reads them once per round: a new value acts from the next round on."""

    events: deque[Event]

    listen: Callable[[Event], None]
    """Called with each event before it is appended, in the thread that appends it: it should return in microseconds."""

    wants_probabilities: bool
    """Whether a person looks at probabilities: an engine that they cost time leaves them out of its next reply otherwise."""

    @property
    def guess(self) -> str:
        """The draft that the target reads just now, behind the rounds in `events`; "" where none is known."""

    def load(self, setup: Setup) -> None:
        """Load (or reload) the models. A reply in progress is stopped first. Ends in Loaded or LoadFailed."""

    def unload(self) -> None:
        """Free the models. A reply in progress is stopped first. Ends in Unloaded."""

    def generate(self, messages: Sequence[Message], terms: Terms = FREE) -> None:
        """Answer the conversation, or continue the reply that it ends with. Ends in Finished or Failed."""

    def forget(self) -> None:
        """Drop what was read of conversations, here and on the disk: one was deleted."""

    def count(self, text: str) -> Future[int | None]:
        """How many tokens the loaded target reads a text as, between two passes of a reply; None where it cannot be told."""

    def stop(self) -> None:
        """Stop the reply within one target pass, or cancel the loading."""

    def close(self) -> None:
        """Stop everything and end the thread. May be called at any time, and twice."""


class SessionEngine(Engine, Protocol):
    """An engine that also lets its session be called: `worker.Worker`, `isolation.process.EngineProcess`."""

    def call(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Call `function` with the session and the arguments, in the engine's thread. The future gets its result.

        Nothing is called if the future was cancelled before. Events come up the deque as usual.
        """

    def ask(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """The same between two passes of the reply that is being written, with a function that takes milliseconds and leaves
        contexts alone."""


def also(listen: Callable[[Told], None], other: Callable[[Told], None]) -> Callable[[Told], None]:
    """A listener that calls both, whatever one of them raises."""

    def both(event: Told) -> None:
        try:
            listen(event)
        finally:
            other(event)

    return both


class Session(Protocol):
    """What a worker's thread computes with: models that are loaded here, or those of a server. Every method is called in that
    thread, and blocks until it is done."""

    knobs: Knobs
    """Another thread may set them."""

    wants_probabilities: bool
    """As in `Engine`, for the next reply."""

    def load(self, setup: Setup, before: Setup | None = None) -> Loaded:
        """Load the models. Raises SpectuiError. `before`: as in `engine.session.Session.load`."""

    def begin_cold(self) -> None:
        """Drop what earlier replies have left behind: the next reply is like the first after loading."""

    def generate(self, messages: Sequence[Message], terms: Terms = FREE) -> Finished:
        """Answer the conversation. Raises SpectuiError; the rounds until then stay, and the next prompt works."""

    def forget(self) -> None:
        """As in `Engine`."""

    def count(self, text: str) -> int | None:
        """As in `Engine`."""

    def catch_up(self) -> None:
        """Nothing is asked for at the moment: read what the next reply may need. The next command interrupts it."""

    def rest(self) -> None:
        """Nothing has been asked for in a while."""

    def close(self) -> None:
        """Free the models."""
