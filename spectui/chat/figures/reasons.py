"""Sentences for why a policy drafted what it drafted, why nothing is drafted or accepted, and what to do about it."""

from __future__ import annotations

from spectui.chat.figures.estimates import needed
from spectui.chat.figures.format import UNKNOWN, count
from spectui.chat.figures.records import Figures
from spectui.knobs import Knobs
from spectui.speculation.policies.draft import RoundTimes
from spectui.speculation.records import Reason, Round

SERVER = {
    "server drafts nothing": "the server drafts nothing: start it with --spec-type draft-simple, or ngram-mod",
    "server found nothing": "the server found nothing to draft here",
    "server does not tell": "this server does not tell what it drafts, so the text has no colours",
}
"""What a server's rounds without a draft are told with."""

NOT_TOLD = "a server does not tell what the time of a round went into"
NO_PLAIN_ROUND = "known after four plain rounds"
"""In place of figures that a server does not give."""


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


_LATELY = 8
"""The number of latest rounds to look at: a single one without a draft needs no explanation."""


def read_before(figures: Figures) -> str:
    """How much of the last prompt was read before, where that was kept, and why it is not more; "" without any."""
    prompt = figures.prompt
    if prompt is None or not (prompt.reused or prompt.parted):
        return ""
    where = {"memory": ", kept in memory", "disk": ", kept on disk"}.get(prompt.restored, "")
    why = f"; not more, because {prompt.parted}" if prompt.parted else ""
    return f"{count(prompt.reused)} of {count(prompt.total)} tokens were read before{where}{why}"


def why_no_drafts(figures: Figures) -> str:
    """One sentence without its point, or "" while drafts are made and some of them accepted."""
    rounds = figures.rounds[-_LATELY:]
    if not rounds:
        return ""
    knobs = rounds[-1].knobs
    # Rounds before the last change of a knob say nothing about the present ones.
    rounds = tuple(round for round in rounds if round.knobs == knobs)
    if any(round.count("accepted") for round in rounds):
        return ""
    if any(round.count("rejected") for round in rounds):
        if len(rounds) < _LATELY // 2:
            return ""
        full = _draft_full(rounds)
        besides = f"; {full.partition(':')[0]}" if full else _besides(figures, knobs)
        return "all drafts are rejected" + (besides or ": this text cannot be guessed")
    return f"no drafts: {_cause(figures, rounds)}"


def last_reason(figures: Figures) -> str:
    """What was drafted last, or why nothing; "" where there is nothing to say."""
    lately = figures.rounds[-_LATELY:]
    if drafted := sum(bool(round.drafted) for round in lately if round.parts[0][1] is None):  # a server gives no reasons
        return f"the server drafted in {drafted} of the last {len(lately)} rounds"
    # A reply's last token always has no room for a draft.
    told = (round for round in reversed(figures.rounds) if round.reason is not None and round.reason.kind != "no room")
    last = next(told, None)
    if last is None or last.reason is None:
        return ""
    sources = " + ".join(dict.fromkeys(token.source for token in last.drafted)) if figures.live else "last round"
    return f"{sources}: " * bool(sources) + worded(last.reason, last.knobs)


def _cause(figures: Figures, rounds: tuple[Round, ...]) -> str:
    knobs, reasons = rounds[-1].knobs, [round.reason for round in rounds if round.reason is not None]
    # A reply's last token always has no room for a draft.
    reason = next((reason for reason in reversed(reasons) if reason.kind != "no room"), reasons[-1] if reasons else None)
    if reason is None:
        return "the policy expects no gain"
    if reason.kind == "no room" and knobs.draft_max == 0:
        return "draft-max is 0"
    if reason.kind == "no match" and figures.draft_failed:
        return "the draft model failed; the next reply tries it again"
    if reason.kind == "no match" and knobs.drafter in ("model", "mtp") and not figures.has_draft:
        heads = "the model has no heads of its own (MTP)"
        return heads if knobs.drafter == "mtp" else figures.draft_problem or "there is no draft model: give one with -md"
    # Without "the" the reason with its three figures fits into two lines of a window of 120 cells.
    besides = _besides(figures, knobs) if reason.kind not in (*SERVER, "drafter off", "no room") else ""
    return cause(reason, knobs).removeprefix("the " if reason.kind == "unlikely" else "") + besides


def _draft_full(rounds: tuple[Round, ...]) -> str:
    """That the draft model's own context is full, if it was in one of these rounds; else ""."""
    reasons = (round.reason for round in reversed(rounds) if round.reason is not None)
    full = next((reason for reason in reasons if reason.kind == "draft full"), None)
    return cause(full, rounds[-1].knobs) if full is not None else ""


def _besides(figures: Figures, knobs: Knobs) -> str:
    """A further cause: there is no draft model, or it has another vocabulary."""
    if knobs.drafter == "suffix":
        return ""
    if figures.has_draft:
        return "; the draft has another vocabulary" if figures.translated else ""
    return f"; {figures.draft_problem or 'no draft model (-md)'}"
