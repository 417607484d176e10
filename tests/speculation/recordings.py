"""Recordings: what a target wrote, and what its draft model would have drafted at each position of it.

A recording is a file of JSON Lines: the "prompt" with its tokens, then a "round" for each pass of the target without drafts;
before each, if there is a draft model, the "drafts" at its position. The files have further fields that nothing reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spectui.speculation.records import Round
from tests.speculation.simulation import Chain, Recording


def read_recording(file: Path, *, ends: bool) -> Recording:
    """The recording in a file, for a simulation. `ends`: the model ended the reply there."""
    rows = [json.loads(line) for line in file.read_bytes().splitlines()]
    (prompt,) = (row["tokens"] for row in rows if row["type"] == "prompt")
    rounds = [row for row in rows if row["type"] == "round"]
    drafts = {row["position"]: [(token, p) for token, p in row["tokens"]] for row in rows if row["type"] == "drafts"}
    reply = [token[0] for row in rounds for token in row["tokens"]]
    chains = [drafts[len(prompt) + index] for index in range(len(reply))] if drafts else None
    return Recording([*prompt, *reply], len(prompt), [p for row in rounds for p in _sure(row)], chains, ends=ends)


def write_recording(file: Path, prompt: Sequence[int], rounds: Sequence[Round], chains: Sequence[Chain]) -> None:
    """Write a reply of rounds with one token each; `chains`: what was drafted before each of them, () without a draft model."""
    rows: list[dict[str, Any]] = [{"type": "prompt", "tokens": [*prompt]}]
    for index, round in enumerate(rounds):
        if chains:
            rows.append({"type": "drafts", "position": round.position, "tokens": chains[index]})
        tokens = [
            [token.id, token.text, token.origin, token.source, token.p_draft, p]
            for token, p in zip(round.tokens, round.target_confidence, strict=True)
        ]
        rows.append({"type": "round", "position": round.position, "tokens": tokens})
    file.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))


def _sure(row: dict[str, Any]) -> list[float]:
    """The target's probability of its likeliest token at each position, else of its own."""
    if "likeliest" in row:
        return [choices[0][2] for choices in row["likeliest"]]
    return [token[5] or 0.0 for token in row["tokens"]]
