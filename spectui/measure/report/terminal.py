"""The table of a bench in the terminal, and its plot."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from spectui.measure.bench.summary import Summary, remarks
from spectui.measure.report.bench_chart import speed_chart
from spectui.measure.report.chart import draw
from spectui.measure.report.tables import LEGEND, columns, head

PLOT_WIDTH, PLOT_HEIGHT = 100, 16
COLOURS = ("bright_black", "cyan", "yellow", "green", "magenta", "blue", "red")
"""Colours of the plot's lines; the first line is the target alone."""


def show(summary: Summary, console: Console) -> None:
    """Print speeds and then drafts, in two tables that fit a terminal; the best row is bold. On a terminal a plot follows, if
    a draft-max was swept."""
    console.print(Text(head(summary)))
    if not summary.rows:
        return
    heads, rows = columns(summary)
    speeds = len(summary.prompts) + 3
    for chosen in ((*range(speeds), len(heads) - 1), (0, *range(speeds, len(heads) - 1))):
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for number in chosen:
            table.add_column(Text(heads[number]), justify="right" if number else "left", no_wrap=number == 0)
        for row, cells in zip(summary.rows, rows, strict=True):
            table.add_row(*(Text(cells[number]) for number in chosen), style="bold green" if row.best else None)
        console.print(table)
        console.print()
    if console.is_terminal:
        _show_plot(summary, console)
    for sentence in (LEGEND, *remarks(summary)):
        console.print(Text(sentence))


def _show_plot(summary: Summary, console: Console) -> None:
    chart = speed_chart(summary)
    rows = draw(chart, min(console.width, PLOT_WIDTH), PLOT_HEIGHT) if chart.worth_drawing else []
    for row in rows:
        console.print(
            Text.assemble(*((text, "" if line is None else COLOURS[line % len(COLOURS)]) for text, line in row))
        )
    if rows:
        console.print()
