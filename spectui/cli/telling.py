"""Figures and models in words, for a chat in lines."""

from __future__ import annotations

from spectui.llama.heads import Head
from spectui.llama.matching import match
from spectui.speculation.statistics import Statistics
from spectui.ui.figures import count, decimal, percent, size


def told(statistics: Statistics) -> str:
    """How fast it was, and how much of what was drafted was taken."""
    return (
        f"{count(statistics.emitted)} tokens at {decimal(statistics.tokens_per_s)} a second, "
        f"{decimal(statistics.tokens_per_pass)} a pass, {percent(statistics.acceptance)} of "
        f"{count(statistics.drafted)} drafted tokens accepted"
    )


def described(head: Head, heads: list[Head]) -> str:
    """What is known of a model, and which of these models can draft for it, by their numbers from 1."""
    what = [head.architecture, head.parameters, head.quantisation, size(head.size)]
    known = f"{head.name}: {', '.join(each for each in what if each)}"
    if head.problem:
        return f"{known}; it {head.problem}."
    drafts = [
        str(number) for number, each in enumerate(heads, 1) if match(head, each).how == "same" and each.size < head.size
    ]
    fit = f"drafts of its vocabulary: {', '.join(drafts)}" if drafts else "no draft of its vocabulary here"
    return f"{known}, context {count(head.context)} tokens; {fit}."
