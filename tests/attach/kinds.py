"""The kinds of speculation that llama-server is tried with."""

from __future__ import annotations

from collections.abc import Callable

from tests.helpers import smollm2

QUESTION = "Repeat this sentence ten times: The quick brown fox jumps over the lazy dog near the river bank."

SHARED = ("-c", "1024", "-t", "1", "--no-warmup", "-fit", "off", "--parallel", "1", "--metrics")

KINDS: dict[str, Callable[[], tuple[str | None, ...]]] = {
    "draft-simple": lambda: ("-md", smollm2.whole().draft, "--spec-type", "draft-simple", "--spec-draft-n-max", "6"),
    "ngram-mod": lambda: ("--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", "4", "--spec-ngram-mod-n-min", "2"),
    "": lambda: (),
}  # fmt: skip
"""Name -> flags; "" has none."""

MORE: dict[str, Callable[[], tuple[str | None, ...]]] = {
    "ngram-simple": lambda: (
        "--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4", "--spec-ngram-simple-size-m", "8",
    ),
    "ngram-map-k": lambda: (
        "--spec-type", "ngram-map-k", "--spec-ngram-map-k-size-n", "4", "--spec-ngram-map-k-size-m", "8",
    ),
    "ngram-cache": lambda: ("--spec-type", "ngram-cache"),
    "draft-simple + ngram-mod": lambda: (
        "-md", smollm2.whole().draft, "--spec-type", "draft-simple,ngram-mod", "--spec-ngram-mod-n-match", "4",
        "--spec-ngram-mod-n-min", "2",
    ),
}  # fmt: skip
"""The same of kinds whose streams are not recorded."""
