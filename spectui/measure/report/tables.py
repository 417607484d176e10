"""A bench as a table: for the terminal, as Markdown, as CSV, as one JSON object, and in the form of llama-swap's guide."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from spectui.measure.bench.settings import SWEPT, Setting, named
from spectui.measure.bench.summary import Row, Summary, remarks, total

DASH = "–"
_SEED_NAMES = {"typescript": "TS"}


def head(summary: Summary) -> str:
    """What was measured, in a line."""
    if not summary.runs:
        return "Nothing was measured."
    run = summary.runs[0]
    pair = f"{run.target} drafted by {run.draft}" if run.draft else run.target
    counts = [len(cell.runs) for row in summary.rows for cell in row.cells.values()]
    times = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    of_runs = "one run" if max(counts) == 1 else f"medians of {times} runs"
    return (
        f"{pair}: tokens per second of decoding, at most {run.predict} tokens, seed {run.seed}; {of_runs}, each "
        "from cold (nothing of the prompt in the cache, nothing learned)."
    )


def columns(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """The heads, and a row of cells for each setting."""
    heads = ["setting", *summary.prompts, "gain", "n_drafted", "n_accept", "accept %", "tokens/pass", "runs"]
    return heads, [_cells(row, summary.prompts) for row in summary.rows]


def _cells(row: Row, prompts: Sequence[str]) -> list[str]:
    statistics = row.statistics
    mark = " *" if row.best else " =" if row.tie else ""
    runs = sorted({len(cell.runs) for cell in row.cells.values()})
    return [
        row.setting.label + mark,
        *(_speed(row, prompt) for prompt in prompts),
        DASH if row.gain is None else f"{100 * (row.gain - 1):+.0f} %",
        str(statistics.drafted),
        str(statistics.accepted),
        DASH if statistics.acceptance is None else f"{100 * statistics.acceptance:.1f}",
        DASH if statistics.tokens_per_pass is None else f"{statistics.tokens_per_pass:.2f}",
        "-".join(map(str, dict.fromkeys((runs[0], runs[-1])))),
    ]


def _speed(row: Row, prompt: str) -> str:
    cell = row.cells.get(prompt)
    if cell is None:
        return DASH
    return f"{cell.speed:.1f}" + ("" if cell.spread is None else f" ±{50 * cell.spread:.0f}%")


LEGEND = (
    "A fixed setting is drafter draft-max/draft-min/p-min. gain: geometric mean over the prompts against the target alone; "
    "* the best, = not told from it (their runs overlap); ± half of the range of the runs; n_drafted and n_accept: of all runs."
)


def markdown(summary: Summary) -> str:
    """The table with its head and remarks."""
    heads, rows = columns(summary)
    return "\n\n".join([head(summary), _piped(heads, rows), LEGEND, *remarks(summary)])


def _piped(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def as_csv(summary: Summary) -> str:
    """A line for each setting and prompt."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [named(key) for key in SWEPT]
    writer.writerow(
        ["baseline", *names, "prompt", "runs", "tokens_per_s", "slowest", "fastest", "speed_up", "n_drafted", "n_accept",
         "acceptance", "tokens_per_pass"]
    )  # fmt: skip
    for each in _cell_records(summary):
        setting = each["setting"]
        rest = [value for key, value in each.items() if key not in ("setting", "acceptance_by_position")]
        writer.writerow([setting["baseline"], *(setting[key] for key in SWEPT), *map(_plain, rest)])
    return out.getvalue()


def _plain(value: Any) -> Any:
    return "" if value is None else round(value, 4) if isinstance(value, float) else value


def _cell_records(summary: Summary) -> list[dict[str, Any]]:
    plain = {
        (row.setting.temperature, prompt): cell.speed
        for row in summary.rows if row.setting.baseline == "target"
        for prompt, cell in row.cells.items()
    }  # fmt: skip
    records = []
    for row in summary.rows:
        for prompt, cell in row.cells.items():
            speeds, statistics = [run.speed for run in cell.runs], total(cell.runs)
            alone = plain.get((row.setting.temperature, prompt))
            records.append({
                "setting": asdict(row.setting), "prompt": prompt, "runs": len(speeds), "tokens_per_s": cell.speed,
                "slowest": min(speeds), "fastest": max(speeds), "speed_up": cell.speed / alone if alone else None,
                "n_drafted": statistics.drafted, "n_accept": statistics.accepted, "acceptance": statistics.acceptance,
                "tokens_per_pass": statistics.tokens_per_pass, "acceptance_by_position": statistics.per_position,
            })  # fmt: skip
    return records


def as_json(summary: Summary) -> str:
    """One object: the runs as they were kept, and what the tables make of them."""
    return json.dumps(
        {
            "schema": "spectui.bench.report/1",
            "runs": [asdict(run) for run in summary.runs],
            "cells": _cell_records(summary),
            "settings": [
                {"setting": asdict(row.setting), "gain": row.gain, "gains": row.gains, "best": row.best, "tie": row.tie}
                for row in summary.rows
            ],
            "remarks": remarks(summary),
        },
        allow_nan=False,
    )


SEED_SETTINGS = [
    Setting("model", "fixed", most, least, p_min, 0.1)
    for most, least, p_min in (
        *((16, least, p_min) for least in (1, 2, 4) for p_min in (0.9, 0.4, 0.1)), (8, 1, 0.4), (4, 1, 0.4),
    )
]  # fmt: skip
"""The rows of the table in llama-swap's guide."""

SEED_PROMPTS = ("python", "typescript", "swift")
SEED_SYSTEM = "you only write code."


def seed_table(summary: Summary) -> str:
    """The table of llama-swap's guide: draft-max, draft-min, draft-p-min, and a column of speeds for each prompt.

    The fastest of each column is in italics; `(fastest)` stands in the best row.
    """
    fixed = [row for row in summary.rows if not row.setting.baseline and row.setting.policy == "fixed"]
    top = max(fixed, key=lambda row: row.order, default=None)
    lines = []
    for row in fixed:
        cells = []
        for number, prompt in enumerate(summary.prompts):
            speeds = [other.cells[prompt].speed for other in fixed if prompt in other.cells]
            cell = row.cells.get(prompt)
            text = DASH if cell is None else f"{cell.speed:.2f}"
            if cell is not None and cell.speed == max(speeds):
                text = f"_{text}_"
            cells.append(text + (" (fastest)" if row is top and number == 0 else ""))
        setting = row.setting
        lines.append([str(setting.draft_max), str(setting.draft_min), f"{setting.p_min:g}", *cells])
    heads = ["draft-max", "draft-min", "draft-p-min", *(_SEED_NAMES.get(name, name) for name in summary.prompts)]
    plain = [row for row in summary.rows if row.setting.baseline == "target"]
    alone = [
        f"{cell.speed:.2f} ({_SEED_NAMES.get(prompt, prompt)})" for row in plain for prompt, cell in row.cells.items()
    ]
    first = [f"Baseline: {', '.join(alone)} tokens/second without a draft model.", ""] if alone else []
    return "\n".join([*first, _piped(heads, lines)])
