"""A snapshot of the conversation, for a file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from spectui.chat.messages import ChatMessage
from spectui.chat.session import ChatSession
from spectui.knobs import Setup
from spectui.store import export, library
from spectui.store.database import StoreError
from spectui.store.records import Reply, StoredConversation, StoredMessage
from spectui.text import safe


def snapshot(session: ChatSession) -> Callable[[], StoredConversation]:
    """A function that gives the conversation as it is now, without a reply in progress.

    It reads dates and earlier models from the disk, so call it in a worker thread. If the disk lacks a part, the snapshot
    comes from the session.
    """
    journal, memory = session.journal, _in_memory(session)
    if journal.file is None or not journal.conversation:
        return lambda: memory
    file, identity, path = journal.file, journal.conversation, {each.id for each in _finished(session)}

    def read() -> StoredConversation:
        journal.flush()
        try:
            stored = library.open_conversation(file, identity)
        except StoreError:  # the chat showed the error when it happened
            return memory
        stored = stored._replace(messages=tuple(each for each in stored.messages if each.id in path))
        return stored if _has_all(stored, memory) else memory

    return read


def exported(session: ChatSession, name: str, *, replace: bool = False) -> Callable[[], Path]:
    """A function that writes the conversation as it is now to a file of this name in the working directory.

    Without a suffix it is Markdown. Any thread but the window's may call it. It raises ExistsError where there is such a file
    that is not to be replaced, ExportError and OSError.
    """
    read, file = snapshot(session), name if Path(name).suffix else f"{name}.md"
    return lambda: export.save(read(), export.working_directory(), file, replace=replace)


def _has_all(stored: StoredConversation, memory: StoredConversation) -> bool:
    """Whether the disk, which may be full or slow, has the whole conversation."""
    return len(stored.messages) == len(memory.messages) and all(
        len(one.text) >= len(safe(other.text)) for one, other in zip(stored.messages, memory.messages, strict=True)
    )


def _finished(session: ChatSession) -> list[ChatMessage]:
    """The messages without the reply in progress."""
    return [message for message in session.messages if message is not session.writing]


def _in_memory(session: ChatSession) -> StoredConversation:
    now, setup = time.time(), session.setup
    messages = tuple(
        StoredMessage(index, None, each.role, each.content, now, _reply(each, setup) if each.rounds else None)
        for index, each in enumerate(_finished(session))
    )
    return StoredConversation(
        session.journal.conversation, session.journal.title, now, now, setup.system, session.name, messages
    )


def _reply(message: ChatMessage, setup: Setup) -> Reply:
    return Reply(
        message.setup or setup, message.stop, None, None, message.first_token_s, message.rounds,
        thinking=message.thinking, mixed=message.mixed, dropped=message.dropped,
    )  # fmt: skip
