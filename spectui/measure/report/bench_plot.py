"""The plots of a bench: speed against draft-max, acceptance by position, speed-up by prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spectui.measure.bench.summary import Row, Summary
from spectui.measure.report.bench_chart import speed_chart
from spectui.measure.report.plots import new_figure, save_plot

_MOST_LINES = 8
"""Settings whose acceptance is drawn: the best ones."""


def draw(summary: Summary, file: Path) -> None:
    """Write the three plots into one file. Raises SpectuiError."""
    figure, (speed, acceptance, prompts) = new_figure(3)
    ranked = sorted(
        (row for row in summary.rows if not row.setting.baseline), key=lambda row: row.gain or 0, reverse=True
    )
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
    save_plot(figure, file)


def _speed(axes: Any, summary: Summary) -> None:
    chart = speed_chart(summary)
    for line in chart.lines:
        if line.level:
            axes.axhline(line.points[0][1], color="gray", linestyle="--", label=line.label)
        else:
            axes.plot(*zip(*line.points, strict=True), marker="o", label=line.label)
    axes.set(xlabel=chart.x, ylabel=f"{chart.y} (geometric mean over the prompts)", ylim=(0, None))


def _prompts(axes: Any, summary: Summary, ranked: list[Row]) -> None:
    """The best setting's speed-up on each prompt."""
    plain = {row.setting.temperature: row for row in summary.rows if row.setting.baseline == "target"}
    best = next((row for row in ranked if row.setting.temperature in plain and row.gains), None)
    if best is None:
        return
    alone = plain[best.setting.temperature].cells
    gains = {prompt: cell.speed / alone[prompt].speed for prompt, cell in best.cells.items() if prompt in alone}
    axes.barh(list(gains), list(gains.values()), label=best.setting.label)
    axes.axvline(1.0, color="gray", linestyle="--")
    axes.set(xlabel="speed-up against the target alone", xlim=(0, None))
