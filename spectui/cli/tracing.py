"""`--trace FILE` of `spectui chat` and `spectui run`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.cli.options import NewFile, rare_option

if TYPE_CHECKING:
    from spectui.engine.protocol import Engine

trace_option = rare_option(
    "--trace",
    type=NewFile(),
    metavar="FILE",
    help="write every round to this file, with the text of the chat; spectui replay plays it",
)


@contextmanager
def tracing(worker: Engine, file: Path | None) -> Iterator[None]:
    """Trace what the worker says within the block, at whose end it must be closed. Raises TraceError at once."""
    if file is None:
        yield
        return
    from spectui.cli import complain
    from spectui.traces.writer import TraceWriter

    writer = TraceWriter(file, worker)
    try:
        yield
    finally:
        if lost := writer.close():
            complain(lost, 0)
