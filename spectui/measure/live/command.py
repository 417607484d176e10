"""The command that finds the best settings for the pair of a chat: its models and settings as flags, and options that a person
can change."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup, specs
from spectui.measure.bench.results import new_file
from spectui.text import escaped

OPTIONS = "--minutes 5"
"""The options that it is proposed with."""

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
"""The knobs that it takes from the chat. The other ones are what it varies, or would make it too long."""


def arguments(setup: Setup, knobs: Knobs, options: str) -> tuple[str, ...]:
    """What `spectui` is called with. Raises UsageError if the options cannot be split into words."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise UsageError(f"The options cannot be read: {error}.") from None
    # The options come last: of a flag that is given twice the last one counts.
    results = ("--results", str(new_file("tune")))
    return ("tune", "--live", "--config", os.devnull, *results, *flags(setup, knobs), *words)


def results_of(arguments: Sequence[str]) -> Path | None:
    """The file to which the command writes its runs; None for one that writes none."""
    named = [value for flag, value in pairwise(arguments) if flag == "--results"]
    return Path(named[-1]) if named else None


def flags(setup: Setup, knobs: Knobs) -> list[str]:
    """The models, the settings that differ from the defaults, and always the temperature."""
    written = []
    for owner in (setup, knobs):
        for key, default, spec in specs(type(owner)):
            value = getattr(owner, key)
            if (value != default or key == "temperature") and (owner is setup or key in _SAMPLING):
                for each in map(escaped, value) if isinstance(value, tuple) else [str(value)]:
                    written += [spec.flags[0], each]
    return written


def in_short(setup: Setup) -> str:
    """The command before its options, with the models' names in place of their paths."""
    models = [
        part for flag, path in (("-m", setup.model), ("-md", setup.draft)) if path for part in (flag, Path(path).name)
    ]
    return shlex.join(["spectui", "tune", *models])
