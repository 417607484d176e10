"""The prompts that were sent, for the arrow keys to bring back: one a line, in a file that only its owner may read. A line is a
JSON string, or a list of strings: what was typed and what was pasted in turns.

Every function but the constructor reads or writes the disk.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from spectui import paths
from spectui.atomic import replacing, write_atomic
from spectui.store.database import names_kept
from spectui.text import safe

MOST = 1000
"""Prompts that are loaded."""

LONGEST = 256_000
"""Characters of a prompt that is saved: as many as an attached file may have. A longer one is in its conversation alone."""

MOST_BYTES = 16 * 1024 * 1024
"""Of the file: of a larger one the later half of the prompts is kept."""


class TypedPrompt(str):
    """A prompt, which knows what of it was pasted: every second one of its `pieces`."""

    pieces: tuple[str, ...]

    def __new__(cls, pieces: Iterable[str]) -> TypedPrompt:
        """The prompt of these pieces: what was typed and what was pasted in turns."""
        made = super().__new__(cls, "".join(pieces := tuple(pieces)))
        made.pieces = pieces
        return made


def pasted_in(prompt: str) -> tuple[str, ...]:
    """What of the prompt was pasted, as far as that is known."""
    return prompt.pieces[1::2] if isinstance(prompt, TypedPrompt) else ()


def prompts_file() -> Path:
    """The file of the prompts."""
    return paths.state_directory() / "prompts.jsonl"


class PromptHistory:
    """The prompts of all conversations. If the disk fails, prompts are lost, but the chat continues."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._unsent = file.with_name("unsent.json")

    def load(self) -> list[str]:
        """The latest prompts, the oldest first."""
        prompts = [_prompt(line) for line in self._lines()[-MOST:]]
        return [prompt for prompt in prompts if prompt is not None]

    def add(self, prompt: str) -> None:
        """Save one more."""
        if len(prompt) > LONGEST:
            return
        with suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with names_kept(self._file), open(os.open(self._file, flags, 0o600), "ab") as file:
                file.write(_line(prompt).encode() + b"\n")
                size = file.tell()
            if size > MOST_BYTES:
                self._rewrite(lambda lines: lines[len(lines) // 2 :])

    def forget(self, messages: Iterable[str]) -> None:
        """Delete the prompts of these messages from the disk. In a message, the files that it names follow the typed
        text."""
        said = list(messages)

        def is_said(line: bytes) -> bool:
            prompt = _prompt(line)
            return any(is_of(prompt, message) for message in said)

        if any(map(is_said, self._lines())):
            self._rewrite(lambda lines: [line for line in lines if not is_said(line)])

    def keep_unsent(self, text: str) -> bool:
        """Save the text that has not been sent, in place of the one before; "" deletes it. Returns whether that was done."""
        with suppress(OSError):
            if text:
                write_atomic(self._unsent, _line(text).encode())
            else:
                self._unsent.unlink(missing_ok=True)
            return True
        return False

    def take_unsent(self) -> str:
        """The text that was not sent when spectui ended, once: another spectui does not get it too."""
        with suppress(OSError, ValueError, RecursionError):
            text = _read(self._unsent.read_bytes())
            self._unsent.unlink()
            return text
        return ""

    def clear(self) -> None:
        """Take all off the disk."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
            self._unsent.unlink(missing_ok=True)

    def _lines(self) -> list[bytes]:
        with suppress(OSError):
            return self._file.read_bytes().splitlines()
        return []

    def _rewrite(self, kept: Callable[[list[bytes]], list[bytes]]) -> None:
        """Write the lines again that are `kept`. No spectui adds one meanwhile, which would be lost."""
        with suppress(OSError), names_kept(self._file, alone=True), replacing(self._file) as part:
            part.write_bytes(b"".join(line + b"\n" for line in kept(self._lines())))


def is_of(prompt: str | None, message: str) -> bool:
    """Whether this prompt was typed to send that message."""
    if prompt is None:
        return False
    typed = _typed(prompt)
    return message == typed or message.startswith(f"{typed}\n\n")


_NOT_A_COMMAND = re.compile("/(?=/+[a-z])")


def without_slash(prompt: str) -> str:
    """The prompt without the slash that keeps it from being a command: //help is sent as /help. "// a comment" stays whole."""
    return _NOT_A_COMMAND.sub("", prompt, count=1) if prompt.startswith("//") else prompt


def with_slash(message: str) -> str:
    """The prompt that `without_slash` turns into this message."""
    return f"/{message}" if re.match("/+[a-z]", message) else message


def _typed(prompt: str) -> str:
    """The prompt as it is sent: without the escapes of a command, and of signs that would name a file."""
    return without_slash(prompt).replace("\\@", "@")


def _line(prompt: str) -> str:
    pieces = prompt.pieces if isinstance(prompt, TypedPrompt) else ()
    return json.dumps(pieces if len(pieces) > 1 else prompt)


def _read(line: bytes) -> str:
    """The prompt that `_line` wrote; "" for something else. Raises ValueError or RecursionError for what is no JSON."""
    match json.loads(line):
        case str(text):
            return safe(text)
        case [*pieces] if all(isinstance(piece, str) for piece in pieces):
            return TypedPrompt(map(safe, pieces))
        case _:
            return ""


def _prompt(line: bytes) -> str | None:
    with suppress(ValueError, RecursionError):
        prompt = _read(line)
        return prompt if 0 < len(prompt) <= LONGEST else None
    return None
