"""llama-server's command line: read from a file or a script, and written from a profile."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from spectui.errors import UsageError
from spectui.profiles.exported import Exported
from spectui.profiles.imported import ImportedFile, LeftOut, imported
from spectui.profiles.scripts.started import Script, Started
from spectui.profiles.scripts.variables import variables

OTHER_LINES = "Other lines of the file"
SHELL = "What the shell does with it"


def read(text: str, file: Path | None = None) -> ImportedFile:
    """The profile of the one command of llama.cpp in a text: a line, or a shell script around it.

    Raises UsageError if there is none, or more than one, or if it is no whole script.
    """
    from spectui.profiles.scripts import shell

    return profile_of(text, file, shell.read)


def read_variables(text: str, file: Path | None = None) -> ImportedFile:
    """The profile of the LLAMA_ARG_ variables of a file. Raises UsageError if it has none, or is cut off."""
    found = {name: value for name, value in variables(text, os.environ).items() if name.startswith("LLAMA_ARG_")}
    if not found:
        raise UsageError("It has no variable LLAMA_ARG_..., which llama-server reads: give the file that starts it.")
    return ImportedFile((imported(Started([], variables=found), comments=text),))


def profile_of(text: str, file: Path | None, reader: Callable[[str, Path | None], Script]) -> ImportedFile:
    """The profile of the one command of llama.cpp in a script that `reader` reads. Raises as `read`."""
    script = reader(text, file)
    others = tuple(LeftOut(OTHER_LINES, line) for line in script.others)
    if not script.started:
        first = script.others[0] if script.others else ""
        reason = (
            f"it starts {first.split()[0]!r}, which is no program of llama.cpp."
            if first
            else "there is no command in it."
        )
        raise UsageError(f"There is no llama-server command: {reason}")
    given = [each for each in script.started if each.arguments] or script.started
    different = {tuple(each.arguments) for each in given}  # the same one may stand in several branches
    if len(different) > 1:
        raise UsageError(f"There are {len(different)} commands of llama.cpp: leave one in the file.")
    started = given[0]
    tail = (LeftOut(SHELL, started.tail),) if started.tail else ()
    return ImportedFile((imported(started, comments=text),), (*others, *tail))


def write(profiles: Sequence[tuple[str, Exported]]) -> str:
    """A command line for each profile, over several lines, with comments."""
    blocks = []
    for name, exported in profiles:
        # An alias with a comma would be two.
        alias = [] if "," in name else [("--alias", name)]
        flags = [" ".join(map(shlex.quote, each)) for each in (*alias, *exported.arguments)]
        blocks.append(
            "".join(f"# {line}\n" for line in exported.comments()) + " \\\n  ".join(["llama-server", *flags]) + "\n"
        )
    return "\n".join(blocks)
