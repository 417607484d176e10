"""The command that measures the pair of a chat: its models and settings as flags, and options that a person can change."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup, specs
from spectui.measure.bench.results import new_file
from spectui.text import escaped


@dataclass(frozen=True)
class Measurement:
    """One of the commands. `options`: those that it is proposed with. `keeps_runs`: it writes its runs to a file."""

    name: str
    purpose: str
    options: str
    keeps_runs: bool = True


MEASUREMENTS = (
    Measurement("bench", "Which settings are fastest: auto and some fixed ones on four prompts.", "--runs 3"),
    Measurement(
        "costs", "What a pass over n tokens costs, and which draft-max follows.", "--contexts 0,512 --minutes 2", False
    ),
    Measurement("tune", "The best fixed setting, and whether auto beats it.", "--minutes 5"),
    Measurement("compare", "Which of several drafts is best for the target.", "--minutes 10"),
)

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
"""The knobs that a measurement takes from the chat. The other ones are what it varies, or would make it too long."""


def arguments(measurement: Measurement, setup: Setup, knobs: Knobs, options: str) -> tuple[str, ...]:
    """What `spectui` is called with. Raises UsageError if the options cannot be split into words."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise UsageError(f"The options cannot be read: {error}.") from None
    # A measurement that would take long asks: in the window it is stopped instead.
    more = ["--yes"] if measurement.name == "bench" else []
    more += ["--results", str(new_file(measurement.name))] if measurement.keeps_runs else []
    setup = _named(measurement, setup)
    # The options come last: of a flag that is given twice the last one counts.
    sampling = _SAMPLING if measurement.keeps_runs else ()
    return (measurement.name, "--live", "--config", os.devnull, *more, *flags(setup, knobs, sampling), *words)


def results_of(arguments: Sequence[str]) -> Path | None:
    """The file to which the command writes its runs; None for one that writes none."""
    named = [value for flag, value in pairwise(arguments) if flag == "--results"]
    return Path(named[-1]) if named else None


def flags(setup: Setup, knobs: Knobs, sampling: Collection[str] = _SAMPLING) -> list[str]:
    """The models, the settings that differ from the defaults, and always the temperature; of the knobs those in `sampling`."""
    written = []
    for owner in (setup, knobs):
        for key, default, spec in specs(type(owner)):
            value = getattr(owner, key)
            if (value != default or key == "temperature") and (owner is setup or key in sampling):
                for each in map(escaped, value) if isinstance(value, tuple) else [str(value)]:
                    written += [spec.flags[0], each]
    return written


def in_short(measurement: Measurement, setup: Setup) -> str:
    """The command before its options, with the models' names in place of their paths."""
    setup = _named(measurement, setup)
    models = [
        part for flag, path in (("-m", setup.model), ("-md", setup.draft)) if path for part in (flag, Path(path).name)
    ]
    return shlex.join(["spectui", measurement.name, *models])


def _named(measurement: Measurement, setup: Setup) -> Setup:
    """What the flags name: the drafts of a comparison are among its options."""
    return replace(setup, draft=None) if measurement is MEASUREMENTS[-1] else setup


def compared(drafts: Sequence[str]) -> str:
    """The options that compare these files."""
    return f"{shlex.join(drafts)} {MEASUREMENTS[-1].options}"
