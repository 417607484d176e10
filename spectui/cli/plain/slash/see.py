"""Commands that tell how fast it is, and why."""

from __future__ import annotations

from spectui.chat.comparison import Comparison
from spectui.chat.figures.format import count, duration
from spectui.chat.sentences import counted_lines
from spectui.cli.plain.slash.command import Chat, Run
from spectui.cli.plain.text_report import comparison_lines, payoff_lines, summary_line, token_lines
from spectui.errors import UsageError


def _stats(chat: Chat, rest: str) -> None:
    figures = chat.session.figures()
    chat.output(f"{chat.pair}; context {count(figures.n_context)} of {count(figures.n_ctx)} tokens.")
    if figures.reply.emitted:
        chat.output(f"Last reply: {summary_line(figures.reply)}; first token after {duration(figures.first_token_s)}.")
    if figures.chat.emitted:
        chat.output(f"This chat: {summary_line(figures.chat)}.")
    for line in payoff_lines(figures):
        chat.output(line)
    for line in counted_lines(figures.counted):
        chat.output(f"The server has counted {line}.")


def _compare(chat: Chat, rest: str) -> None:
    chat.refuse(chat.session.no_comparison)
    comparison = Comparison(chat.session.messages[-1].rounds)
    chat.wait_for(lambda: chat.session.compare(comparison))
    for line in comparison_lines(comparison):
        chat.output(line)


def _token(chat: Chat, rest: str) -> None:
    last = chat.session.last_reply
    tokens = [(token, round) for round in last.rounds for token in round.tokens] if last is not None else []
    if not tokens:
        raise UsageError("There is no reply yet.")
    try:
        number = int(rest or -1)
    except ValueError:
        number = 0
    nth = number if number > 0 else len(tokens) + 1 + number
    if not 0 < nth <= len(tokens):
        raise UsageError(f"/token takes a number up to {len(tokens)}, or from -1 back.")
    token, round = tokens[nth - 1]
    for line in token_lines(token, round, f"Token {nth} of {len(tokens)}"):
        chat.output(line)


RUN: dict[str, Run] = {
    "stats": _stats,
    "measure": _compare,
    "token": _token,
}
