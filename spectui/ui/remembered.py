"""What a person has chosen, of the window's look and of models, for its next start."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from spectui.atomic import write_atomic
from spectui.ui.dashboard.panel import PAGES

if TYPE_CHECKING:
    from spectui.ui.screen.chat import ChatScreen

LONGEST = 10_000
"""Bytes of the file that are read."""

PARTS = ("panel", "chats")
"""Parts of the window that can be hidden."""

Value = TypeVar("Value", str, bool, list[object])


class Remembered:
    """Values by name, in a file that can be lost: what is damaged in it is as if it had not been chosen."""

    def __init__(self, file: Path | None = None) -> None:
        """`file` need not exist. None: nothing is read or written."""
        self._file = file
        self._values: dict[str, object] = {}
        if file is not None and os.path.isfile(file):  # a pipe would be waited for
            with suppress(OSError, ValueError, RecursionError), file.open("rb") as opened:
                read = json.loads(opened.read(LONGEST))
                self._values = read if isinstance(read, dict) else {}

    def get(self, name: str, default: Value) -> Value:
        """What was chosen last."""
        value = self._values.get(name)
        return value if isinstance(value, type(default)) else default

    def set(self, **choices: str | bool | list[tuple[str, str | None]]) -> None:
        """Remember these choices, until `save` only here."""
        self._values = {**self._values, **choices}

    def save(self) -> None:
        """Write the choices to the disk. Any thread may call it. Where that fails they are lost."""
        if self._file is not None:
            with suppress(OSError):
                write_atomic(self._file, json.dumps(self._values).encode())


def restore(screen: ChatScreen, chosen: Remembered) -> None:
    """Give a screen that opens the look that was chosen last, unless it closes before it has widgets."""
    if not screen.is_mounted:
        return
    read = [tuple(pair) for pair in chosen.get("pairs", list[object]()) if isinstance(pair, list)]
    screen.session.models.pairs += [pair for pair in read if len(pair) == 2 and all(map(isinstance, pair, (str, str | None)))]
    screen.transcript.show_tokens = chosen.get("tokens", False)
    for part in PARTS:
        screen.set_class(not chosen.get(part, True), f"-no-{part}")
    if (page := chosen.get("page", "")) in PAGES:
        screen.panel.show_page(page)


def note(screen: ChatScreen, chosen: Remembered) -> None:
    """Remember the look of a screen that closes, if it ever was open."""
    if not screen.is_mounted:
        return
    pairs = [pair for pair in screen.session.models.pairs if all(os.path.isfile(file) for file in pair if file)]
    seen = {part: not screen.has_class(f"-no-{part}") for part in PARTS}
    chosen.set(tokens=screen.transcript.show_tokens, page=screen.panel.page, pairs=pairs, **seen)
