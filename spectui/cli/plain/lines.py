"""Lines that a person types at a terminal: edited by readline where Python has it, with earlier prompts at the arrow keys."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

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
        try:
            import readline
        except ImportError:
            self._remember: Callable[[str], object] = lambda line: None
        else:
            readline.set_auto_history(False)
            if os.environ.get("TERM") != "dumb":
                readline.parse_and_bind("set enable-bracketed-paste on")  # off in older versions
            readline.clear_history()
            self._remember = readline.add_history
            for prompt in earlier[-MOST:]:
                readline.add_history(prompt)
        self._last = earlier[-1] if earlier else ""

    def __call__(self, prompt: str) -> str:
        """The next line, with its end; "" at the end of all. May raise KeyboardInterrupt."""
        try:
            line = printable(_ESCAPES.sub("", input(prompt)))
        except EOFError:
            return ""
        if line.strip() and line != self._last:
            self._last = line
            self._remember(line)
            if not line.startswith("/"):
                self._save(line)
        return f"{line}\n"
