"""What was found, in sentences, and what no setting gives."""

from __future__ import annotations

from collections.abc import Iterator

from spectui.measure.bench.settings import Setting
from spectui.measure.tune.search import AUTO, PLAIN, Tuned
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


def sentences(found: Tuned, costs: CostModel | None) -> Iterator[str]:
    """The best fixed setting, whether auto beats it, and advice. `costs`: those measured at load."""
    if found.best is None:
        yield from _so_far(found)
    else:
        yield from _ranking(found, found.best)
    if costs is not None and costs.verify.known:
        yield from _advice(costs)


def _so_far(found: Tuned) -> Iterator[str]:
    """What a search knows that ended before a fixed setting could be compared with plain decoding."""
    if not found.trials:
        yield "It ended before anything was measured."
        return
    yield f"It ended after {found.replies} replies, before a fixed setting could be compared with plain decoding."
    if AUTO in found.finals:
        tokens = next(each.tokens for each in found.trials if each.setting == AUTO)
        yield (
            f"Plain decoding had {found.speed(PLAIN):.1f} tokens per second and auto {found.speed(AUTO):.1f}, in replies of "
            f"{tokens} tokens."
        )
    else:
        replies = ", ".join(f"{each.setting.label} {each.speed:.1f} ({each.prompt})" for each in found.trials)
        yield f"Tokens per second: {replies}."
    if found.leaders:
        first, *others = found.leaders
        beside = "".join(f"; {each.setting.label}: {each.speed:.1f}" for each in others)
        yield (
            f"The fastest of {found.tried} fixed settings until then, in the first {first.tokens} tokens of the replies: "
            f"{flags(first.setting)}: {first.speed:.1f}{beside}."
        )


def _ranking(found: Tuned, best: Setting) -> Iterator[str]:
    plain, auto = found.ratio(best, PLAIN), found.ratio(AUTO, best)
    times = len(found.finals[best])
    often = "once" if times == 1 else f"{times} times"
    yield (
        f"The best of {found.tried} fixed settings: {flags(best)}: {found.speed(best):.1f} tokens per second, {plain} of plain "
        f"decoding's {found.speed(PLAIN):.1f} ({found.replies} replies in {found.seconds:.0f} s, the finalists {often})."
    )
    others = [each for each in found.finals if each not in (best, PLAIN, AUTO)]
    ties = [each for each in others if not found.ratio(best, each).significant]
    if ties:
        yield f"It cannot be told from {', '.join(each.label for each in ties)}: more --minutes may."
    if auto.significant:
        yield f"Auto is {'faster' if auto.value > 1 else 'slower'}: {auto} of the best fixed setting."
    else:
        yield f"Auto and the best fixed setting cannot be told apart: auto has {auto} of its speed."
    if plain.value <= 1 and found.ratio(AUTO, PLAIN).value <= 1:
        yield "No draft is best here: nothing was faster than the target alone (--drafter off, and no -md)."


def _advice(costs: CostModel) -> Iterator[str]:
    """What no setting gives."""
    one = costs.verify(1, 0)
    share = (costs.drafting(2) - costs.drafting(1)) / one if costs.draft.next else 0.0
    if share > _DEAR_DRAFT:
        yield (
            f"A drafted token takes {share:.0%} of a plain pass: try a smaller draft or a cheaper quantisation of it "
            "(spectui draft make, spectui compare)."
        )
    four = costs.verify.least(4, 0) / one
    if four > _DEAR_ROWS:
        yield (
            f"A pass over four rows takes {four:.1f} plain passes: another type of the target may have a better kernel on this "
            "machine (spectui doctor says which it has), and only short drafts pay."
        )
