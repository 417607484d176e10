"""The prompts that were sent, for the arrow keys to bring back: one JSON string a line, that only its owner may read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from spectui import paths
from spectui.atomic import write_atomic
from spectui.text import safe

MOST = 1000
"""Prompts kept."""
LONGEST = 20_000
"""Characters of a prompt that is kept; a longer one is in its conversation."""
_MOST_BYTES = 32 * 1024 * 1024


def prompts_file() -> Path:
    """Where they are kept."""
    return paths.state_directory() / "prompts.jsonl"


class PromptHistory:
    """Of all conversations. A disk that fails costs what is remembered, never the chat."""

    def __init__(self, file: Path | None) -> None:
        """Without a file nothing is kept."""
        self._file = file

    def load(self) -> list[str]:
        """The prompts, the oldest first. Where there are twice too many, the older half is taken off the disk."""
        lines = self._lines()
        if len(lines) > 2 * MOST:
            self._rewrite(lines[-MOST:])
        prompts = [_prompt(line) for line in lines[-MOST:]]
        return [prompt for prompt in prompts if prompt is not None]

    def add(self, prompt: str) -> None:
        """Keep one more."""
        if self._file is None or len(prompt) > LONGEST:
            return
        with suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Appended in one write: two spectui may have the file open.
            with open(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
                file.write(json.dumps(prompt).encode() + b"\n")

    def forget(self, messages: Iterable[str]) -> None:
        """Take the prompts of these messages off the disk; behind what was typed, a message has the files it named."""
        said = list(messages)
        lines = self._lines()
        kept = [line for line in lines if not any(is_of(_prompt(line), message) for message in said)]
        if len(kept) < len(lines):
            self._rewrite(kept)

    def clear(self) -> None:
        """Take all off the disk."""
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def _lines(self) -> list[bytes]:
        try:
            if self._file is None or not self._file.is_file() or self._file.stat().st_size > _MOST_BYTES:
                return []
            return self._file.read_bytes().splitlines()
        except OSError:
            return []

    def _rewrite(self, lines: list[bytes]) -> None:
        assert self._file is not None
        with suppress(OSError):
            write_atomic(self._file, b"".join(line + b"\n" for line in lines))


def is_of(prompt: str | None, message: str) -> bool:
    """Whether this is what was typed to send that message."""
    if prompt is None:
        return False
    typed = prompt.replace("\\@", "@")  # as it is sent
    return message == typed or message.startswith(f"{typed}\n\n")


def _prompt(line: bytes) -> str | None:
    with suppress(ValueError, RecursionError):
        prompt = json.loads(line)
        if isinstance(prompt, str) and len(prompt) <= LONGEST:
            return safe(prompt)
    return None
