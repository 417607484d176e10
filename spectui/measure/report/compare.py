"""A comparison of drafts as text and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spectui.chat.sentences import kernels_used
from spectui.engine.events import ModelInfo
from spectui.knobs import Setup
from spectui.measure.compare import DRAFT_MAX, Comparison, Row
from spectui.measure.divergence import TEXT
from spectui.speculation.statistics import Statistics
from spectui.store.export import finite, model_table, statistics_table

SCHEMA = "spectui.compare/1"

_ALONE = "target alone"
_WIDEST = 40
"""Characters of the longest name."""


def text_lines(found: Comparison) -> Iterator[str]:
    """The ranking, acceptance by kind of prompt, and what limits the figures."""
    alone = found.plain().tokens_per_s
    if found.target is None or alone is None:
        yield "Nothing was measured."
        return
    yield f"target  {found.target.description}: {alone:.1f} tokens a second alone; temperature {found.knobs.temperature:g}"
    yield ""
    width = min(_WIDEST, max(len(_ALONE), *(len(row.name) for row in found.rows)))
    yield f"{'drafter':<{width}}     MB  vocabulary ms/token      KL  accepted  estimate  measured"
    baseline = False
    for row in found.ranked():
        if not baseline and (row.speed_up or 0.0) < 1.0:
            yield _alone(width)
            baseline = True
        if row.problem is None:
            yield _line(row, width, found)
    if not baseline:
        yield _alone(width)
    for row in found.rows:
        remark = row.problem or (row.info.remark if row.info is not None else "")
        if remark:
            yield f"{row.name}: {remark}"
    yield ""
    yield from _kinds(found, width)
    yield ""
    yield from _notes(found)
    yield kernels_used(found.target, next((row.info for row in found.rows if row.info is not None), None))
    yield verdict(found)


def _alone(width: int) -> str:
    return f"{_ALONE:<{width}}{'-':>7}  {'-':<10}{'-':>9}{'-':>8}{'-':>10}{'-':>10}{'1.00x':>10}"


HEADERS = ("drafter", "MB", "vocabulary", "ms/token", "KL", "accepted", "estimate", "measured")


def cells(row: Row) -> tuple[str, ...]:
    """A drafter's figures under `HEADERS`."""
    return (
        row.name,
        "-" if row.info is None else f"{row.info.bytes / 1e6:.0f}",
        row.vocabulary or "-",
        "-" if row.draft_s is None else f"{1e3 * row.draft_s:.1f}",
        "-" if row.divergence is None else f"{row.divergence.kl:.3f}",
        _share(row.drafting.acceptance),
        _times(row.expected),
        _times(row.speed_up),
    )


def _line(row: Row, width: int, found: Comparison) -> str:
    name, size, vocabulary, cost, kl, accepted, expected, measured = cells(row)
    return (
        f"{_short(name, width):<{width}}{size:>7}  {vocabulary:<10}{cost:>9}{kl:>8}{accepted:>10}{expected:>10}"
        f"{measured:>10}{_mark(row, found)}"
    )


def _mark(row: Row, found: Comparison) -> str:
    """ " best" or " tie" where something is measurably faster than the target alone."""
    best = found.ranked()[0]
    if row.speed_up is None or not pays(found):
        return ""
    return " best" if row is best else " tie" if found.ties(row) else ""


def pays(found: Comparison) -> bool:
    """Is the best drafter faster than the target alone, by more than plain replies differ?"""
    return (found.ranked()[0].speed_up or 0.0) > 1.0 + (found.scatter or 0.0)


