"""`--live`: a measurement that the window has started."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from spectui.measure.progress import ProgressLine

live_option = click.option(
    "--live", is_flag=True, hidden=True, help="write the progress as lines, and stop when standard input ends"
)


def progress_line(live: bool, most: float = float("inf")) -> ProgressLine:
    """Where a measurement tells how far it is. `most`: seconds after which it ends in any case."""
    from spectui.measure.progress import ProgressLine

    if live:
        _stop_with_stdin()
    return ProgressLine(most, live)


def _stop_with_stdin() -> None:
    """Do what Ctrl+C does as soon as standard input ends: the window closes it, or has died."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored in a background process
    stdin = sys.stdin

    def watch() -> None:
        while stdin.buffer.read(4096):
            pass
        _thread.interrupt_main()

    if stdin is not None:
        threading.Thread(target=watch, name="spectui-stdin", daemon=True).start()
