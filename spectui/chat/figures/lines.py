"""Events as sentences, for both front ends; figures, tokens and models as sentences, for the plain chat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from spectui.chat.comparison import Comparison
from spectui.chat.dropping import Dropped
from spectui.chat.figures.estimates import payoff, speed_ups
from spectui.chat.figures.format import UNKNOWN, count, decimal, duration, milliseconds, percent, size, times, tokens
from spectui.chat.figures.reasons import why_no_drafts
from spectui.chat.figures.records import Figures
from spectui.chat.sentences import UNANSWERED, stop_note
from spectui.engine.events import Event, Failed, Finished, LoadFailed, Notice
from spectui.speculation.records import Round, Token
from spectui.speculation.statistics import Statistics
from spectui.text import printable

if TYPE_CHECKING:
    from spectui.chat.session import ChatSession
    from spectui.gguf_files.header import GgufHeader


def said_of(event: Event | Dropped, session: ChatSession) -> str:
    """What is said of an event, and what can be done about it; "" where nothing needs to be said."""
    match event:
        case LoadFailed(message=message, without_draft=without_draft, without_servers=without_servers):
            draft = "{without-draft} goes on without the draft. " if without_draft else ""
            again = "loads the models on this machine alone" if without_servers else "tries again"
            return f"{message} {draft}{{load}} {again}, {{placement}} with other flags, {{models}} chooses other models."
        case Finished(reason=reason, to_drop=to_drop):
            models = session.models
            return stop_note(reason.value, models.n_ctx, to_drop=to_drop > 0, larger=models.larger_context)
        case Failed(message=message, no_room=True, to_drop=to_drop):
            drop = "{drop} drops the oldest turns and asks again, " if to_drop else ""
            return (
                f"{message} {drop}{{edit}} brings the prompt back to be shortened, {{placement}} with -c sets a larger context."
            )
        case Failed(message=message):
            return f"{message} {UNANSWERED if session.conversation.unanswered is not None else '{regenerate} asks again.'}"
        case Dropped(turns=turns):
            rest = "and reads the others again. {undrop} brings them back."
            return f"The context was full: it goes on without the oldest turns ({turns}), {rest}"
        case Notice(message=message):
            return message
    return ""


def summary_line(statistics: Statistics) -> str:
    """How fast it was, and the share that was accepted of the drafted tokens that the target checked."""
    checked = statistics.accepted + statistics.rejected
    ignored = f", {count(statistics.ignored)} others ignored" if statistics.ignored else ""
    ahead = ""
    if statistics.guesses:
        ahead = f", {percent(statistics.guessed)} of its guesses ahead right, which saved {duration(statistics.saved_s)}"
    return (
        f"{tokens(statistics.emitted)} at {decimal(statistics.tokens_per_s)} a second, "
        f"{decimal(statistics.tokens_per_pass)} a pass, {percent(statistics.acceptance)} of "
        f"{count(checked)} drafted tokens accepted{ignored}{ahead}"
    )


def payoff_lines(figures: Figures) -> Iterator[str]:
    """Whether drafting pays, estimated from the latest rounds, or why nothing is drafted."""
    if why := why_no_drafts(figures):
        yield f"{why[0].upper()}{why[1:]}."
    elif figures.reply.drafted and (paid := payoff(figures.rounds)) is not None:
        yield (f"Drafting is estimated to make it about {times(paid.pays)} as fast: {decimal(paid.tokens)} tokens a round,"
               f" which takes {decimal(paid.passes)} plain passes.")  # fmt: skip
    if expected := speed_ups(figures.rounds, figures.reply):
        best = expected.index(max(expected))
        flag = f": {figures.draft_max_flag} {best}" if figures.draft_max_flag else ""
        yield f"The best draft-max by this estimate is {best}{flag}."


def comparison_facts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """The measured speed-up, and whether the text is the same: names and what they are."""
    emitted, difference = comparison.plain.emitted, comparison.difference
    yield "so far" if comparison.running else "measured", str(comparison.measured or UNKNOWN)
    if difference is not None:
        yield "identical text", f"no, from token {count(difference.number)} on"
        for name, token in (("with drafts", difference.first), ("without", difference.second)):
            yield name, f"{_quoted(token.text)} id {token.id}" if token is not None else "its end"
        if comparison.turned:
            yield "knobs turned", ", ".join(comparison.turned)
        if comparison.explanation:
            yield "why", comparison.explanation
    elif comparison.identical:
        yield "identical text", f"yes, over {tokens(emitted)}"
    elif comparison.running and emitted:
        yield "identical text", f"so far, over {tokens(emitted)}"
    else:
        yield "identical text", printable(f"{UNKNOWN} {comparison.problem}".strip())


def token_lines(token: Token, round: Round, name: str) -> Iterator[str]:
    """Where a token came from, its probabilities, the likeliest tokens there, and the times of its round."""
    index = next(index for index, each in enumerate(round.tokens) if each is token)
    origin = f"{token.origin}, drafted by {token.source}" if token.origin == "accepted" else token.origin
    if token.origin == "correction":
        origin = f"{origin} in place of {_quoted(round.drafted[index].text)} by {round.drafted[index].source}"
    yield f"{name} is {_quoted(token.text)}: {origin}; target {_chance(token.p_target)}, draft {_chance(token.p_draft)}."
    if round.likeliest is not None:
        best = (f"{_quoted(text)} {_chance(p)}" for _, text, p in round.likeliest.at(index))
        yield f"The target's likeliest: {', '.join(best)}."
    draft, verify, sampling = (milliseconds(seconds) for _, seconds in round.parts[:3])
    yield (f"Round {round.index} took {milliseconds(round.seconds)} ms: draft {draft}, verify {verify}, sampling {sampling};"
           f" {round.count('accepted')} of {len(round.drafted)} drafted tokens accepted.")  # fmt: skip


def _quoted(text: str) -> str:
    """A token's text in quotes, so that a screen reader reads its spaces and line ends."""
    return json.dumps(printable(text), ensure_ascii=False)


def _chance(p: float | None) -> str:
    return "unknown" if p is None else f"{p:.3f}"


def model_line(header: GgufHeader, headers: list[GgufHeader]) -> str:
    """A model's properties, and the numbers (from 1) of those that can draft for it."""
    what = [header.architecture, header.parameters, header.quantisation, size(header.size)]
    known = f"{header.name}: {', '.join(each for each in what if each)}"
    if header.problem:
        return f"{known}; it {header.problem}."
    from spectui.gguf_files.compatibility import smaller_drafts

    fitting = smaller_drafts(header, headers)
    drafts = [str(number) for number, each in enumerate(headers, 1) if each in fitting]
    fit = f"drafts of its vocabulary: {', '.join(drafts)}" if drafts else "no draft of its vocabulary here"
    return f"{known}, context {count(header.n_ctx_train)} tokens; {fit}."
