"""`--live`: what the window reads of a measurement that it has started."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from spectui.measure.progress import ProgressLine

live_option = click.option(
    "--live",
    is_flag=True,
    hidden=True,
    help="write the progress and the table so far as lines of JSON, until standard input ends",
)


def progress_line(live: bool, most: float = float("inf")) -> ProgressLine:
    """Where a measurement tells how far it is. `most`: seconds after which it ends in any case."""
    from spectui.measure.progress import ProgressLine

    if not live:
        return ProgressLine(most)
    from spectui.measure.live.lines import LiveProgress, stop_with_stdin

    stop_with_stdin()
    return LiveProgress(sys.stdout, most)
