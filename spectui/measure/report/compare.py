"""A comparison of drafts as text and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

from spectui.chat.sentences import kernels_used
from spectui.engine.events import ModelInfo
from spectui.knobs import Setup
from spectui.measure.compare import DRAFT_MAX, Answer, Comparison, Row
from spectui.measure.divergence import TEXT
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
    yield f"{'drafter':<{width}}     MB  vocabulary ms/token      KL  accepted  estimate  decoding     whole"
    baseline = False
    for row in found.ranked():
        if not baseline and ((gain := found.gain(row)) is None or gain.ratio < 1.0):
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
    return f"{_ALONE:<{width}}{'-':>7}  {'-':<10}{'-':>9}{'-':>8}{'-':>10}{'-':>10}{'1.00x':>10}{'1.00x':>10}"


HEADERS = ("drafter", "MB", "vocabulary", "ms/token", "KL", "accepted", "estimate", "decoding", "whole")


def cells(row: Row, found: Comparison) -> tuple[str, ...]:
    """A drafter's figures under `HEADERS`."""
    return (
        row.name,
        "-" if row.info is None else f"{row.info.bytes / 1e6:.0f}",
        row.vocabulary or "-",
        "-" if row.draft_s is None else f"{1e3 * row.draft_s:.1f}",
        "-" if row.divergence is None else f"{row.divergence.kl:.3f}",
        _share(row.drafting.acceptance),
        _times(row.expected),
        *(_times(verdict and verdict.ratio) for verdict in (found.gain(row, decoding=True), found.gain(row))),
    )


def _line(row: Row, width: int, found: Comparison) -> str:
    name, size, vocabulary, cost, kl, accepted, expected, decoding, whole = cells(row, found)
    return (
        f"{_short(name, width):<{width}}{size:>7}  {vocabulary:<10}{cost:>9}{kl:>8}{accepted:>10}{expected:>10}"
        f"{decoding:>10}{whole:>10}{_mark(row, found)}"
    )


def _mark(row: Row, found: Comparison) -> str:
    """ " best" or " tie" where something is known to be faster than the target alone."""
    if found.gain(row) is None or not pays(found):
        return ""
    return " best" if row is found.ranked()[0] else " tie" if found.ties(row) else ""


def pays(found: Comparison) -> bool:
    """Is the best drafter known to be faster than the target alone?"""
    gain = found.gain(found.ranked()[0])
    return gain is not None and gain.faster


def _short(name: str, width: int) -> str:
    return name if len(name) <= width else "…" + name[1 - width :]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _kinds(found: Comparison, width: int) -> Iterator[str]:
    """Acceptance, and the speed-up of whole replies, by kind of prompt."""
    yield f"{'accepted, whole':<{width}}" + "".join(f"{kind:>16}" for kind in found.kinds)
    for row in found.ranked():
        if row.replies:
            cells = ""
            for kind in found.kinds:
                replies = row.replies.get(kind)
                accepted = replies.drafted.statistics.acceptance if replies and replies.drafted else None
                pairs = replies.pairs() if replies else []
                cells += f"{_share(accepted):>9}{_times(exp(fmean(pairs)) if pairs else None):>7}"
            yield f"{_short(row.name, width):<{width}}{cells}"
    speeds = [found.plain(kind).tokens_per_s for kind in found.kinds]
    yield f"{'target alone, tokens a second':<{width}}" + "".join(
        f"{'-' if s is None else f'{s:.1f}':>16}" for s in speeds
    )


def _notes(found: Comparison) -> Iterator[str]:
    yield f"accepted: of drafts of {DRAFT_MAX} tokens. estimate: from the costs measured at load and this acceptance."
    yield "decoding, whole: with these settings against the target alone beside it, mean of the prompts; a whole reply has the"
    yield "reading of its prompt too, by the draft as well. The ranking is by whole replies."
    compared = [row.divergence for row in found.rows if row.divergence is not None]
    if compared:
        low, high = (pick(each.positions for each in compared) for pick in (min, max))
        n = f"{high}" if low == high else f"{low} to {high}"
        yield f"KL: of the draft from the target in nats, mean of {n} positions of {TEXT}; mapped: over the shared tokens."
    if found.stopped:
        yield "Stopped: these are the figures until then."
    elif not all(row.complete or row.problem for row in found.rows):
        yield "The time was over before all replies: --minutes gives more."


def verdict(found: Comparison) -> str:
    """Which drafter is best, in a sentence."""
    best = found.ranked()[0]
    gain = found.gain(best)
    if gain is None:
        return "No drafter was measured."
    if not gain.faster:
        return (
            f"None is known to be faster than the target alone. Of the best: {gain.of(best.name, 'the target alone')}."
        )
    ties = [row.name for row in found.ranked()[1:] if found.ties(row)]
    tied = f"; not to be told from it: {', '.join(ties)}" if ties else ""
    return f"Best: {gain.of(best.name, 'the target alone')}{tied}."


def json_object(found: Comparison, setup: Setup, busy: str) -> dict[str, Any]:
    """The object that `spectui compare --json` prints. Speed-ups can be computed from the replies' figures."""
    whole: dict[str, Any] = finite(
        {
            "schema": SCHEMA,
            "model": _model(found.target),
            "settings": {**dataclasses.asdict(setup), **dataclasses.asdict(found.knobs)},
            "busy": busy,
            "complete": not found.stopped and all(row.complete or row.problem for row in found.rows),
            "text": TEXT,
            "drafters": [_row(row, found) for row in found.ranked()],
        }
    )
    return whole


def _row(row: Row, found: Comparison) -> dict[str, Any]:
    gain, decoding = found.gain(row), found.gain(row, decoding=True)
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
        "gain": gain._asdict() if gain is not None else None,
        "decoding": decoding._asdict() if decoding is not None else None,
        "tie": row.problem is None and found.ties(row),
        "replies": {
            kind: {
                "plain": [_answer(each) for each in replies.plain],
                "measured": [_answer(each) for each in replies.measured],
                "fixed": _answer(replies.drafted) if replies.drafted is not None else None,
            }
            for kind, replies in row.replies.items()
        },
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {"prompt_s": answer.prompt_s, **statistics_table(answer.statistics)}


def _model(info: ModelInfo | None) -> dict[str, Any] | None:
    if info is None:
        return None
    table = model_table(info)
    return {"file": Path(table.pop("path")).name, **table}
