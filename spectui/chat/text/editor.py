"""A person's own editor for a text."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from spectui.errors import SpectuiError
from spectui.text import printable


class EditorError(SpectuiError):
    """The editor cannot be used."""


def edited(text: str, meanwhile: AbstractContextManager[None]) -> str:
    """The text after `$VISUAL`, `$EDITOR` or vi; `meanwhile` the terminal is theirs. Blocks; raises EditorError."""
    words = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="spectui-") as directory:
        file = Path(directory) / "prompt.md"
        file.write_text(text, encoding="utf-8", errors="replace")
        try:
            with meanwhile:
                done = subprocess.run([*shlex.split(words), str(file)], check=False)
            after = file.read_text(encoding="utf-8-sig", errors="replace")
        except (OSError, ValueError, IndexError) as error:
            raise EditorError(f"The editor {words!r} cannot be used: set EDITOR to another one.") from error
    if done.returncode:
        raise EditorError(f"The editor {words!r} failed ({done.returncode}): the prompt is as it was.")
    return printable(after).rstrip("\n")
