"""What the commands of the plain chat are called with, and how their words are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from spectui.chat.commands import in_sentence
from spectui.chat.messages import OpenedConversation
from spectui.chat.session import ChatSession
from spectui.errors import UsageError
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.gguf_files.header import GgufHeader
from spectui.profiles.file import ProfileFile
from spectui.store.records import Summary

Listed = TypeVar("Listed")


class Chat(Protocol):
    """The part of `PlainChat` that commands need; its methods are explained there."""

    session: ChatSession
    catalogue: ModelCatalogue
    profiles: ProfileFile
    listed: list[GgufHeader]
    found: list[Summary]

    @property
    def pair(self) -> str: ...

    def output(self, text: str) -> None: ...

    def notice(self, text: str) -> None: ...

    def refuse(self, reason: str) -> None: ...

    def must_be_ready(self) -> None: ...

    def ask(self, text: str) -> None: ...

    def answer(self, ask: Callable[[], object]) -> None: ...

    def wait_for(self, ask: Callable[[], object]) -> None: ...

    def load(self, ask: Callable[[], object]) -> None: ...

    def with_files(self, text: str) -> str: ...

    def edited(self, text: str) -> str: ...

    def forget(self, messages: Sequence[str]) -> None: ...

    def resume(self, opened: OpenedConversation) -> None: ...


_DIGITS = 20  # Python refuses to read a number of some thousands

Run = Callable[[Chat, str], None]
"""What a command does with the chat and the words behind it."""


def numbered(listed: Sequence[Listed], word: str, what: str, where: str) -> Listed:
    """One of a list that was shown, by its number from 1. Raises UsageError."""
    if not word:
        raise UsageError(f"Give the number of a {what}: /{where} shows the list.")
    number = int(word) if word.isdecimal() and len(word) < _DIGITS else 0
    if not 1 <= number <= len(listed):
        raise UsageError(f"There is no {what} {word[:_DIGITS]} in the list: /{where} shows it.")
    return listed[number - 1]


def with_commands(sentence: str) -> str:
    """A sentence of `chat.sentences` with commands in place of the {ids} of actions."""
    return re.sub(r"\{([a-z-]+)\}", lambda found: in_sentence(found[1]), sentence)
