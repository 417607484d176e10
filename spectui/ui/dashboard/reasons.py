"""The window's sentences for why a policy drafted what it drafted."""

from __future__ import annotations

from spectui.knobs import Knobs
from spectui.speculation.policies.value import break_even
from spectui.speculation.records import Reason


def worded(reason: Reason, knobs: Knobs) -> str:
    """One clause, such as "drafting 4 of 16: pays 1.7x". `knobs`: those of the round."""
    if reason.kind == "draft":
        end = f": pays {reason.gain:.1f}x" if reason.gain is not None else ""
        if reason.chance is not None:
            end = f": the next is at {reason.chance:.2f}, under p-min {knobs.p_min:.2f}"
        return f"drafting {reason.kept} of {reason.limit}{end}"
    if reason.kind == "profile":
        return f"drafting {reason.kept} of {reason.limit}: expected value {reason.gain:.0f} t/s"
    if reason.kind == "measuring":
        return "measuring what a plain pass costs"
    return f"not drafting: {cause(reason, knobs)}"


def cause(reason: Reason, knobs: Knobs) -> str:
    """Why nothing was sent."""
    if reason.kind == "unlikely":
        return _unlikely(reason)
    if reason.kind == "unread":
        return f"the draft needs {reason.seconds:.1f} s to read this text, more than it is expected to save"
    if reason.kind == "uncertain":
        return f"the next token is too uncertain, {reason.chance:.2f} likely to be accepted"
    if reason.kind == "p-min":
        return f"the next token is at {reason.chance:.2f}, under p-min {knobs.p_min:.2f}"
    if reason.kind == "draft-min":
        return f"{reason.drafted} drafted, under draft-min {knobs.draft_min}"
    return {
        "budget": "drafts lost time against plain decoding, and the loss budget is used up for now",
        "strict": "--strict allows no pass over two tokens here, because they round differently from single ones",
        "no room": "there is no room for a draft",
        "drafter off": "the drafter is off",
        "no match": "nothing here stood in the text before",
    }.get(reason.kind, reason.kind)


def _unlikely(reason: Reason) -> str:
    assert reason.rate is not None and reason.chance is not None
    dear = f"the draft costs {reason.cost:.2f} of a target pass"
    needed = break_even(reason.times, reason.rate)
    if needed is not None:
        return f"{dear}, needs {needed:.2f} acceptance, expects {reason.chance:.2f}"
    if break_even(reason.times, 1.0) is not None:
        return f"{dear}, too much for the speed reached lately"
    return f"{dear}, cannot pay at any acceptance"
