"""Reading a command line whose flags are llama.cpp's: for spectui's own commands, and for what other programs are started with.

llama.cpp has single-dash flags of several letters (`-ngl 99`) and no clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from spectui.config import nearest
from spectui.errors import UsageError

NOT_USED = "These flags of llama.cpp are not used"
CHANGES_TEXT = "spectui cannot do what these ask, so replies can differ from llama.cpp's"
HUB_TARGET = ("-hf", "-hfr", "--hf-repo")
HUB_DRAFT = ("-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf")
"""Flags that name a repository of the Hugging Face hub."""


class Shape(NamedTuple):
    """How a flag of ours is written. A `bare` one takes a value only where one follows; a `switch` never does."""

    name: str
    bare: bool = False
    switch: bool = False


@dataclass
class CommandLine:
    """A command line in click's form, and what was left out of it.

    `arguments`: each flag as it is declared, its value detached. `given`: our flags with their values, None for one without.
    `strays`: words that belong to no flag. `spelled`: option name -> the flag as it was written.
    `unused` and `refused`: flags of llama.cpp that have no use here, or that choose a model in a way that spectui does not
    have, with their values. `unknown`: other flags, with the words that follow them; only where they are allowed.
    """

    arguments: list[str] = field(default_factory=list)
    given: list[tuple[str, str | None]] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    spelled: dict[str | None, str] = field(default_factory=dict)
    unused: list[tuple[str, ...]] = field(default_factory=list)
    refused: list[tuple[str, ...]] = field(default_factory=list)
    unknown: list[tuple[str, ...]] = field(default_factory=list)


def read(words: Iterable[str], flags: Mapping[str, Shape], command: str, *, settings: bool, strict: bool = True) -> CommandLine:
    """Read the words of a command line.

    `flags`: ours, by every name. `command` is named in messages. Flags of llama.cpp are left out where the command takes
    `settings`. If `strict`, raises UsageError at the first flag that neither has, or that would choose a model.
    """
    line = CommandLine()
    rest = list(reversed([*words]))
    while rest:
        argument = rest.pop()
        if argument == "--":
            line.arguments += [argument, *reversed(rest)]
            line.strays += reversed(rest)
            break
        if not argument.startswith("-") or argument == "-":
            line.arguments.append(argument)
            line.strays.append(argument)
            continue
        written, equals, value = argument.partition("=")
        flag = written.replace("_", "-") if written.startswith("--") else written  # as llama.cpp does
        attached = [value] if equals else []
        if flag not in flags and argument[:2] in flags and argument[2:3] and argument[2] in "-0123456789":
            written = flag = argument[:2]  # -n200
            attached = [argument[2:]]
        shape = flags.get(flag)
        if shape is not None:
            line.spelled[shape.name] = written
            if rest and not attached and not shape.switch:  # a value may look like a flag (`-n -1`)
                is_value = not rest[-1].startswith("-") if shape.bare else strict or rest[-1] not in flags
                attached = [rest.pop()] if is_value else []
            line.arguments += [flag, *attached]
            line.given.append((flag, attached[0] if attached else None))
            continue
        values = unused_values(flag) if settings else None
        if values is not None:
            missing = values - len(attached)
            if missing > len(rest) and strict:
                raise UsageError(f"The flag {written} needs a value.")
            line.unused.append((flag, *attached, *(rest.pop() for _ in range(min(missing, len(rest))))))
        elif settings and flag in llama_flags()["models"]:
            if strict:
                raise UsageError(f"spectui takes no model from {flag}: give its file with -m, or its repository with -hf.")
            line.refused.append((flag, *attached, *_values(rest)))
        elif strict:
            raise UsageError(f"There is no flag {written} for {command}{nearest(flag, flags)}")
        else:
            line.unknown.append((written, *attached, *_values(rest)))
    return line


@cache
def llama_flags() -> Mapping[str, frozenset[str]]:
    """llama.cpp's flags that are not ours, and its environment variables, by the groups of `llama_flags.toml`."""
    import tomli

    groups = tomli.loads(Path(__file__).with_name("llama_flags.toml").read_text(encoding="utf-8"))
    return {name: frozenset(text.split()) for name, text in groups.items()}


def unused_values(flag: str) -> int | None:
    """How many values follow a flag of llama.cpp that spectui does not use; None if llama.cpp has no such flag."""
    groups = ("switches", "values", "pairs")
    return next((values for values, name in enumerate(groups) if flag in llama_flags()[name]), None)


def changes_text(flag: str) -> bool:
    """Can a flag of llama.cpp that spectui does not use change what llama.cpp writes?"""
    return flag in llama_flags()["text"]


def _values(rest: list[str]) -> list[str]:
    """Take from `rest`, which is reversed, the words that seem to be a flag's values."""
    values = []
    while rest and (not rest[-1].startswith("-") or rest[-1][1:2].isdigit()):
        values.append(rest.pop())
    return values
