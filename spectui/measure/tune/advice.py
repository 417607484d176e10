"""The results in sentences, and advice that no setting gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spectui.measure.bench.settings import Setting
from spectui.measure.tune.search import Search
from spectui.speculation.policies.cost_model import CostModel

_DEAR_DRAFT = 0.3
"""Share of a plain pass from which a drafted token is called dear."""

_DEAR_ROWS = 2.0
"""Plain passes from which a pass over four rows is called dear: then the weights have no kernel for several rows here."""


_LIGHTER = (
    ("Q4_0", ("F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q5_0", "Q5_1")),
    ("Q2_K", ("Q4_0", "Q4_1", "Q4_K", "IQ4_NL", "IQ4_XS", "MXFP4")),
)
"""A type of drafts' weights, and those that have many more bits a weight."""

_TARGETS = ("Q4_K_M", "Q4_0", "Q8_0")
"""Usual types of targets' weights, that with the best text for its size first."""


class Weights(NamedTuple):
    """The types of a pair's weights, "" if unknown. `several_rows`: see `llama.cpu.kernels`; none if they are unknown, as
    those of a GPU are.
    """

    target: str = ""
    draft: str = ""
    several_rows: frozenset[str] = frozenset()


_UNKNOWN = Weights()


def flags(setting: Setting) -> str:
    """The setting as flags."""
    return (
        f"--drafter {setting.drafter} --policy {setting.policy} --draft-max {setting.draft_max} "
        f"--draft-min {setting.draft_min} --p-min {setting.p_min:g}"
    )


def sentences(
    search: Search, chosen: Setting | None, costs: CostModel | None, weights: Weights = _UNKNOWN
) -> Iterator[str]:
    """The best fixed setting, what is used, and advice. `chosen`: see `Summary.chosen`. `costs`: those measured at load."""
    if search.best is None:
        yield "It ended before a fixed setting was compared with plain decoding."
    else:
        yield f"The best of {search.tried} fixed settings: {flags(search.best)}."
        if chosen is None or not search.finished:
            yield "The time was over before it was repeated: --minutes gives more."
        elif chosen.baseline:
            yield "So no draft is used (--drafter off, and no -md): nothing is known to be faster than the target alone."
        else:
            yield f"So {'auto' if chosen == search.auto else 'that setting'} is used."
    if costs is not None and costs.known:
        yield from _advice(costs, weights)


def _advice(costs: CostModel, weights: Weights) -> Iterator[str]:
    """Advice that no setting gives."""
    one = costs.verify(1, 0)
    share = (costs.drafting(2) - costs.drafting(1)) / one if costs.next else 0.0
    if share > _DEAR_DRAFT:
        yield f"A drafted token takes {share:.0%} of a plain pass: {_cheaper_draft(weights)}."
    four = costs.verify(4, 0) / one
    if four > _DEAR_ROWS:
        yield f"A pass over four rows takes {four:.1f} plain passes, so only short drafts pay{_other_target(weights)}."


def _cheaper_draft(weights: Weights) -> str:
    """What to draft with instead."""
    if not weights.several_rows:
        return "try a smaller draft or a cheaper quantisation of it (spectui draft make, spectui compare)"
    lighter = next((kind for kind, types in _LIGHTER if weights.draft in types and kind in weights.several_rows), None)
    if lighter is None:
        return "try a smaller draft (spectui compare)"
    return (
        f"try a smaller draft, or this one in {lighter} in place of {weights.draft}: this CPU has fast kernels for that "
        f"(spectui draft make --type {lighter} --no-compare, spectui compare)"
    )


def _other_target(weights: Weights) -> str:
    """What to take for the target instead: the end of a sentence."""
    if not weights.several_rows:
        return "; another type of the target may have a better kernel"
    if not weights.target or weights.target in weights.several_rows:
        return ""
    better = [name for name in _TARGETS if name.removesuffix("_M") in weights.several_rows]
    if not better:
        return ""
    return (
        f": {weights.target} is computed row by row on this CPU. Its kernels for {' and '.join(better)} take several rows at "
        "once, so try a target of such a type"
    )
