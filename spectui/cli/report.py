"""What `spectui run` says about a reply: the `spectui.run/1` object, and the last lines of llama-speculative."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spectui.store.export import finite, model_table, round_table, statistics_table
from spectui.thinking import divided, thought_and_answer

if TYPE_CHECKING:
    from spectui.engine.events import Finished, Loaded
    from spectui.speculation.records import Round

SCHEMA = "spectui.run/1"


def report(loaded: Loaded, rounds: Sequence[Round], finished: Finished, *, with_rounds: bool = False) -> dict[str, Any]:
    """The object that `spectui run --json` prints. Unknown figures are None; every number is finite.

    `with_rounds`: it has the rounds too.
    """
    tokens = [token for round in rounds for token in round.tokens]
    thought, answer = thought_and_answer(divided((bool(token.thought), token.text) for token in tokens))
    whole: dict[str, Any] = finite(
        {
            "schema": SCHEMA,
            "model": model_table(loaded.target),
            "draft": model_table(loaded.draft) if loaded.draft else None,
            "settings": {**dataclasses.asdict(loaded.setup), **dataclasses.asdict(finished.knobs)},
            "prompt_tokens": finished.prompt_tokens,
            "text": finished.text,
            "thinking": thought,
            "answer": answer,
            "stop_reason": finished.reason.value,
            "tokens": [token._asdict() for token in tokens],
            "stats": statistics_table(finished.statistics)
            | {"prompt_s": finished.prompt_s, "time_to_first_token_s": finished.time_to_first_token_s},
            **({"rounds": [round_table(round) for round in rounds]} if with_rounds else {}),
        }
    )
    return whole


def summary(finished: Finished) -> str:
    """The last lines of llama-speculative's output, with the same widths; a dash for what is unknown."""
    figures = finished.statistics
    lines = [
        _timing("encoded", finished.prompt_tokens, finished.prompt_s),
        _timing("decoded", figures.emitted, figures.decode_s, figures.untimed),
        "",
        f"n_draft   = {finished.knobs.draft_max if figures.verify_s else '-'}",
        f"n_predict = {figures.emitted}",
        f"n_drafted = {figures.drafted}",
        f"n_accept  = {figures.accepted}",
        f"accept    = {'-' if figures.acceptance is None else f'{100 * figures.acceptance:.3f}%'}",
    ]
    if figures.ignored:
        # llama.cpp does not count these. Without this line n_accept / n_drafted would not match the acceptance.
        lines.insert(-2, f"n_ignored = {figures.ignored}")
    if figures.guesses:
        lines.append(f"ahead     = {figures.right_guesses} of {figures.guesses} right, {figures.saved_s:.3f} s saved")
    return "\n".join(lines)


def _timing(what: str, tokens: int | None, seconds: float | None, untimed: int = 0) -> str:
    speed = f"{(tokens - untimed) / seconds:8.3f}" if tokens is not None and seconds else f"{'-':>8}"
    many, took = "-" if tokens is None else tokens, "-" if seconds is None else f"{seconds:.3f}"
    return f"{what} {many:>4} tokens in {took:>8} seconds, speed: {speed} t/s"
