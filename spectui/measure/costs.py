"""What the passes of a loaded pair cost, and from which acceptance drafts pay."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from spectui.chat.figures.estimates import break_even
from spectui.chat.sentences import kernels_used
from spectui.engine.events import Loaded, ModelInfo
from spectui.knobs import Setup
from spectui.measure.report import DASH, table
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.draft import RoundTimes
from spectui.store.export import finite, model_table

if TYPE_CHECKING:
    from spectui.engine.session import Session

SCHEMA = "spectui.costs/2"

LARGEST = 16
"""Tokens of the largest pass that is shown."""

ACCEPTANCES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""For these a table says how fast drafts are."""


def load(session: Session, setup: Setup, again: bool) -> Loaded:
    """Load the pair. `again`: measure its costs anew, whatever is stored of them. Raises SpectuiError."""
    loaded = session.load(setup)
    if not again or session.pair is None:
        return loaded
    session.pair.measure_again()
    return loaded._replace(costs=session.strategy.costs)


def text_lines(loaded: Loaded, costs: CostModel, width: int) -> Iterator[str]:
    """A table of the passes, and what follows from it; sentences are wrapped to this width."""
    rounds = rounds_of(costs)
    yield from _wrapped(_model_lines(loaded, costs), width)
    yield ""
    yield from table([_HEADS, *_rows(costs, rounds)], width)
    yield ""
    yield from _wrapped(_sentences(loaded, break_even(rounds), several=len(costs.passes) > 1), width)


def rounds_of(costs: CostModel) -> RoundTimes:
    """The time of rounds with drafts of up to the largest pass that is shown."""
    return RoundTimes.of(costs, 0, LARGEST - 1)


def _model_lines(loaded: Loaded, costs: CostModel) -> Iterator[str]:
    """What a plain token and a drafted one cost."""
    plain = costs.verify(1)
    yield f"target: {_placed(loaded.target)}, {plain * 1e3:.1f} ms a token without drafts, {1 / plain:.1f} tokens a second"
    draft = loaded.draft
    if draft is None:
        yield "draft: none; repetitions of the conversation are drafted, at no cost but the pass over them"
    elif draft.at_once > 1:
        yield f"draft: {_placed(draft)}, {costs.drafting(1) * 1e3:.1f} ms a draft of up to {draft.at_once} tokens"
    else:
        further = costs.drafting(2) - costs.drafting(1)
        yield (
            f"draft: {_placed(draft)}, {further * 1e3:.1f} ms a token, {further / plain:.2f} of a pass of the target; "
            f"{costs.drafting(1) * 1e3:.1f} ms the first of a draft"
        )


def _placed(model: ModelInfo) -> str:
    """The model, and the devices that compute its layers if the CPU is not the only one."""
    on = "" if model.devices in ((), ("CPU",)) else f" on {' and '.join(model.devices)}"
    return f"{model.description}{on}"


_HEADS = ("tokens", "ms", "pass", "drafted", "round", "pays from", *(f"at {chance:.0%}" for chance in ACCEPTANCES))


def _rows(costs: CostModel, rounds: RoundTimes) -> Iterator[list[str]]:
    """A row for each size that was measured: its pass, and the rounds that verify a draft in it."""
    for size in sorted(size for size in costs.passes if size <= LARGEST):
        drafted = size - 1
        row = [f"{size}", f"{costs.verify(size) * 1e3:.1f}", f"{rounds.passes[drafted]:.2f}"]
        if 0 < drafted < len(rounds.drafting):
            needed = break_even(rounds, drafted)
            row += [f"{drafted}", f"{rounds.passes[drafted] + rounds.drafting[drafted]:.2f}",
                    "never" if needed is None else f"{needed:.0%}",
                    *(f"{rounds.speed_up(chance, drafted):.2f}x" for chance in ACCEPTANCES)]  # fmt: skip
        yield [*row, *[DASH] * (len(_HEADS) - len(row))]


def _sentences(loaded: Loaded, lowest: float | None, several: bool) -> Iterator[str]:
    """What the table means. `lowest`: the least acceptance that pays. `several`: more than one size was measured."""
    yield (
        "Pass and round are in passes over one token; a round drafts, and verifies the draft in one pass. Pays from: the "
        "acceptance from which drafts of this length are faster than none; at: how many times as fast as without drafts."
    )
    if not several:
        yield "Only passes over one token were measured, so it is not known what pays: --again measures once more."
    elif lowest is None:
        yield (
            "Drafting by this model cannot pay here: take a smaller one, or one with fewer bits a weight. Repetitions cost "
            "the pass alone, and can (--drafter suffix)."
        )
    else:
        yield f"Drafts pay where more than {lowest:.0%} of their tokens are accepted."
    yield kernels_used(loaded.target, loaded.draft)
    if loaded.target.remark:
        yield f"Of the target: {loaded.target.remark}."


def _wrapped(sentences: Iterator[str], width: int) -> Iterator[str]:
    for sentence in sentences:
        yield from wrap(sentence, width)


def json_object(loaded: Loaded, costs: CostModel, busy: str) -> dict[str, Any]:
    """The object that `spectui costs --json` prints. `busy`: the process that used the machine, "" for none."""
    rounds = rounds_of(costs)
    lengths = [{"drafted": length, "pass": rounds.passes[length], "round": rounds.passes[length] + rounds.drafting[length],
                "pays_from": break_even(rounds, length)} for length in range(1, len(rounds.drafting))]  # fmt: skip
    return finite(  # type: ignore[no-any-return]
        {
            "schema": SCHEMA,
            "model": model_table(loaded.target),
            "draft": model_table(loaded.draft) if loaded.draft else None,
            "devices": {"target": loaded.target.devices, "draft": loaded.draft.devices if loaded.draft else None},
            "settings": dataclasses.asdict(loaded.setup),
            "busy": busy,
            "passes": [{"tokens": size, "seconds": costs.passes[size]} for size in sorted(costs.passes)],
            "per_row_s": costs.per_row,
            "per_pass_s": costs.per_pass,
            "draft_cost": {"first_s": costs.first or None, "next_s": costs.next or None},
            "lengths": lengths,
            "pays_from": break_even(rounds),
        }
    )
