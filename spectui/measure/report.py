"""The one report of runs: text for a terminal, and one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from rich.cells import cell_len, set_cell_size

from spectui.measure.bench.conditions import SERVERS
from spectui.measure.bench.results import Run
from spectui.measure.bench.summary import Row, Summary, remarks, speed, spread
from spectui.store.export import finite
from spectui.text import printable

DASH = "–"
"""In place of an unknown figure."""

_GAP = 2
"""Columns between two cells."""

_NARROWEST = 12
"""Columns that the first column keeps, however narrow the terminal is."""

LEGEND = (
    "A fixed setting is drafter draft-max/draft-min/p-min. Against the target alone, mean over the prompts: decoding, and "
    "gain, how much sooner a whole reply is there, with the reading of the prompt. In brackets the range of the true gain: in "
    "19 of 20 tables every range is right. The best (*) has the largest gain, a certain one if there is any; = cannot be told "
    "from it. ± half of the range of the runs; n_drafted and n_accept: of all runs."
)

DIVERGENCE = "KL: divergence of the draft from the target over 128 tokens of a page, in nats; – where it drafts by text."


def head(summary: Summary) -> str:
    """What was measured, in a line."""
    if not summary.runs:
        return "Nothing was measured."
    conditions = summary.runs[0].conditions
    pair = f"{conditions.target} drafted by {conditions.draft}" if conditions.draft else conditions.target
    learned = (
        "nothing of the prompt in the cache, nothing learned"
        if conditions.target != SERVERS
        else "where a server can be told so"
    )
    counts = [len(cell) for row in summary.rows for cell in row.cells.values()]
    times = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    of_runs = "one run" if max(counts) == 1 else f"medians of {times} runs"
    heat = " and ".join(f"{temperature:g}" for temperature in summary.temperatures)
    return (
        f"{pair}: tokens per second of decoding, at most {summary.runs[0].predict} tokens, temperature {heat}, seed "
        f"{conditions.seed}; {of_runs}, each from cold ({learned})."
    )


def text(summary: Summary, width: int = 100) -> list[str]:
    """The table and what it means, in this width."""
    lines = wrap(printable(head(summary)), width)
    if not summary.rows:
        return lines
    lines += ["", *table([[printable(cell) for cell in row] for row in _table(summary)], width), ""]
    legend = [LEGEND, *([DIVERGENCE] if _has_divergence(summary) else [])]
    return lines + [line for sentence in (*legend, *remarks(summary)) for line in wrap(printable(sentence), width)]


def table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """The lines of a table: its first column on the left, the others on the right of their width.

    Columns that do not fit follow in tables below, beside the first column again, which is cut where it is too wide.
    """
    first, *widths = (max(map(cell_len, column)) for column in zip(*rows, strict=True))
    first = min(first, max(_NARROWEST, width - _GAP - max(widths, default=0)))
    begin = 0
    while begin < len(widths):
        end, used = begin + 1, first + _GAP + widths[begin]
        while end < len(widths) and used + _GAP + widths[end] <= width:
            used += _GAP + widths[end]
            end += 1
        if begin:
            yield ""
        for head, *cells in rows:
            line = set_cell_size(head, first) if cell_len(head) <= first else set_cell_size(head, first - 1) + "…"
            for cell, wide in zip(cells[begin:end], widths[begin:end], strict=True):
                line += " " * (_GAP + wide - cell_len(cell)) + cell
            yield line.rstrip()
        begin = end


def _table(summary: Summary) -> list[list[str]]:
    """The heads, and a row of cells for each setting."""
    figures = ("decoding", "gain", "runs", "n_drafted", "n_accept", "accept %", "tokens/pass")
    heads = ["setting", *summary.prompts, *figures]
    rows = [heads, *(_cells(row, summary) for row in summary.rows)]
    if _has_divergence(summary):
        for cells, last in zip(rows, ("KL", *map(_divergence, summary.rows)), strict=True):
            cells.append(last)
    return rows


def _cells(row: Row, summary: Summary) -> list[str]:
    statistics = row.statistics
    mark = " *" if row.best else " =" if row.tie else ""
    runs = sorted({len(cell) for cell in row.cells.values()})
    return [
        summary.label(row.setting) + mark,
        *(_speed(row, prompt) for prompt in summary.prompts),
        DASH if row.decoding is None else f"{_percent(row.decoding.ratio)} %",
        _gain(row),
        "-".join(map(str, dict.fromkeys((runs[0], runs[-1])))),
        str(statistics.drafted),
        str(statistics.accepted),
        DASH if statistics.acceptance is None else f"{100 * statistics.acceptance:.1f}",
        DASH if statistics.tokens_per_pass is None else f"{statistics.tokens_per_pass:.2f}",
    ]


def _has_divergence(summary: Summary) -> bool:
    return any(run.divergence is not None for run in summary.runs)


def _divergence(row: Row) -> str:
    known = [run.divergence for run in row.runs if run.divergence is not None and not row.setting.baseline]
    return f"{known[0]:.3f}" if known else DASH


def _gain(row: Row) -> str:
    """ "+6 % (+4 to +9)"."""
    if row.gain is None:
        return DASH
    ratio, low, high = (None if bound is None else _percent(bound) for bound in row.gain[:3])
    return f"{ratio} %" if low in (None, high) else f"{ratio} % ({low} to {high})"


def _percent(ratio: float) -> str:
    return ">+900" if ratio > 10 else f"{100 * (ratio - 1):+.0f}"


def _speed(row: Row, prompt: str) -> str:
    if prompt not in row.cells:
        return DASH
    range_of_runs = spread(row.cells[prompt])
    return f"{speed(row.cells[prompt]):.1f}" + ("" if range_of_runs is None else f" ±{50 * range_of_runs:.0f}%")


def as_json(summary: Summary, runs: Sequence[Run], more: Mapping[str, Any] | None = None) -> str:
    """One object: all runs as they were kept, what the tables make of them, and what a command adds."""
    whole = finite(
        {
            "schema": "spectui.bench.report/3",
            "runs": [asdict(run) for run in runs],
            "settings": [
                {"setting": asdict(row.setting), "best": row.best}
                | {
                    name: None if (verdict := getattr(row, name)) is None else verdict._asdict()
                    for name in ("gain", "decoding", "beside_best")
                }
                for row in summary.rows
            ],
            "remarks": remarks(summary),
            **(more or {}),
        }
    )
    return json.dumps(whole, allow_nan=False)
