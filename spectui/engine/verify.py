"""Is the text really plain decoding's? Decode it again without a draft, and explain the first difference, if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spectui.engine.events import Finished, Message, RoundDone
from spectui.engine.session import Session
from spectui.speculation.choice import choose
from spectui.speculation.evaluator import Evaluator
from spectui.speculation.records import Round
from spectui.speculation.sampling import likeliest


@dataclass(frozen=True)
class Verdict:
    """`same`: the texts are alike, token by token. `sentences`: what was found, in words."""

    same: bool
    speed_up: float | None
    sentences: tuple[str, ...]


def verify(session: Session, messages: Sequence[Message], finished: Finished, rounds: Sequence[Round]) -> Verdict:
    """Decode the same prompt and seed plainly, and compare. Raises SpectuiError as `Session.generate` does."""
    plain, plainly = _plain(session, messages, finished)
    ours = [token for round in rounds for token in round.tokens]
    theirs = [token for round in plainly for token in round.tokens]
    faster, slower = finished.statistics.tokens_per_s, plain.statistics.tokens_per_s
    speed_up = faster / slower if faster and slower else None
    pairs = enumerate(zip(ours, theirs, strict=False))
    first = next((n for n, (a, b) in pairs if a.id != b.id), None)
    if first is None and len(ours) == len(theirs):
        return Verdict(True, speed_up, (f"The text is plain decoding's, over {len(ours)} tokens.",))
    if first is None:
        return Verdict(
            False, speed_up, (f"One text ends after {min(len(ours), len(theirs))} tokens, the other goes on.",)
        )
    a, b = ours[first], theirs[first]
    sentences = [f"The texts differ from token {first + 1} on: {a.text!r} with drafts, {b.text!r} without."]
    sentences += _explained(session, messages, [token.id for token in ours[:first]], rounds[a.round], a.id, b.id)
    return Verdict(False, speed_up, tuple(sentences))


def _plain(session: Session, messages: Sequence[Message], finished: Finished) -> tuple[Finished, list[Round]]:
    before = session.knobs
    session.knobs = replace(finished.knobs, drafter="off")
    rounds: list[Round] = []
    try:
        with session.listening(lambda event: rounds.append(event.round) if isinstance(event, RoundDone) else None):
            return session.generate(messages), rounds
    finally:
        session.knobs = before


def _explained(
    session: Session, messages: Sequence[Message], before: list[int], round: Round, ours: int, theirs: int
) -> list[str]:
    """Evaluate the round's tokens at once and one by one: do the kernels' logits lead to the two choices?"""
    memory, prompt = session.memory_and_prompt(messages)
    text = prompt + before
    start = round.position - 1  # the token that the round evaluated first
    drafted = [token.id for token in round.drafted][: round.pass_size - 1]
    place = len(text) - round.position

    def row(sizes: Sequence[int]) -> NDArray[np.float32]:
        memory.truncate(0)
        _fill(memory, text[:start])
        rest = [text[start], *drafted]
        for size in sizes:
            rows = memory.evaluate(rest[:size], size)
            rest = rest[size:]
        last: NDArray[np.float32] = rows[place if len(sizes) == 1 else 0].copy()
        return last

    together = row([len(drafted) + 1])
    single = row([1] * (place + 1))
    knobs = round.knobs
    chosen = choose(together, knobs, len(text), text), choose(single, knobs, len(text), text)
    gap = float(np.abs(together - single).max())
    lines = [f"likeliest {how}: {session.shown(likeliest(logits, 3), logits)}" for how, logits in
             (("in the pass", together), ("alone", single))]  # fmt: skip
    if chosen == (ours, theirs):
        return [
            *lines,
            f"The kernels explain it: their logits depend on the size of the pass, here by up to {gap:.3f}.",
        ]
    return [*lines, f"The kernels do not explain it (logits differ by up to {gap:.3f}): please report this."]


def _fill(memory: Evaluator, tokens: list[int]) -> None:
    for start in range(0, len(tokens), memory.chunk):
        memory.evaluate(tokens[start : start + memory.chunk], 0)