def _short(name: str, width: int) -> str:
    return name if len(name) <= width else "…" + name[1 - width :]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _kinds(found: Comparison, width: int) -> Iterator[str]:
    """Acceptance and measured speed-up by kind of prompt."""
    yield f"{'accepted, measured':<{width}}" + "".join(f"{kind:>16}" for kind in found.kinds)
    for row in found.ranked():
        if row.replies:
            cells = ""
            for kind in found.kinds:
                replies = row.replies.get(kind)
                accepted = Statistics.of(replies.drafted).acceptance if replies else None
                cells += f"{_share(accepted):>9}{_times(replies.speed_up if replies else None):>7}"
            yield f"{_short(row.name, width):<{width}}{cells}"
    speeds = [found.plain(kind).tokens_per_s for kind in found.kinds]
    yield f"{'target alone, tokens a second':<{width}}" + "".join(
        f"{'-' if s is None else f'{s:.1f}':>16}" for s in speeds
    )


def _notes(found: Comparison) -> Iterator[str]:
    yield f"accepted: of drafts of {DRAFT_MAX} tokens. estimate: from the costs measured at load and this acceptance."
    yield "measured: decoding with these settings against the target alone beside it, geometric mean of the prompts."
    compared = [row.divergence for row in found.rows if row.divergence is not None]
    if compared:
        low, high = (pick(each.positions for each in compared) for pick in (min, max))
        n = f"{high}" if low == high else f"{low} to {high}"
        yield f"KL: of the draft from the target in nats, mean of {n} positions of {TEXT}; mapped: over the shared tokens."
    if found.scatter is not None:
        yield f"The same plain replies differed by up to {found.scatter:.0%} in speed, so speed-ups within that are ties."
    if found.stopped:
        yield "Stopped: these are the figures until then."
    elif not all(row.complete or row.problem for row in found.rows):
        yield "The time was over before all prompts: --minutes gives more."


def verdict(found: Comparison) -> str:
    """Which drafter is best, in a sentence."""
    best = found.ranked()[0]
    if best.speed_up is None:
        return "No drafter was measured."
    if not pays(found):
        return f"None is measurably faster than the target alone; the best is {best.name} with {best.speed_up:.2f}x."
    ties = [row.name for row in found.ranked()[1:] if row.speed_up is not None and found.ties(row)]
    tied = f"; not to be told from it: {', '.join(ties)}" if ties else ""
    once = "; measured once, so it is not known how much of that is noise" if found.scatter is None else ""
    return f"Best: {best.name}, {best.speed_up:.2f} times as fast as the target alone{tied}{once}."


def json_object(found: Comparison, setup: Setup, busy: str) -> dict[str, Any]:
    """The object that `spectui compare --json` prints. Speed-ups can be computed from the replies' `tokens_per_s`."""
    whole: dict[str, Any] = finite(
        {
            "schema": SCHEMA,
            "model": _model(found.target),
            "settings": {**dataclasses.asdict(setup), **dataclasses.asdict(found.knobs)},
            "busy": busy,
            "complete": not found.stopped and all(row.complete or row.problem for row in found.rows),
            "text": TEXT,
            "scatter": found.scatter,
            "drafters": [_row(row, found) for row in found.ranked()],
        }
    )
    return whole


def _row(row: Row, found: Comparison) -> dict[str, Any]:
    return {
        "name": row.name,
        "model": _model(row.info),
        "path": row.path,
        "problem": row.problem,
        "vocabulary": row.vocabulary,
        "divergence": row.divergence._asdict() if row.divergence else None,
        "draft_s": row.draft_s,
        "costs": row.costs.snapshot()._asdict() if row.costs else None,
        "acceptance": row.drafting.acceptance,
        "estimated_speed_up": row.expected,
        "measured_speed_up": row.speed_up,
        "tie": row.problem is None and found.ties(row),
        "replies": {
            kind: {
                "plain": statistics_table(Statistics.of(replies.plain)),
                "measured": statistics_table(Statistics.of(replies.measured)),
                "fixed": statistics_table(Statistics.of(replies.drafted)),
                "speed_up": replies.speed_up,
            }
            for kind, replies in row.replies.items()
        },
    }


def _model(info: ModelInfo | None) -> dict[str, Any] | None:
    if info is None:
        return None
    table = model_table(info)
    return {"file": Path(table.pop("path")).name, **table}
