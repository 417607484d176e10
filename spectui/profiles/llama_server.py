"""llama-server's command line: read from a line or a script, and written from a profile."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from spectui.profiles.commands.script import Script, Shell
from spectui.profiles.exported import Exported
from spectui.profiles.imported import ImportedFile


def read(text: str, file: Path | None = None, language: type[Script] = Shell) -> ImportedFile:
    """The profile of the one command of llama.cpp in a line, or in a script of a language. Raises UsageError."""
    return language(file).profile(text)


def write(profiles: Sequence[tuple[str, Exported]]) -> str:
    """A command line for each profile, over several lines, with comments."""
    blocks = []
    for name, exported in profiles:
        # An alias with a comma would be two.
        alias = [] if "," in name else [("--alias", name)]
        flags = [" ".join(map(shlex.quote, words)) for words in (*alias, *exported.arguments)]
        blocks.append(
            "".join(f"# {line}\n" for line in exported.comments()) + " \\\n  ".join(["llama-server", *flags]) + "\n"
        )
    return "\n".join(blocks)
