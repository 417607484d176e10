"""What a server has counted of all its replies, as Prometheus reads it. vLLM and llama-server have the same names for it."""

from __future__ import annotations

import re
from collections import Counter

from spectui.engine.events import Counts

_LINE = re.compile(r"^\w+:spec_decode_num_(\w+?)(?:_total)?(?:\{([^}\n]*)\})?[ \t]+([0-9.eE+]{1,30})\s*$", re.MULTILINE)
_POSITION = re.compile(r'(?:^|,)\s*position="(\d{1,3})"')


def read_counts(text: str) -> Counts | None:
    """The counters of speculation in this text, added up over the engines of a server; None if it has none."""
    counted: Counter[str] = Counter()
    by_position: Counter[int] = Counter()
    for name, labels, value in _LINE.findall(text):
        try:
            number = int(float(value))
        except (ValueError, OverflowError):
            continue
        if name != "accepted_tokens_per_pos":
            counted[name] += number
        elif (found := _POSITION.search(labels)) is not None:
            by_position[int(found[1])] += number
    if not {"drafts", "draft_tokens", "accepted_tokens"} <= counted.keys():
        return None
    length = max(by_position, default=-1) + 1
    return Counts(
        counted["drafts"], counted["draft_tokens"], counted["accepted_tokens"],
        tuple(by_position[position] for position in range(length)),
    )  # fmt: skip
