"""What a comparison of drafts tells beside the table of their speeds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spectui.engine.events import ModelInfo
from spectui.measure.bench.settings import NO_DRAFT
from spectui.measure.compare import DRAFT_MAX, Comparison, Draft
from spectui.measure.divergence import TEXT
from spectui.measure.report.tables import DASH, aligned
from spectui.store.export import model_table, statistics_table

_HEADS = ("draft", "MB", "vocabulary", "ms/token", "KL", "accepted", "estimate")


def text(found: Comparison) -> Iterator[str]:
    """A line for each draft, and what the columns mean."""
    drafts = [draft for draft in found.drafts if draft.info is not None]
    if drafts:
        yield from aligned([_HEADS, *map(_cells, drafts)])
        yield ""
    for draft in found.drafts:
        remark = draft.problem or (draft.info.remark if draft.info is not None else "")
        if remark:
            yield f"{Path(draft.name).name}: {remark}"
    if drafts:
        yield f"accepted: of drafts of {DRAFT_MAX} tokens. estimate: from the costs measured at load and this acceptance."
    compared = [draft.divergence for draft in drafts if draft.divergence is not None]
    if compared:
        low, high = (pick(each.positions for each in compared) for pick in (min, max))
        n = f"{high}" if low == high else f"{low} to {high}"
        yield f"KL: of the draft from the target in nats, mean of {n} positions of {TEXT}; mapped: over the shared tokens."
    if not found.complete:
        yield "It ended before all replies were made: --minutes gives more time."


def _cells(draft: Draft) -> list[str]:
    figures = (
        (draft.info and draft.info.bytes / 1e6, "{:.0f}"),
        (draft.vocabulary, "{}"),
        (draft.draft_s and 1e3 * draft.draft_s, "{:.1f}"),
        (draft.divergence and draft.divergence.kl, "{:.3f}"),
        (draft.drafting.acceptance, "{:.0%}"),
        (draft.expected, "{:.2f}x"),
    )
    return [Path(draft.name).name, *(DASH if figure is None else form.format(figure) for figure, form in figures)]


def json_parts(found: Comparison) -> dict[str, Any]:
    """What the JSON of a comparison has beside the runs."""
    return {"model": _model(found.target), "text": TEXT, "complete": found.complete,
            "drafts": [_row(draft) for draft in found.drafts if draft.name != NO_DRAFT]}  # fmt: skip


def _row(draft: Draft) -> dict[str, Any]:
    return {
        "path": draft.name,
        "model": _model(draft.info),
        "problem": draft.problem,
        "vocabulary": draft.vocabulary,
        "divergence": draft.divergence and draft.divergence._asdict(),
        "draft_s": draft.draft_s,
        "costs": (costs := draft.costs) and {"verify": sorted(costs.passes.items()), "per_row": costs.per_row,
                                             "per_pass": costs.per_pass, "first": costs.first, "next": costs.next},
        "fixed": statistics_table(draft.drafting),
        "estimated_speed_up": draft.expected,
    }  # fmt: skip


def _model(info: ModelInfo | None) -> dict[str, Any] | None:
    if info is None:
        return None
    table = model_table(info)
    return {"file": Path(table.pop("path")).name, **table}
