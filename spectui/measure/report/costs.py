"""The costs of passes as text and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from spectui.chat.sentences import kernels_used
from spectui.engine.events import Loaded, ModelInfo
from spectui.measure.costs import SIZES, STEEP, Measurement, Passes, advise
from spectui.measure.extra_costs import PROMPT, ExtraCosts, TakingBack
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.plan import Rounds
from spectui.store.export import finite, model_table

SCHEMA = "spectui.costs/1"

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
ACCEPTANCES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

_BAR = 24
"""Characters of the longest bar."""

_SCATTERED = 0.1
"""From this typical spread on, the reader is told that the machine was not quiet."""

STEP_RULE = (
    "* a step. L(n) is the cheapest pass over at least n tokens; it steps where L(n) - L(n - 1) is more than "
    f"{STEEP:g} times its\n  average rise, more than 5 % of L(n), and more than such passes scatter."
)


def cpp_lines(found: Measurement, at_once: int = 1) -> Iterator[str]:
    """The constants that the profile-guided drafting of llama.cpp's discussion #10466 takes: it knows drafts of one token a
    pass. `at_once`: see `ModelInfo`."""
    medians = target.medians if (target := found.of("target")) is not None else {}
    if not set(SIZES) <= medians.keys():
        return
    yield f"const std::vector<float> model_batch_speeds = {{ {', '.join(f'{n / medians[n]:.3f}' for n in SIZES)} }};"
    if found.of("draft") is not None and at_once == 1:
        yield f"const float draft_tg_speed = {1 / found.costs().next:.3f};"


def text_lines(loaded: Loaded, found: Measurement) -> Iterator[str]:
    """Everything that was measured, and what follows."""
    target = found.of("target")
    if target is None:
        yield "Nothing was measured."
        yield from remarks(found)
        return
    costs = found.costs(loaded.costs)
    yield from model_lines(loaded, costs)
    if loaded.draft is not None and found.of("draft") is None and costs.next:
        yield "        (the draft as measured while it was loaded: the time did not suffice)"
    for role in ("target", "draft"):
        cells = [cell for cell in found.cells if cell.model == role]
        if cells:
            yield ""
            yield from _table(cells)
    if any(cell.steps for cell in found.cells):
        yield STEP_RULE
    yield from remarks(found)
    yield ""
    if len(target.medians) < 2:
        yield "Of the target only passes over one token were measured, so it is not known what pays: --minutes gives more time."
    elif loaded.draft is None or costs.next:
        yield from payoff_lines(loaded, costs, target.context)
        yield f"As a fixed length: {advise(costs).sentence}"
    else:
        yield "The draft was not measured, so it is not known what pays."
    yield from extra_lines(found.extra, costs.verify(1, 0))
    yield kernels_used(loaded.target, loaded.draft)
    if loaded.target.remark:
        yield f"Of the target: {loaded.target.remark}."
    constants = list(cpp_lines(found, loaded.draft.at_once if loaded.draft is not None else 1))
    if constants:
        yield ""
        yield "For the profile-guided drafting of llama.cpp's discussion #10466, in tokens per second:"
        yield from constants


def remarks(found: Measurement) -> Iterator[str]:
    """What limits the figures."""
    for model, flag in (("target", "-c"), ("draft", "-cd")):
        cells = [each for each in found.left_out if each.model == model]
        if cells:
            contexts = " and ".join(str(each.context) for each in cells)
            yield (
                f"Behind {contexts} tokens the {model} was not measured: passes need {SIZES[-1]} tokens more, and its context "
                f"holds {cells[0].n_ctx} ({flag})."
            )
    if not found.cells:
        return
    if found.stopped:
        yield "Stopped before all repetitions: these are the medians of what was measured."
    spreads = [cell.typical_spread for cell in found.cells if cell.typical_spread is not None]
    if spreads:
        yield f"Passes of one size scatter by {max(spreads):.0%} (distance of the quartiles), medians of {_counts(found)}."
        if max(spreads) > _SCATTERED:
            yield "That is much: something else used the machine, so small steps may be none."
    else:
        yield f"Medians of {_counts(found)}: too few to tell how much they scatter, so no steps are marked."


def _counts(found: Measurement) -> str:
    counts = [len(seconds) for cell in found.cells for seconds in cell.seconds.values()]
    low, high = min(counts), max(counts)
    return f"{high if low == high else f'{low} to {high}'} pass{'es' if high > 1 else ''} each"


def _table(cells: Sequence[Passes]) -> Iterator[str]:
    """A line a size: milliseconds, and times the pass over one token, at each context length; and a bar for the first one."""
    medians = [cell.medians for cell in cells]
    marked = [set(cell.steps) for cell in cells]
    model = cells[0].model
    yield f"The {model}'s passes over n tokens: ms, and times a pass over one."
    heads = (f"behind {cell.context} " if cell.context else "empty context " for cell in cells)
    yield f"{'n':>4}" + "".join(f"{head:>19}" for head in heads)
    longest = max(medians[0].values())
    for n in sorted(set().union(*medians)):
        line = f"{n:>4}"
        for table, steps in zip(medians, marked, strict=True):
            mark = "*" if n in steps else " "
            known = n in table
            line += f"{table[n] * 1e3:>11.1f}{table[n] / table[1]:>7.2f}{mark}" if known else f"{'-':>11}{'-':>7} "
        yield (line + "  " + "█" * round(_BAR * medians[0].get(n, 0.0) / longest)).rstrip()


def model_lines(loaded: Loaded, costs: CostModel) -> Iterator[str]:
    """What a plain token and a drafted one cost."""
    plain = costs.verify(1, 0)
    speed = f"{plain * 1e3:.1f} ms a token without speculation, {1 / plain:.1f} tokens a second"
    yield f"target  {_placed(loaded.target)}: {speed}"
    if loaded.draft is None:
        yield "draft   none: repetitions of the conversation are drafted, at no cost but the pass over them"
    elif costs.next:
        first, each = costs.drafting(1), costs.drafting(2) - costs.drafting(1)
        if loaded.draft.at_once > 1:
            said = (
                f"{first * 1e3:.1f} ms a draft of up to {loaded.draft.at_once} tokens, which come of one pass of it, "
                f"{first / plain:.2f} of a pass of the target"
            )
        else:
            said = (
                f"{each * 1e3:.1f} ms a token, {each / plain:.2f} of a pass; the first of a draft, which catches up, "
                f"{first * 1e3:.1f} ms"
            )
        yield f"draft   {_placed(loaded.draft)}: {said}"
    else:
        yield f"draft   {_placed(loaded.draft)}: not measured"


def _placed(model: ModelInfo) -> str:
    """The model, and the devices that compute its layers if the CPU is not the only one."""
    on = "" if model.devices in ((), ("CPU",)) else f" on {' and '.join(model.devices)}"
    return f"{model.description}{on}"


def payoff_lines(loaded: Loaded, costs: CostModel, context: int = 0) -> Iterator[str]:
    """For each length of a draft: its costs, the acceptance from which it pays, and its speed at some acceptances."""
    yield _row("drafted", "pass", "round", "pays from", [f"at {acceptance:.0%}" for acceptance in ACCEPTANCES])
    rounds = Rounds.of(costs, 0, max(LENGTHS))
    for length in LENGTHS:
        if length >= len(rounds.drafting):
            break
        needed = rounds.break_even(length)
        yield _row(
            str(length),
            f"{rounds.passes[length]:.2f}",
            f"{rounds.passes[length] + rounds.drafting[length]:.2f}",
            "never" if needed is None else f"{needed:.0%}",
            [f"{rounds.speed_up(acceptance, length):.2f}x" for acceptance in ACCEPTANCES],
        )
    yield ""
    lowest = rounds.break_even()
    what = (
        "Drafting by this model cannot pay here: take a smaller one, or one with fewer bits a weight. Repetitions cost the "
        "pass alone, and can (--drafter suffix)."
        if lowest is None
        else f"It pays where more than {lowest:.0%} of the drafted tokens are accepted."
    )
    yield f"Pass and round are in plain passes{f' behind {context} tokens' if context else ''}. {what}"


def extra_lines(extra: ExtraCosts, plain: float) -> Iterator[str]:
    """What drafts cost the target beside its passes. `plain`: seconds of a plain pass."""
    if extra.ratio is not None:
        ratio, error = extra.ratio
        pairs = "one pair" if error is None else f"standard error {error:.2f}, {len(extra.kept_s)} pairs"
        yield f"Keeping hidden rows for the heads makes reading a prompt take {ratio:.2f} times as long ({pairs})."
    shortest = 1
    for each in extra.taking_back:
        lengths = f"{shortest} to {each.longest} tokens"
        yield f"Of drafts of {lengths}, rejected tokens are taken back by {_way(each, plain)}."
        shortest = each.longest + 1


def _way(each: TakingBack, plain: float) -> str:
    """How rejected tokens are taken back, and what that costs a round."""
    save, back = (f"{median(seconds) / plain:.2f}" if seconds else "" for seconds in (each.save_s, each.back_s))
    if each.way == "states":
        return f"states that the target keeps (n_rs_seq): {back} plain passes a round"
    if each.way == "checkpoint":
        return (
            f"a checkpoint: {save} plain passes a round to save it, and {back} to restore it and read one accepted "
            "token again"
        )
    return f"reading the whole text again: {back} plain passes behind {PROMPT} tokens"


def _row(drafted: str, verify: str, round: str, needed: str, speeds: Sequence[str]) -> str:
    return f"{drafted:>7}  {verify:>5}  {round:>5}  {needed:>9}" + "".join(f"{speed:>9}" for speed in speeds)


def json_object(loaded: Loaded, found: Measurement, busy: str, stolen: float) -> dict[str, Any]:
    """The object that `spectui costs --json` prints; every figure of the text can be computed from its `seconds`.

    `busy`: the process that used the machine, "" for none. `stolen`: share of the cores that a shared host gave others. 0..1
    """
    costs, target = found.costs(loaded.costs), found.of("target")
    return finite(  # type: ignore[no-any-return]
        {
            "schema": SCHEMA,
            "model": model_table(loaded.target),
            "draft": model_table(loaded.draft) if loaded.draft else None,
            "devices": {"target": loaded.target.devices, "draft": loaded.draft.devices if loaded.draft else None},
            "settings": dataclasses.asdict(loaded.setup),
            "busy": busy,
            "stolen": stolen,
            "complete": not found.stopped,
            "passes": [_cell(cell) for cell in found.cells],
            "left_out": [each._asdict() for each in found.left_out],
            "draft_cost": {"first_s": costs.first or None, "next_s": costs.next or None},
            "further_s": draft.further if (draft := found.of("draft")) is not None else None,
            "hidden_rows": {"kept_s": found.extra.kept_s, "not_kept_s": found.extra.not_kept_s},
            "taking_back": [each._asdict() for each in found.extra.taking_back],
            "advice": advise(costs)._asdict() if target is not None and len(target.medians) > 1 else None,
        }
    )


def _cell(cell: Passes) -> dict[str, Any]:
    sizes = [
        {"tokens": n, "median_s": median, "spread": cell.spread(n), "step": n in cell.steps, "seconds": cell.seconds[n]}
        for n, median in cell.medians.items()
    ]
    return {"model": cell.model, "context": cell.context, "sizes": sizes}
