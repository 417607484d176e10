"""Measurements as the window shows them while they go on: tables, charts, sentences, and what to use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import geometric_mean
from typing import Any

from spectui.engine.events import Loaded
from spectui.measure.bench.settings import SWEPT, Setting
from spectui.measure.bench.summary import Summary, remarks
from spectui.measure.compare import Comparison
from spectui.measure.costs import SIZES, Measurement, Passes, advise
from spectui.measure.live.view import View, Winner
from spectui.measure.report import compare as compared
from spectui.measure.report import costs as costed
from spectui.measure.report.bench_chart import line_label, speed_chart
from spectui.measure.report.chart import Chart, ChartLine
from spectui.measure.report.tables import DASH, columns
from spectui.measure.tune.search import AUTO, PLAIN, Trial, Tuned

_BENCH_LAST = ("n_drafted", "n_accept")
"""Columns that a narrow window can do without."""


def bench_view(summary: Summary) -> View:
    """The table of a bench, and what to use by it."""
    heads, rows = columns(summary)
    order = sorted(range(len(heads)), key=lambda number: heads[number] in _BENCH_LAST)
    return View(
        tuple(heads[number] for number in order),
        tuple(tuple(row[number] for number in order) for row in rows),
        tuple(number for number, row in enumerate(summary.rows) if row.best),
        speed_chart(summary),
        tuple(remarks(summary)),
        _winner(summary.chosen) if summary.chosen is not None else None,
    )


def _winner(setting: Setting) -> Winner:
    """A setting to be used. The temperature is a person's own, and so is p-min where it has no meaning."""
    others = ("temperature",) if setting.policy == "fixed" else ("temperature", "p_min")
    knobs: dict[str, Any] = {key: getattr(setting, key) for key in SWEPT if key not in others}
    return Winner(setting.label, {"drafter": "off"} if setting.baseline else knobs)


def costs_view(loaded: Loaded, found: Measurement) -> View:
    """T(n) of both models at each context length, in milliseconds and plain passes; steps are marked by a star."""
    cells = [cell for cell in found.cells if cell.seconds.get(1)]
    found = Measurement(cells, found.stopped, found.left_out)  # one cell may be empty yet
    medians = [(cell.medians, set(cell.steps)) for cell in cells]
    rows = []
    for n in SIZES:
        row = [str(n)]
        for known, steps in medians:
            row += (
                [f"{known[n] * 1e3:.1f}", f"{known[n] / known[1]:.2f}" + "*" * (n in steps)]
                if n in known
                else [DASH, DASH]
            )
        if any(n in known for known, _ in medians):
            rows.append(tuple(row))
    heads = [head for cell in cells for head in (f"{_passes(cell)}, ms", "passes")]
    lines = [
        ChartLine(_passes(cell), tuple((n, 1e3 * seconds) for n, seconds in known.items()))
        for cell, (known, _) in zip(cells, medians, strict=True)
    ]
    return View(
        ("n", *heads),
        tuple(rows),
        (),
        Chart("tokens in the pass", "ms", tuple(lines)),
        tuple(_costs_sentences(loaded, found)),
    )


def _passes(cell: Passes) -> str:
    return f"{cell.model} behind {cell.context}" if cell.context else cell.model


def _costs_sentences(loaded: Loaded, found: Measurement) -> Iterable[str]:
    target, costs = found.of("target"), found.costs(loaded.costs)
    if target is None:
        yield from costed.remarks(found)
        return
    yield from costed.model_lines(loaded, costs)
    if len(target.medians) > 1 and (loaded.draft is None or costs.draft.next):
        yield f"As a fixed length: {advise(costs, target.steps).sentence}"
    yield from costed.remarks(found)


def tune_view(trials: Sequence[Trial], found: Tuned | None = None, sentences: Sequence[str] = ()) -> View:
    """The settings that were tried, each by its longest replies to all prompts, best first.

    `found` and `sentences`: the search's end.
    """
    prompts = list(dict.fromkeys(trial.prompt for trial in trials))
    replies: dict[tuple[Setting, int], dict[str, list[float]]] = {}
    for trial in trials:
        if trial.speed > 0:
            replies.setdefault((trial.setting, trial.tokens), {}).setdefault(trial.prompt, []).append(trial.decoding)
    latest: dict[Setting, int] = {}
    for (setting, tokens), by_prompt in replies.items():
        if len(by_prompt) == len(prompts):
            latest[setting] = max(tokens, latest.get(setting, 0))
    speeds = {setting: replies[setting, tokens] for setting, tokens in latest.items()}
    means = {
        setting: geometric_mean(geometric_mean(each) for each in by_prompt.values())
        for setting, by_prompt in speeds.items()
    }
    ranked = sorted(means, key=lambda each: (each not in (PLAIN, AUTO), -latest[each], -means[each]))
    best = found.chosen if found is not None else None
    rows = tuple(
        (
            each.label,
            f"{means[each]:.1f}",
            f"{means[each] / means[PLAIN]:.2f}x" if PLAIN in means else DASH,
            str(latest[each]),
            *(f"{geometric_mean(speeds[each][prompt]):.1f}" for prompt in prompts),
        )
        for each in ranked
    )
    chart = _tune_chart(means)
    marked = tuple(number for number, each in enumerate(ranked) if each == best)
    winner = _winner(best) if best is not None else None
    return View(("setting", "t/s", "of plain", "tokens", *prompts), rows, marked, chart, tuple(sentences), winner)


def _tune_chart(means: dict[Setting, float]) -> Chart:
    lines: dict[str, list[tuple[float, float]]] = {}
    for setting, mean in means.items():
        if setting not in (PLAIN, AUTO):
            lines.setdefault(line_label(setting), []).append((setting.draft_max, mean))
    levels = [ChartLine(each.label, ((0, means[each]),), level=True) for each in (PLAIN, AUTO) if each in means]
    drawn = [ChartLine(label, tuple(sorted(points))) for label, points in lines.items()]
    return Chart("draft-max", "tokens per second", (*levels, *drawn))


def compare_view(found: Comparison) -> View:
    """The drafts, the best first; the chart is an estimate, from the costs and the acceptance that were measured."""
    ranked = [row for row in found.ranked() if row.info is not None or row.replies or row.problem]
    if not any(row.replies for row in ranked):
        return View()
    rows = tuple(compared.cells(row, found) for row in ranked)
    lines = []
    for row in ranked:
        speeds = row.expected_by_length
        if speeds:
            lines.append(ChartLine(row.name, tuple(enumerate(speeds))))
    pays = compared.pays(found)
    best = ranked[0]
    return View(
        compared.HEADERS,
        rows,
        (0,) if pays else (),
        Chart("draft-max", "speed-up (estimate)", tuple(lines)),
        (*(f"{row.name}: {row.problem}" for row in ranked if row.problem), compared.verdict(found)),
        Winner(best.name, draft=best.path) if pays and best.path else None,
    )
