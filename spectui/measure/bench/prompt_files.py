"""The prompts of a bench: built in by name, or a file with one prompt a line, or with one conversation a line as JSON."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spectui.engine.events import Message
from spectui.errors import UsageError
from spectui.measure.prompts import PROMPTS
from spectui.text_file import read_text
from spectui.thinking import divided, parsed, thought_and_answer

LARGEST_FILE = 10_000_000
"""Bytes."""

_ROLES = ("system", "user", "assistant")


class Prompt(NamedTuple):
    """A conversation that ends with a user's message. `name`: what tables call it."""

    name: str
    messages: tuple[Message, ...]

    @property
    def digest(self) -> str:
        """Tells whether two prompts of a name are the same."""
        messages = [(message.role, message.whole, message.tokens) for message in self.messages]
        return hashlib.sha256(repr(messages).encode()).hexdigest()[:16]


def built_in(names: Sequence[str], system: str) -> list[Prompt]:
    """The prompts of these names, after a system prompt if it is not empty. Raises UsageError."""
    unknown = [name for name in names if name not in PROMPTS]
    if unknown:
        raise UsageError(f"There is no prompt {unknown[0]!r}: the built-in ones are {', '.join(PROMPTS)}.")
    return [Prompt(name, _asked(PROMPTS[name], system)) for name in dict.fromkeys(names)]


def read(path: Path, system: str) -> list[Prompt]:
    """The prompts of a file; empty lines are skipped. Raises UsageError.

    A file whose name ends in .jsonl has a line for each: a string, a list of {"role", "content"}, or an object with "prompt" or
    "messages", and with "name" and "system" if wanted. In any other file each line is a prompt, and in standard input (-).
    """
    is_stdin = str(path) == "-" and sys.stdin is not None
    name = "Standard input" if is_stdin else f"The prompt file {path}"
    text = read_text(sys.stdin.buffer if is_stdin else path, name, LARGEST_FILE, "shorten it")
    prompts: list[Prompt] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            is_json = path.suffix == ".jsonl"
            prompt = _parsed(line, path, number, system) if is_json else Prompt("", _asked(line.strip(), system))
            title = prompt.name or _short(prompt.messages[-1].content)
            taken = {prompt.name for prompt in prompts}
            prompts.append(prompt._replace(name=title if title not in taken else f"{title} ({number})"))
    if not prompts:
        raise UsageError(f"{name} is empty: write one prompt a line.")
    return prompts


def _system(text: str) -> list[Message]:
    return [Message("system", text)] if text else []


def _asked(text: str, system: str) -> tuple[Message, ...]:
    return (*_system(system), Message("user", text))


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 24 else f"{words[:23]}…"


def _message(role: str, text: str) -> Message:
    """A message as the engine takes it: what an earlier reply thought is apart."""
    thought, answer = thought_and_answer(divided(parsed(text))) if role == "assistant" else ("", text)
    return Message(role, answer, thought=thought)


def _parsed(line: str, path: Path, number: int, system: str) -> Prompt:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise UsageError(f"{path}, line {number}: this is not JSON.") from None
    name = ""
    if isinstance(value, dict):
        name, system = value.get("name", ""), value.get("system", system)
        value = value.get("messages", value.get("prompt"))
    if isinstance(value, str) and value.strip() and isinstance(name, str) and isinstance(system, str):
        return Prompt(name, _asked(value, system))
    if not isinstance(value, list) or not isinstance(name, str) or not isinstance(system, str):
        raise UsageError(f'{path}, line {number}: a prompt is a string, or an object with "prompt" or "messages".')
    messages = [
        _message(entry["role"], entry["content"])
        for entry in value
        if isinstance(entry, dict) and entry.get("role") in _ROLES and isinstance(entry.get("content"), str)
    ]
    if len(messages) < len(value) or not messages or messages[-1].role != "user":
        raise UsageError(
            f'{path}, line {number}: "messages" are objects with "role" (system, user, assistant) and "content", '
            "and the last is the user's."
        )
    lead = [] if messages[0].role == "system" else _system(system)
    return Prompt(name, (*lead, *messages))
