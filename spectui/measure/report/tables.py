"""The one report of runs: text for a terminal or the window, CSV, and one JSON object."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from rich.cells import cell_len

from spectui.knobs import title
from spectui.measure.bench.conditions import SERVERS
from spectui.measure.bench.results import Run
from spectui.measure.bench.settings import SWEPT, Setting
from spectui.measure.bench.summary import Row, Summary, remarks, speed, spread
from spectui.speculation.statistics import total
from spectui.store.export import finite
from spectui.text import printable

DASH = "–"


def head(summary: Summary) -> str:
    """What was measured, in a line."""
    if not summary.runs:
        return "Nothing was measured."
    run = summary.runs[0]
    pair = f"{run.target} drafted by {run.draft}" if run.draft else run.target
    learned = (
        "nothing of the prompt in the cache, nothing learned"
        if run.target != SERVERS
        else "where a server can be told so"
    )
    counts = [len(cell) for row in summary.rows for cell in row.cells.values()]
    times = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    of_runs = "one run" if max(counts) == 1 else f"medians of {times} runs"
    heat = " and ".join(f"{each:g}" for each in summary.temperatures)
    return (
        f"{pair}: tokens per second of decoding, at most {run.predict} tokens, temperature {heat}, seed {run.seed}; {of_runs}, "
        f"each from cold ({learned})."
    )


def columns(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """The heads, and a row of cells for each setting."""
    figures = ("decoding", "gain", "n_drafted", "n_accept", "accept %", "tokens/pass", "runs")
    heads = ["setting", *summary.prompts, *figures]
    return heads, [_cells(row, summary) for row in summary.rows]


def _cells(row: Row, summary: Summary) -> list[str]:
    statistics = row.statistics
    mark = " *" if row.best else " =" if row.tie else ""
    runs = sorted({len(cell) for cell in row.cells.values()})
    return [
        summary.label(row.setting) + mark,
        *(_speed(row, prompt) for prompt in summary.prompts),
        DASH if row.decoding is None else f"{_percent(row.decoding.ratio)} %",
        _gain(row),
        str(statistics.drafted),
        str(statistics.accepted),
        DASH if statistics.acceptance is None else f"{100 * statistics.acceptance:.1f}",
        DASH if statistics.tokens_per_pass is None else f"{statistics.tokens_per_pass:.2f}",
        "-".join(map(str, dict.fromkeys((runs[0], runs[-1])))),
    ]


def _gain(row: Row) -> str:
    """ "+6 % (+4 to +9)"."""
    if row.gain is None:
        return DASH
    ratio, low, high = (None if each is None else _percent(each) for each in row.gain[:3])
    return f"{ratio} %" if low in (None, high) else f"{ratio} % ({low} to {high})"


def _percent(ratio: float) -> str:
    return ">+900" if ratio > 10 else f"{100 * (ratio - 1):+.0f}"


def _speed(row: Row, prompt: str) -> str:
    if prompt not in row.cells:
        return DASH
    range_of_runs = spread(row.cells[prompt])
    return f"{speed(row.cells[prompt]):.1f}" + ("" if range_of_runs is None else f" ±{50 * range_of_runs:.0f}%")


LEGEND = (
    "A fixed setting is drafter draft-max/draft-min/p-min. Against the target alone, mean over the prompts: decoding, and "
    "gain, of whole replies with the reading of the prompt, with bounds that hold for all rows together in 95 %. The best "
    "(*) has the largest gain, a certain one if there is any; = cannot be told from it. ± half of the range of the runs; "
    "n_drafted and n_accept: of all runs."
)


def text(summary: Summary, width: int = 100) -> list[str]:
    """Speeds and then drafts, in two tables, and what they mean; sentences are wrapped to this width."""
    lines = wrap(printable(head(summary)), width)
    if not summary.rows:
        return lines
    heads, rows = columns(summary)
    speeds = len(summary.prompts) + 3
    for chosen in ((*range(speeds), len(heads) - 1), (0, *range(speeds, len(heads) - 1))):
        lines += [*aligned([[printable(row[number]) for number in chosen] for row in (heads, *rows)]), ""]
    return lines + [line for sentence in (LEGEND, *remarks(summary)) for line in wrap(printable(sentence), width)]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of one table in lines: the first column on the left, the others on the right of their width."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        line = first + " " * (widths[0] - cell_len(first))
        for cell, width in zip(others, widths[1:], strict=True):
            line += " " * (2 + width - cell_len(cell)) + cell
        lines.append(line.rstrip())
    return lines


def as_csv(summary: Summary) -> str:
    """A line for each setting and prompt."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [title(key) for key in SWEPT]
    writer.writerow(
        ["setting", "baseline", *names, "prompt", "runs", "tokens_per_s", "slowest", "fastest", "speed_up", "n_drafted",
         "n_accept", "acceptance", "tokens_per_pass"]
    )  # fmt: skip
    for each in _cell_records(summary):
        setting = each["setting"]
        rest = [value for key, value in each.items() if key not in ("setting", "acceptance_by_position")]
        writer.writerow(
            [Setting(**setting).label, setting["baseline"], *(setting[key] for key in SWEPT), *map(_plain, rest)]
        )
    return out.getvalue()


def _plain(value: Any) -> Any:
    return "" if value is None else round(value, 4) if isinstance(value, float) else value


def _cell_records(summary: Summary) -> list[dict[str, Any]]:
    plain = {
        (row.setting.temperature, prompt): speed(cell)
        for row in summary.rows if row.setting.baseline == "target"
        for prompt, cell in row.cells.items()
    }  # fmt: skip
    records = []
    for row in summary.rows:
        for prompt, cell in row.cells.items():
            speeds, statistics = [run.decoding for run in cell], total(run.statistics for run in cell)
            alone = plain.get((row.setting.temperature, prompt))
            records.append({
                "setting": asdict(row.setting), "prompt": prompt, "runs": len(speeds), "tokens_per_s": speed(cell),
                "slowest": min(speeds), "fastest": max(speeds), "speed_up": speed(cell) / alone if alone else None,
                "n_drafted": statistics.drafted, "n_accept": statistics.accepted, "acceptance": statistics.acceptance,
                "tokens_per_pass": statistics.tokens_per_pass, "acceptance_by_position": statistics.per_position,
            })  # fmt: skip
    return records


def as_json(summary: Summary, runs: Sequence[Run], more: Mapping[str, Any] | None = None) -> str:
    """One object: all runs as they were kept, what the tables make of them, and what a command adds."""
    whole = finite(
        {
            "schema": "spectui.bench.report/1",
            "runs": [asdict(run) for run in runs],
            "cells": _cell_records(summary),
            "settings": [
                {"setting": asdict(row.setting), "best": row.best}
                | {name: (each := getattr(row, name)) and each._asdict() for name in ("gain", "decoding", "behind")}
                for row in summary.rows
            ],
            "remarks": remarks(summary),
            **(more or {}),
        }
    )
    return json.dumps(whole, allow_nan=False)
