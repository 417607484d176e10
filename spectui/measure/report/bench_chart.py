"""Speed against draft-max: the lines of a bench's chart."""

from __future__ import annotations

from statistics import geometric_mean

from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import Row, Summary
from spectui.measure.report.chart import Chart, ChartLine


def speed_chart(summary: Summary) -> Chart:
    """A line for each drafter, draft-min, p-min and temperature; the target alone is a level. Speeds are
    geometric means over the prompts."""
    levels: list[ChartLine] = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in summary.rows:
        setting, speed = row.setting, _mean(row)
        if setting.baseline == "target":
            levels.append(ChartLine(summary.label(setting), ((0, speed),), level=True))
        elif not setting.baseline:
            lines.setdefault(line_label(setting, len(summary.temperatures) > 1), []).append((setting.draft_max, speed))
    drawn = [ChartLine(label, tuple(sorted(points))) for label, points in lines.items()]
    return Chart("draft-max", "tokens per second", (*levels, *drawn))


def line_label(setting: Setting, heated: bool = False) -> str:
    """The setting without its draft-max, and with its temperature if wanted."""
    heat = f" temp {setting.temperature:g}" if heated else ""
    if setting.policy == "fixed":
        return f"{setting.drafter_label} draft-min {setting.draft_min} p-min {setting.p_min:g}{heat}"
    drafter = "" if setting.drafter == "auto" else f", drafter {setting.drafter}"
    return f"{setting.policy_label}{drafter}{heat}"


def _mean(row: Row) -> float:
    return geometric_mean(max(cell.speed, 1e-9) for cell in row.cells.values())
