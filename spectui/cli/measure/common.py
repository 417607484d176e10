"""What several of the commands that print results have in common: options, prompts, and where the results go."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from spectui.errors import SpectuiError, UsageError
from spectui.text import LOOKALIKES

if TYPE_CHECKING:
    from io import TextIOWrapper

    from spectui.knobs import Knobs
    from spectui.measure.bench.prompt_files import Prompt

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="print one JSON object instead of the text")

SLOWER_PASSES = "The machine is busy ({other}), so passes may take longer than they need."
UNEVEN_SPEEDS = "The machine is busy ({other}): speeds will be too low, and uneven."


def prompt_options(default: str) -> Callable[[Decorated], Decorated]:
    """Give a command `--prompts`, with these as the default, and `-f`."""
    names = click.option("--prompts", "names", metavar="NAME,...", help=f"built-in prompts (default {default})")
    file = click.option(
        "-f", "--file", "prompt_file", type=click.Path(path_type=Path), metavar="FILE",
        help="your prompts: one a line, or a .jsonl file with conversations; - reads standard input",
    )  # fmt: skip
    return lambda function: names(file(function))


def tell_if_busy(sentence: str) -> str:
    """Say on standard error which other processes use the machine, if any do, and return that; takes a second."""
    from spectui.measure.quiet import busy

    if other := busy():
        click.echo(f"spectui: {sentence.format(other=other)}", err=True)
    return other


def prepare_stdout(what: str = "the figures") -> None:
    """Let standard output take every character, since a terminal's encoding may lack some. Raises SpectuiError where it is
    closed."""
    if sys.stdout is None:
        raise SpectuiError(f"Standard output is closed, so there is nowhere to write {what}.")
    cast("TextIOWrapper", sys.stdout).reconfigure(errors=LOOKALIKES)


def chosen_prompts(names: str | None, file: Path | None, system: str, default: str) -> list[Prompt]:
    """The prompts of the file, or the built-in ones of these names. Raises UsageError."""
    from spectui.measure.bench import prompt_files

    if file is None:
        return prompt_files.built_in(
            [name.strip() for name in (default if names is None else names).split(",")], system
        )
    if names is not None:
        raise UsageError("Give the prompts with --prompts or with -f, not with both.")
    return prompt_files.read(file, system)


def repeatable(knobs: Knobs, seed: int, predict: int) -> Knobs:
    """The knobs with this seed and length of a reply where a person left them open, so that runs write the same."""
    return replace(
        knobs,
        seed=knobs.seed if knobs.seed >= 0 else seed,
        predict=knobs.predict if knobs.predict > 0 else predict,
    )
