"""The conversation as it stands in a chat, for a file."""

from __future__ import annotations

import time
from collections.abc import Callable

from spectui.chat.session import Session
from spectui.store import library
from spectui.store.database import StoreError
from spectui.store.packed import PackedRounds
from spectui.store.records import Conversation, Reply, StoredMessage
from spectui.text import safe


def as_kept(session: Session, rounds_of: Callable[[int], PackedRounds]) -> Callable[[], Conversation]:
    """What gives the conversation as it is now, without a reply in progress: from the disk, so any thread may call it.

    `rounds_of` gives those of the conversation's messages, by place, where nothing is on disk, or not all of it.
    """
    journal, memory = session.journal, _in_memory(session, rounds_of)
    if journal.file is None or not journal.conversation:
        return lambda: memory
    file, identity, path = journal.file, journal.conversation, {*journal.path}

    def read() -> Conversation:
        journal.flush()
        try:
            kept = library.open_conversation(file, identity)
        except StoreError:  # of which the chat has told when it happened
            return memory
        kept = kept._replace(messages=tuple(each for each in kept.messages if each.id in path))
        return kept if _has_all(kept, memory) else memory

    return read


def _has_all(kept: Conversation, memory: Conversation) -> bool:
    """Whether all that was said is on disk, which may be full or slow."""
    return len(kept.messages) == len(memory.messages) and all(
        len(one.text) >= len(safe(other.text)) for one, other in zip(kept.messages, memory.messages, strict=True)
    )


def _in_memory(session: Session, rounds_of: Callable[[int], PackedRounds]) -> Conversation:
    now, setup = time.time(), session.setup

    def reply_at(place: int) -> Reply | None:
        rounds = rounds_of(place)
        return Reply(setup, None, None, None, None, rounds) if rounds else None

    messages = tuple(
        StoredMessage(place, None, each.role, each.content, now, reply_at(place))
        for place, each in enumerate(session.messages)
    )
    title = " ".join(session.messages[0].content.split()[:8]) if session.messages else ""
    return Conversation(session.journal.conversation, title, now, now, setup.system, session.name, messages)
