"""What the plots of a bench show, and the files that they are written to."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spectui.measure.bench.results import Run
from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import summarise
from spectui.measure.report.bench_plot import draw, plotted
from tests.measure.bench.runs import DRAFT, FAST, SLOW, TARGET, a_run

SHORT = Setting("model", "fixed", 8, 0, 0.75)


def some(*baselines: Setting) -> list[Run]:
    """Two prompts. On the second one FAST has a third of its speed, and all others half of theirs."""
    speeds = {TARGET: (10.0, 5.0), FAST: (24.0, 8.0), SLOW: (14.0, 7.0), SHORT: (12.0, 6.0), DRAFT: (40.0, 20.0)}
    return [
        a_run(setting, speed, number, prompt)
        for number in (0, 1)
        for setting in (*baselines, FAST, SLOW, SHORT)
        for prompt, speed in zip(("python", "story"), speeds[setting], strict=True)
    ]


def test_speed_has_a_line_for_each_p_min_and_a_level_for_the_target_alone():
    axes = plotted(summarise(some(TARGET, DRAFT))).axes[0]
    lines = {str(line.get_label()): line for line in axes.lines}
    assert list(lines) == ["target alone", "model draft-min 0 p-min 0.4", "model draft-min 0 p-min 0.75"]
    assert list(lines["model draft-min 0 p-min 0.4"].get_xdata()) == [8, 16]
    assert list(lines["model draft-min 0 p-min 0.4"].get_ydata()) == pytest.approx([(24 * 8) ** 0.5, (14 * 7) ** 0.5])
    assert list(lines["target alone"].get_ydata()) == pytest.approx([50**0.5] * 2)
    assert (axes.get_xlabel(), axes.get_ylim()[0]) == ("draft-max", 0)
    legend = axes.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == list(lines)


def test_acceptance_is_drawn_by_position_for_each_setting_best_first():
    axes = plotted(summarise(some(TARGET, DRAFT))).axes[1]
    assert [line.get_label() for line in axes.lines] == [FAST.label, SLOW.label, SHORT.label]
    assert (list(axes.lines[0].get_xdata()), list(axes.lines[0].get_ydata())) == ([1], [0.5])


@pytest.mark.parametrize(
    ("baselines", "axis", "figures"),
    [((TARGET,), "speed-up against the target alone", [2.4, 1.6]), ((), "tokens per second", [24.0, 8.0])],
)
def test_the_best_setting_has_a_bar_for_each_prompt(baselines, axis, figures):
    axes = plotted(summarise(some(*baselines))).axes[2]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(figures)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["python", "story"]
    legend = axes.get_legend()
    assert axes.get_xlabel() == axis and legend is not None and legend.get_texts()[0].get_text() == FAST.label


def test_the_name_of_the_file_says_its_format(tmp_path: Path):
    summary = summarise(some(TARGET))
    draw(summary, tmp_path / "plot.png")
    data = (tmp_path / "plot.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR"
    width, height = struct.unpack(">II", data[16:24])
    assert width == 4 * height, "three panels of 6.4 to 4.8"
    draw(summary, tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text()
