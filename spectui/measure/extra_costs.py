"""What drafts cost a target beside its passes: keeping hidden rows for heads, and taking rejected tokens back where it has
recurrent layers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import nullcontext
from statistics import fmean, stdev
from time import perf_counter
from typing import TYPE_CHECKING, Literal, NamedTuple

from spectui.llama.context import Checkpoint
from spectui.llama.heads.rows import none_kept
from spectui.speculation.evaluator import Interrupted

if TYPE_CHECKING:
    from spectui.llama.context import Context

PROMPT = 128
"""Tokens of the prompt that is read with and without hidden rows."""

Way = Literal["states", "checkpoint", "reading"]
"""How rejected tokens are taken back: the target has kept its last states; or the state that was saved before the pass is
restored, and what was accepted is read again; or the whole text is read again."""


class TakingBack(NamedTuple):
    """Of drafts of up to `longest` tokens, behind PROMPT tokens: seconds of each time."""

    way: Way
    longest: int
    save_s: list[float]
    """Before the pass of each round; [] where nothing is saved."""
    back_s: list[float]
    """In a round with a rejected token: from the rejection until the context holds what was accepted, here one token."""


class ExtraCosts(NamedTuple):
    """Those that this target has."""

    kept_s: Sequence[float] = ()
    """Seconds of reading a prompt while hidden rows are kept, and..."""
    not_kept_s: Sequence[float] = ()
    """... while they are not, in pairs with those."""
    taking_back: Sequence[TakingBack] = ()
    """By the length of drafts."""

    @property
    def ratio(self) -> tuple[float, float | None] | None:
        """How many times as long reading takes while rows are kept: the mean of the pairs and its standard error, None for one
        pair. None without pairs."""
        ratios = [kept / not_kept for kept, not_kept in zip(self.kept_s, self.not_kept_s, strict=True)]
        if not ratios:
            return None
        return fmean(ratios), stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else None


def extra_costs(target: Context, text: Sequence[int], repetitions: int, seconds: float) -> ExtraCosts:
    """Measure each at least once, for about so many seconds, unless it is interrupted. The context is empty then.

    `text`: tokens, at least PROMPT and the target's rows. A target whose context is shorter is not measured.
    """
    kept, not_kept, ways = list[float](), list[float](), dict[int, TakingBack]()
    until, prompt = perf_counter() + seconds, text[: min(PROMPT, target.chunk)]
    lengths = {target.takes_back, target.rows - 1} - {0} if target.model.recurrent else set()
    try:
        if target.n_ctx < PROMPT + target.rows:
            return ExtraCosts()
        if target.hidden is not None:
            _reading_s(target, prompt, True)  # the first pass of a size sets things up
        for repetition in range(repetitions):
            if repetition and perf_counter() > until:
                break
            if target.hidden is not None:  # which is first changes from pair to pair
                pair = {keep: _reading_s(target, prompt, keep) for keep in (repetition % 2 == 0, repetition % 2 == 1)}
                kept.append(pair[True])
                not_kept.append(pair[False])
            for longest in sorted(lengths):
                once = _taking_back(target, text, longest)
                before = ways.get(longest, once._replace(save_s=[], back_s=[]))
                ways[longest] = once._replace(save_s=before.save_s + once.save_s, back_s=before.back_s + once.back_s)
    except Interrupted:
        pass
    finally:
        target.truncate(0)
    return ExtraCosts(kept, not_kept, list(ways.values()))


def _reading_s(target: Context, prompt: Sequence[int], keep: bool) -> float:
    """Seconds of reading it, with or without hidden rows."""
    target.truncate(0)
    with nullcontext() if keep else none_kept(target):
        begun = perf_counter()
        target.evaluate(prompt, 0)
        took = perf_counter() - begun
        target.truncate(0)
    return took


def _taking_back(target: Context, text: Sequence[int], longest: int) -> TakingBack:
    """Of a draft of this length, which is rejected behind a prompt."""
    target.truncate(0)
    target.evaluate(text[:PROMPT], 0)
    before = Checkpoint(target.handle, PROMPT, (ctypes.c_uint8 * 0)())
    begun = perf_counter()
    Checkpoint(target.handle, PROMPT, before.state)
    save_s = perf_counter() - begun
    target.evaluate(text[PROMPT : PROMPT + longest + 1], longest + 1)
    begun = perf_counter()
    target.truncate(PROMPT + 1)
    left = len(target.tokens)
    if left <= PROMPT:
        target.evaluate(text[left : PROMPT + 1], 0)
    back_s = perf_counter() - begun
    way: Way = "states" if left > PROMPT else "checkpoint" if left == PROMPT else "reading"
    return TakingBack(way, longest, [save_s] if longest > target.takes_back else [], [back_s])
