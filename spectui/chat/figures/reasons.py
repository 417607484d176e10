"""Sentences for why a policy drafted what it drafted."""

from __future__ import annotations

from spectui.chat.figures.break_even import needed
from spectui.chat.figures.format import UNKNOWN
from spectui.knobs import Knobs
from spectui.speculation.policies.draft import RoundTimes
from spectui.speculation.records import Reason

SERVER = {
    "server drafts nothing": "the server drafts nothing: restart it with -md DRAFT, or with --spec-type ngram-mod",
    "server found nothing": "the server found nothing to draft here",
    "server does not tell": "this server does not tell what it drafts, so the text has no colours",
}
"""What a server's rounds without a draft are told with."""


def worded(reason: Reason, knobs: Knobs) -> str:
    """One clause, such as "drafting 4 of 16, expected to pay". `knobs`: those of the round."""
    if reason.kind == "draft":
        end = ", expected to pay" if reason.gain is not None else ""
        if reason.confidence is not None:
            end = f": the next is at {_number(reason.confidence)}, under p-min {knobs.p_min:.2f}"
        return f"drafting {reason.kept} of {reason.limit}{end}"
    if reason.kind == "expected":
        return f"drafting {reason.kept} of {reason.limit}: expected value {_number(reason.gain, 0)} t/s"
    if reason.kind == "measuring":
        return "measuring what a plain pass costs"
    return f"not drafting: {cause(reason, knobs)}"


def cause(reason: Reason, knobs: Knobs) -> str:
    """Why nothing was sent."""
    if reason.kind == "unlikely":
        return _unlikely(reason)
    if reason.kind == "draft full":
        return f"the draft's context is full: raise -cd {reason.limit}"
    if reason.kind == "unread":
        return f"the draft needs {_number(reason.seconds, 1)} s to read this text, more than it would save"
    if reason.kind == "uncertain":
        return f"sending the draft would lose, its first token is {_number(reason.expected_acceptance)} likely"
    if reason.kind == "p-min":
        return f"the next token is at {_number(reason.confidence)}, under p-min {knobs.p_min:.2f}"
    if reason.kind == "draft-min":
        return f"{reason.drafted} drafted, under draft-min {knobs.draft_min}"
    return {
        "budget": "drafts lost time, and the loss budget is used up for now",
        "strict": "--strict allows no pass over two tokens here: it is not known that they round as single ones do",
        "no room": "there is no room for a draft",
        "drafter off": "the drafter is off",
        "no match": "nothing here stood in the text before",
        **SERVER,
    }.get(reason.kind, reason.kind)


def _unlikely(reason: Reason) -> str:
    if not 1 < len(reason.drafting) <= len(reason.passes):  # read from a file
        return "the draft is not expected to pay"
    dear = f"the draft costs {reason.drafting[1]:.2f} of a target pass"
    times = RoundTimes(reason.passes, reason.drafting)
    if (least := needed(times, reason.rate or 1.0)) is not None:
        return f"{dear}, needs {least:.2f} accepted, expects {_number(reason.expected_acceptance)}"
    if needed(times, 1.0) is not None:
        return f"{dear}, too much for the speed reached lately"
    return f"{dear}, cannot pay at any acceptance"


def _number(value: float | None, digits: int = 2) -> str:
    """A figure; a reason that was read from a file may lack it."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"
