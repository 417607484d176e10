"""A person's own editor for a text: the window steps aside until it ends."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from textual.app import App, SuspendNotSupported

from spectui.errors import SpectuiError
from spectui.ui.figures import printable


class EditorError(SpectuiError):
    """The editor cannot be used."""


def edited(app: App[None], text: str) -> str:
    """The text as it is after `$VISUAL`, `$EDITOR` or vi. Blocks; raises EditorError."""
    words = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="spectui-") as directory:
        file = Path(directory) / "prompt.md"
        file.write_text(text, encoding="utf-8", errors="replace")
        try:
            with app.suspend():
                done = subprocess.run([*shlex.split(words), str(file)], check=False)
            after = file.read_text(encoding="utf-8", errors="replace")
        except SuspendNotSupported as error:
            raise EditorError("An editor cannot be opened here: this is no terminal of its own.") from error
        except (OSError, ValueError, IndexError) as error:
            raise EditorError(f"The editor {words!r} cannot be used: set EDITOR to another one.") from error
    if done.returncode:
        raise EditorError(f"The editor {words!r} failed ({done.returncode}): the prompt is as it was.")
    return printable(after).rstrip("\n")
