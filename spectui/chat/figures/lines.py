"""Figures, tokens and models as sentences, for the plain chat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from spectui.chat.comparison import Comparison
from spectui.chat.figures.estimates import payoff, speed_ups
from spectui.chat.figures.format import UNKNOWN, count, decimal, duration, milliseconds, percent, size, times, tokens
from spectui.chat.figures.reasons import why_no_drafts
from spectui.chat.figures.records import Figures
from spectui.speculation.records import Round, Token
from spectui.speculation.statistics import Statistics
from spectui.text import printable

if TYPE_CHECKING:  # it brings hashlib, which the first screen does without
    from spectui.gguf_files.header import GgufHeader


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


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """The measured speed-up, and whether the text is the same."""
    fast, plain = comparison.with_drafts, comparison.plain
    yield (f"Measured: {comparison.measured or UNKNOWN}, {decimal(fast.tokens_per_s)} tokens a second with drafts and"
           f" {decimal(plain.tokens_per_s)} without.")  # fmt: skip
    found = comparison.difference
    if comparison.identical:
        yield f"The text is identical, over {tokens(plain.emitted)}."
    elif found is not None:
        first, second = (_quoted(token.text) if token is not None else "the end" for token in (found.first, found.second))
        turned = f"; {', '.join(comparison.turned)} was turned meanwhile" if comparison.turned else ""
        why = f", {comparison.explanation}" if comparison.explanation else ""
        yield f"The text differs: token {count(found.number)} is {first} with drafts, {second} without{turned}{why}."
    elif comparison.problem:
        yield f"It ended early: {printable(comparison.problem)}"


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
