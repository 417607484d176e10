"""Lines that a person types at a terminal: edited by readline where Python has it, with earlier prompts at the arrow keys."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from types import ModuleType

from spectui.store.prompts import is_of
from spectui.text import printable

MOST = 1000
"""Lines that the arrow keys bring back."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[O\]]?.)?")


class TypedLines:
    """Asks for one line after the other, without the codes that keys send.

    readline takes lines of any length, and a paste of several lines as one. Without it the terminal edits them: it cuts a line
    after 4,095 bytes, and each line of a paste is one.
    """

    def __init__(self, earlier: Sequence[str], save: Callable[[str], None]) -> None:
        """`earlier`: prompts of earlier chats, the oldest first. `save` is given each prompt."""
        self._save = save
        self._last = earlier[-1] if earlier else ""
        self._readline: ModuleType | None = None
        try:
            import readline
        except ImportError:
            return
        self._readline = readline
        readline.set_auto_history(False)
        if os.environ.get("TERM") != "dumb":
            readline.parse_and_bind("set enable-bracketed-paste on")  # off in older versions
        readline.clear_history()
        for prompt in earlier[-MOST:]:
            readline.add_history(prompt)

    def __call__(self, prompt: str) -> str:
        """The next line, with its end; "" at the end of all. May raise KeyboardInterrupt."""
        try:
            return f"{printable(_ESCAPES.sub('', input(prompt)))}\n"
        except EOFError:
            return ""

    def remember(self, whole: str) -> None:
        """Bring this prompt or command, of one line or more, back at the arrow keys; a prompt is saved too."""
        if whole.strip() and whole != self._last:
            self._last = whole
            if self._readline is not None:
                self._readline.add_history(whole)
            if not is_command(whole):
                self._save(whole)

    def forget(self, messages: Sequence[str]) -> None:
        """Do not bring back what was sent as one of these messages."""
        if self._readline is not None:
            for at in reversed(range(self._readline.get_current_history_length())):
                line = self._readline.get_history_item(at + 1)
                if any(is_of(line, message) for message in messages):
                    self._readline.remove_history_item(at)


def is_command(line: str) -> bool:
    """Whether a line of the plain chat is a command: two slashes begin a prompt."""
    return line.startswith("/") and not line.startswith("//")
