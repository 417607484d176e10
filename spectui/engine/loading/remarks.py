"""Sentences about a loaded model."""

from __future__ import annotations

from spectui.engine.costs.files import DraftCosts, TargetCosts
from spectui.llama.devices.records import ModelInfo

FAST_KERNELS_CRASH = "llama.cpp's fast CPU kernels crash on this machine, so they are off: see spectui doctor."

CHATML_IS_USED = "The model has no chat template (a base model?): ChatML is used; --no-template continues texts as they are."

NOT_AHEAD = (
    "The draft has no device of its own, so drafting ahead would slow the target down: it waits for its turn. "
    "-devd names a device that the target does not use."
)

SAME_THREADS = "the number of threads stays when other processes are busy, because passes over one token round by it"

_AS_DEAR = 0.9
"""Share of a target's pass from which a drafted token costs as much: the pass that verifies it comes on top."""

_SMALLER = "choose a smaller draft, or leave out -md"


def beyond_training(info: ModelInfo | None, role: str = "target") -> str:
    """A sentence on a context that is larger than the one that the model was trained with; "" where it is not."""
    if info is None or not 0 < info.trained_ctx < info.n_ctx:
        return ""
    then = "beyond those it may write nonsense; -c" if role == "target" else "its drafts may be poor beyond those; -cd"
    return (
        f"The {role}'s context of {info.n_ctx} tokens is larger than the {info.trained_ctx} that it was trained with: "
        f"{then} {info.trained_ctx} ends before that."
    )


def rounds_differently(costs: TargetCosts) -> str:
    """A sentence on passes whose logits are not those of single ones, without --strict; "" where all are."""
    if costs.equal_up_to >= costs.tried:
        return ""
    several, end = ("several", ", without drafts") if costs.equal_up_to < 2 else (f"more than {costs.equal_up_to}", "")
    return (
        f"This model's kernels round passes of {several} tokens differently from single ones, so at near-ties the text may "
        f"leave plain decoding's; --strict keeps it the same{end}."
    )


def rounds_alike(costs: TargetCosts, strict: bool) -> str:
    """The pass size up to which the logits are equal, and with which context."""
    if strict and costs.behind is None:
        return "there was no time to compare passes of several tokens with single ones, so strict makes none"
    where = f"behind {costs.behind} tokens too" if costs.behind else "in an empty context"
    if costs.tried < 2:
        return ""
    if costs.equal_up_to < 2:
        return "passes of several tokens round differently from single ones"
    found_so = f"passes of up to {costs.equal_up_to} tokens round as single ones do, {where}"
    return f"{found_so}; strict makes none longer" if strict else found_so


def strictly_plain(costs: TargetCosts) -> str:
    """A sentence on why --strict drafts nothing, and what to do; "" where it allows drafts."""
    if costs.strict_up_to > 1:
        return ""
    if costs.behind is None:
        why = "there was no time to compare passes of several tokens with single ones: the next start compares again"
    else:
        why = (
            "passes of several tokens round differently from single ones: leave --strict out if the text may leave plain "
            "decoding's at near-ties"
        )
    return f"With --strict nothing is drafted here, because {why}."


def no_cheaper(target: TargetCosts, draft: DraftCosts, same: bool, size: float) -> str:
    """A sentence on a draft that cannot pay: the `same` model as the target, or one that costs as much; "" if it is cheaper.

    `size`: its weights as a share of the target's, which tells where nothing was measured.
    """
    if same:
        return f"The draft is the target itself: {_SMALLER}."
    if not target.verify and size >= _AS_DEAR:
        return f"The draft's weights take {size:.2f} of the target's bytes, so that its drafts can hardly pay: {_SMALLER}."
    share = draft.next / target.verify[1] if draft.next and 1 in target.verify else 0.0
    if share < _AS_DEAR or target.noisy or draft.noisy:
        return ""
    return f"A token of the draft costs {share:.2f} of a pass of the target, so that its drafts cannot pay: {_SMALLER}."
