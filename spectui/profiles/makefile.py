"""A Makefile: the command of llama.cpp in its recipes, with make's variables written out.

What `make` would choose stays open: every rule's recipe is read, and one of them has to start a program of llama.cpp. A shell
of its own runs each line of a recipe. What a function or a variable of make itself would give is unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from spectui.profiles.imported import ImportedFile
from spectui.profiles.llama_server import profile_of
from spectui.profiles.scripts import shell
from spectui.profiles.scripts.started import LONGEST, Script, ScriptError, cut_off

_SET = re.compile(r"(?:(?:export|override)\s+)*([\w.-]+)\s*(::?=|\?=|\+=|=)\s*(.*?)\s*(?:(?<!\\)#.*)?")
_VARIABLE = re.compile(r"\$\$|\$\(([\w.-]+)\)|\$\{([\w.-]+)\}|\$([\w@<^*?])|\$\([^()]*\)")
_CONDITION = re.compile(r"[ ]*(ifn?def|ifn?eq|else|endif)\b")
_ROUNDS = 20
"""Variables of variables are followed as often."""


def is_makefile(text: str, file_name: str) -> bool:
    """Is it a Makefile, by its name or by a rule that a line with a tab follows?"""
    name = file_name.rsplit("/", 1)[-1].lower()
    rule = re.search(r"^[\w.-]+[ \t]*:(?!=)[^\n=]*\n(?:[ \t]*#[^\n]*\n)*\t", text, re.MULTILINE)
    return name in ("makefile", "gnumakefile") or name.endswith(".mk") or bool(rule and not text.startswith("#!"))


def read(text: str, file: Path | None = None) -> ImportedFile:
    """The profile of the one command of llama.cpp in a Makefile's recipes. Raises SpectuiError if there is none."""
    return profile_of(text, file, _script)


def _script(text: str, file: Path | None) -> Script:
    variables = dict(os.environ)
    found: list[Script] = []
    for recipe in _recipes(text, variables):
        script = Script([], [])
        for lines in ["\n".join(recipe)] if re.search(r"^\.ONESHELL:", text, re.MULTILINE) else recipe:
            command = _expanded(re.sub(r"(?m)^[@+-]+", "", lines), variables)
            try:
                one = shell.read(command, file)
            except ScriptError:
                if "llama" in command:
                    raise
                continue
            script = Script([*script.started, *one.started], [*script.others, *one.others])
        found.append(script)
    several = any(script.started for script in found)
    others = [line for script in found if script.started or not several for line in script.others]
    return Script([each for script in found for each in script.started], others)


def _recipes(text: str, variables: dict[str, str]) -> list[list[str]]:
    """The lines of each recipe; the variables that the file sets are put among the others."""
    recipes: list[list[str]] = []
    lines = text.splitlines()
    at = depth = 0
    while at < len(lines):
        first, line = at, lines[at]
        while line.endswith("\\"):
            at += 1
            if at == len(lines):
                raise cut_off(first + 1)
            behind = lines[at].removeprefix("\t")
            line = f"{line}\n{behind}" if line.startswith("\t") else f"{line[:-1].rstrip()} {behind.strip()}"
        at += 1
        if line.startswith("\t"):
            if recipes:
                recipes[-1].append(line.strip())
        elif _CONDITION.match(line):
            depth += -1 if line.strip().startswith("endif") else line.strip().startswith("if")
        elif found := _SET.fullmatch(line.strip()):
            name, sign, value = found.groups()
            if depth > 0 and variables.get(name) != value:  # only make can tell whether this holds
                variables[name] = (f"{variables.get(name, '')} " if sign == "+=" else "") + f"$(value {name})"
            elif sign == "+=":
                variables[name] = f"{variables.get(name, '')} {value}".strip()
            elif sign != "?=" or name not in variables:
                variables[name] = _expanded(value, variables, shell=False) if ":" in sign else value
        elif re.match(r"[^#\s][^=]*:", line):
            if found := _SET.fullmatch(line.partition(":")[2].strip()):
                variables[found[1]] = (
                    f"$(value {found[1]})"  # one rule's own, and only make can tell which one is followed
                )
                continue
            recipes.append([])
            _, separator, command = line.partition(";")
            recipes[-1] += [command.strip()] if separator else []
    return recipes


def _expanded(text: str, variables: Mapping[str, str], shell: bool = True) -> str:
    """A text with make's variables written out. For a shell, those that the file does not set are the shell's; what else
    make would put there stays as it is written, which no shell can tell either."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2] or found[3] or ""
        unknown = f"$${{{name}}}" if shell and re.fullmatch(r"[A-Za-z_]\w*", name) else found[0]
        return variables.get(name, unknown)

    for _ in range(_ROUNDS):
        written_out = _VARIABLE.sub(value, text)
        if written_out == text:
            return text.replace("$$", "$") if shell else text
        if len(written_out) > LONGEST:
            break
        text = written_out
    raise ScriptError("Its variables hold one another, or grow without end.")
