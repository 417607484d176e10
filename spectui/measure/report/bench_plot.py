"""The plots of a bench: speed against draft-max, acceptance by position, speed-up by prompt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui.measure.bench.summary import Row, Summary
from spectui.measure.report.bench_chart import speed_chart
from spectui.measure.report.plots import new_figure, save_plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LINES = 8
"""Settings whose acceptance is drawn: the best ones."""


def draw(summary: Summary, file: Path) -> None:
    """Write the three plots into one file. Raises SpectuiError."""
    save_plot(plotted(summary), file)


def plotted(summary: Summary) -> Figure:
    """The three plots."""
    figure, (speed, acceptance, prompts) = new_figure(3)
    ranked = sorted((row for row in summary.rows if not row.setting.baseline), key=lambda row: row.order, reverse=True)
    _speed(speed, summary)
    for row in ranked[:_MOST_LINES]:
        shares = row.statistics.per_position
        acceptance.plot(range(1, len(shares) + 1), shares, marker=".", label=row.setting.label)
    acceptance.set(xlabel="position in the draft", ylabel="acceptance", ylim=(0, 1.02))
    _prompts(prompts, summary, ranked)
    for axes in (speed, acceptance, prompts):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
    return figure


def _speed(axes: Any, summary: Summary) -> None:
    chart = speed_chart(summary)
    for line in chart.lines:
        if line.level:
            axes.axhline(line.points[0][1], color="gray", linestyle="--", label=line.label)
        else:
            axes.plot(*zip(*line.points, strict=True), marker="o", label=line.label)
    axes.set(xlabel=chart.x, ylabel=f"{chart.y} (geometric mean over the prompts)", ylim=(0, None))


def _prompts(axes: Any, summary: Summary, ranked: list[Row]) -> None:
    """The best setting's speed-up on each prompt, or its speed where the target alone was not measured."""
    plain = {row.setting.temperature: row for row in summary.rows if row.setting.baseline == "target"}
    best = next((row for row in ranked if row.speeds), None)
    if best is None:
        return
    known = best.setting.temperature in plain and bool(best.gains)
    alone = plain[best.setting.temperature].cells if known else {}
    figures = {prompt: cell.speed / alone[prompt].speed if known else cell.speed for prompt, cell in best.cells.items()}
    axes.barh(list(figures), list(figures.values()), label=best.setting.label)
    if known:
        axes.axvline(1.0, color="gray", linestyle="--")
    axes.set(xlabel="speed-up against the target alone" if known else "tokens per second", xlim=(0, None))
