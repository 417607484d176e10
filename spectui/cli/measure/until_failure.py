"""Measures in the engine; if that fails half-way, what was measured until then is returned.

Where a device can end the process, the engine has one of its own, which sends what it has measured as it goes.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from spectui.cli.run import outcome
from spectui.engine.events import Event, Measuring
from spectui.engine.isolation.process import EngineProcess
from spectui.errors import SpectuiError

if TYPE_CHECKING:
    from spectui.engine.session import Session
    from spectui.engine.worker import Worker

Found = TypeVar("Found")

_SEND_S = 0.1
"""Seconds between two progress messages about one thing that is measured."""


def measure_until_failure(
    worker: Worker | EngineProcess,
    measure: Callable[..., Found],
    arguments: tuple[Any, ...],
    found: Found,
    progress: Callable[[float, str], None],
    take: Callable[[Event], None] = lambda event: None,
    watch: Callable[[Found], None] = lambda found: None,
) -> tuple[Found, SpectuiError | None]:
    """`measure(session, *arguments, progress=..., found=found)`, which fills `found`, in the engine's thread.

    Returns what was measured, and the error that ended it early, if one did. `take` is called with the other events,
    `watch` with what was measured until then.
    """
    latest = found

    def listen(event: Event) -> None:
        nonlocal latest
        if isinstance(event, Measuring):
            latest = event.found  # type: ignore[assignment]
            progress(event.done, event.what)
            watch(latest)
        else:
            take(event)

    def tell(done: float, what: str) -> None:
        progress(done, what)
        watch(found)

    if isinstance(worker, EngineProcess):
        future = worker.call(_measure_sending, measure, arguments, found)
    else:
        future = worker.call(lambda session: measure(session, *arguments, progress=tell, found=found))
    try:
        return outcome(worker, future, listen), None
    except SpectuiError as error:
        return latest, error


def _measure_sending(
    session: Session, measure: Callable[..., Found], arguments: tuple[Any, ...], found: Found
) -> Found:
    """In the engine's process."""
    send, last_s, last = session.emit, 0.0, ""

    def progress(done: float, what: str) -> None:
        nonlocal last_s, last
        now = perf_counter()
        if what != last or now - last_s > _SEND_S:
            last_s, last = now, what
            send(Measuring(done, what, found))

    return measure(session, *arguments, progress=progress, found=found)
