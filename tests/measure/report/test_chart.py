"""Charts of characters: where points lie, how lines are told apart, what is left out where there is no room."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from spectui.measure.bench.summary import summarise
from spectui.measure.report.bench_chart import speed_chart
from spectui.measure.report.chart import Chart, ChartLine, draw
from spectui.measure.report.terminal import show
from tests.measure.bench.runs import FAST, SLOW, TARGET, a_run

ONE = ChartLine("one", ((4, 10), (8, 20), (16, 5)))
LEVEL = ChartLine("alone", ((0, 10),), level=True)
BENCH = summarise([a_run(TARGET, 10), a_run(FAST, 18), a_run(SLOW, 14)])


def text(chart: Chart, width: int = 60, height: int = 14) -> list[str]:
    return ["".join(piece.text for piece in row) for row in draw(chart, width, height)]


def test_a_point_stands_beside_its_figure_and_above_its_tick():
    rows = text(Chart("draft-max", "t/s", (ONE,)))
    top = next(row for row in rows if row.lstrip().startswith("20┤"))
    axis = rows.index(next(row for row in rows if "└" in row))
    tick = top.index("●")
    assert rows[axis][tick] == "┬" and rows[axis + 1][tick] == "8"
    assert rows[axis - 1].lstrip().startswith("0┤"), "the axis begins at 0"
    assert rows[0] == "t/s, by draft-max" and rows[axis + 1].split() == ["4", "8", "16"]


def test_lines_have_marks_of_their_own_and_a_level_is_drawn_from_side_to_side():
    other = ChartLine("two", ((4, 15), (16, 15)))
    drawn = draw(Chart("x", "y", (LEVEL, ONE, other)), 60, 14)
    signs = {number: "".join(p.text for row in drawn[:-1] for p in row if p.line == number) for number in range(3)}
    assert set(signs[0]) == {"╌"} and len(signs[0]) > 30
    assert signs[1].count("●") == 3 and signs[2].count("▲") == 2
    assert "".join(p.text for p in drawn[-1]).split() == ["╌", "alone", "●", "one", "▲", "two"]


def test_a_line_is_joined_between_its_points():
    rows = text(Chart("x", "y", (ChartLine("flat", ((1, 6), (9, 6))),)), 40)
    (inside,) = [row.partition("┤")[2] for row in rows if "┤" in row and "●" in row]
    assert inside[0] == inside[-1] == "●" and all("⠀" < sign <= "⣿" for sign in inside[1:-1])


def test_many_points_share_marks():
    rows = text(Chart("n", "ms", (ChartLine("all", tuple((n, n) for n in range(1, 201))),)), 60)
    assert 5 <= sum(row.count("●") for row in rows[:-1]) <= 12


@pytest.mark.parametrize("size", [(24, 5), (30, 7), (80, 16), (160, 40)])
def test_no_row_is_wider_than_the_room(size):
    width, height = size
    long = ChartLine("a very long label of a setting that nobody could read", ((1, 0.001), (2, 0.0017)))
    rows = text(Chart("draft-max", "tokens per second", (LEVEL, ONE, long)), width, height)
    assert rows and max(map(cell_len, rows)) <= width
    assert sum("┤" in row or "│" in row for row in rows) == height - 3


def test_nothing_is_drawn_without_points_or_room():
    assert draw(Chart("x", "y", (LEVEL,)), 80, 20) == []
    assert draw(Chart("x", "y", (ONE,)), 20, 20) == [] == draw(Chart("x", "y", (ONE,)), 80, 4)
    zero = text(Chart("x", "y", (ChartLine("zero", ((1, 0), (2, 0))),)))
    assert any("●" in row for row in zero)


def test_the_chart_of_a_bench_has_a_line_for_each_p_min_and_the_target_alone():
    chart = speed_chart(BENCH)
    assert [line.label for line in chart.lines] == ["target alone", "model draft-min 0 p-min 0.4"]
    assert chart.lines[0].level and chart.lines[0].points[0][1] == pytest.approx(10)
    assert [x for x, _ in chart.lines[1].points] == [8, 16]
    assert [y for _, y in chart.lines[1].points] == pytest.approx([18, 14])


def test_a_bench_draws_its_plot_on_a_terminal_and_nowhere_else():
    def shown(terminal: bool, summary=BENCH) -> str:
        out = io.StringIO()
        show(summary, Console(file=out, force_terminal=terminal, width=80, color_system=None))
        return out.getvalue()

    assert "draft-max" in shown(True) and "┤" in shown(True) and "● model draft-min 0 p-min 0.4" in shown(True)
    assert "┤" not in shown(False)
    assert "┤" not in shown(True, summarise([a_run(TARGET, 10), a_run(FAST, 18)])), "one draft-max makes no line"
