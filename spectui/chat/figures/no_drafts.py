"""Why nothing is drafted or accepted, and what to do about it."""

from __future__ import annotations

from spectui.chat.figures.reasons import SERVER, cause
from spectui.chat.figures.records import Figures
from spectui.knobs import Knobs
from spectui.speculation.records import Round

_LATELY = 8
"""The number of latest rounds to look at: a single one without a draft needs no explanation."""


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


def _cause(figures: Figures, rounds: tuple[Round, ...]) -> str:
    knobs, room = rounds[-1].knobs, _room(figures)
    told = rounds[-1].reason
    if told is not None and told.kind in SERVER:
        return cause(told, knobs)
    if knobs.drafter == "off":
        return "the drafter is off"
    if knobs.draft_max == 0:
        return "draft-max is 0"
    if room is not None and room < max(2, knobs.draft_min):
        return "the context is nearly full: no room for a draft"
    if figures.draft_failed and knobs.drafter != "suffix":
        return "the draft model failed; the next reply tries it again"
    if knobs.drafter == "model" and not figures.has_draft:
        return figures.draft_problem or "there is no draft model: give one with -md"
    if knobs.drafter == "mtp" and not figures.has_draft:
        return "the model has no heads of its own (MTP)"
    if full := _draft_full(rounds):
        return full
    if knobs.policy == "fixed" and any(round.drafted for round in rounds):
        return f"all drafts are shorter than draft-min {knobs.draft_min}"
    if knobs.policy != "auto" and (knobs.drafter == "suffix" or not figures.has_draft):
        return "nothing here stood in the conversation before" + _besides(figures, knobs)
    if knobs.policy == "fixed":
        return f"no first token reaches p-min {knobs.p_min:.2f}" + (_besides(figures, knobs) or ": lower it")
    # Without "the" the reason with its three figures fits into two lines of a window of 120 cells.
    # Ignore "no room" if there is another reason: a reply's last token always has it.
    found = [round.reason for round in rounds if round.reason is not None]
    reason = next((each for each in reversed(found) if each.kind != "no room"), found[-1] if found else None)
    said = cause(reason, knobs).removeprefix("the ") if reason is not None else "the policy expects no gain"
    return said + _besides(figures, knobs)


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


def _room(figures: Figures) -> int | None:
    return None if figures.n_ctx is None or figures.n_context is None else figures.n_ctx - figures.n_context
