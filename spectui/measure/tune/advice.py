"""The results in sentences, and advice that no setting gives."""

from __future__ import annotations

from collections.abc import Iterator

from spectui.measure.bench.settings import Setting
from spectui.measure.tune.search import Search
from spectui.speculation.policies.cost_model import CostModel

_DEAR_DRAFT = 0.3
"""Share of a plain pass from which a drafted token is called dear."""

_DEAR_ROWS = 2.0
"""Plain passes from which a pass over four rows is called dear: then the weights have no kernel for several rows here."""


def flags(setting: Setting) -> str:
    """The setting as flags."""
    return (
        f"--drafter {setting.drafter} --policy {setting.policy} --draft-max {setting.draft_max} "
        f"--draft-min {setting.draft_min} --p-min {setting.p_min:g}"
    )


def sentences(search: Search, chosen: Setting | None, costs: CostModel | None) -> Iterator[str]:
    """The best fixed setting, what is used, and advice. `chosen`: see `Summary.chosen`. `costs`: those measured at load."""
    if search.best is None:
        yield "It ended before a fixed setting was compared with plain decoding."
    else:
        yield f"The best of {search.tried} fixed settings: {flags(search.best)}."
        if chosen is None or not search.finished:
            yield "It ended before that one was repeated: --minutes gives more time."
        elif chosen.baseline:
            yield "So no draft is used (--drafter off, and no -md): nothing is known to be faster than the target alone."
        else:
            yield f"So {'auto' if chosen == search.auto else 'that setting'} is used."
    if costs is None or not costs.known:
        return
    one = costs.verify(1, 0)
    share = (costs.drafting(2) - costs.drafting(1)) / one if costs.next else 0.0
    if share > _DEAR_DRAFT:
        yield (
            f"A drafted token takes {share:.0%} of a plain pass: try a smaller draft (spectui compare), or this one in a type "
            "with fewer bits (spectui draft make)."
        )
    four = costs.verify(4, 0) / one
    if four > _DEAR_ROWS:
        yield (
            f"A pass over four rows takes {four:.1f} plain passes, so only short drafts pay: another type of the target may "
            "have a better kernel."
        )
