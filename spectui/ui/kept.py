"""The conversation as it stands in a chat, for a file."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from spectui.store import library
from spectui.store.packed import PackedRounds
from spectui.store.records import Conversation, Reply, StoredMessage
from spectui.ui.session import Session


def as_kept(session: Session, rounds_of: Callable[[int], PackedRounds]) -> Callable[[], Conversation]:
    """What gives the conversation as it is now, without a reply in progress: from the disk, so any thread may call it.

    `rounds_of` gives those of the conversation's messages, by place, where nothing is on disk.
    """
    journal = session.journal
    if journal.file is not None and journal.conversation:
        file, identity, path = journal.file, journal.conversation, {*journal.path}

        def read() -> Conversation:
            journal.flush()
            kept = library.open_conversation(file, identity)
            return replace(kept, messages=tuple(each for each in kept.messages if each.id in path))

        return read

    now, setup = time.time(), session.setup

    def reply_at(place: int) -> Reply | None:
        rounds = rounds_of(place)
        return Reply(setup, None, None, None, None, rounds) if rounds else None

    messages = tuple(
        StoredMessage(place, None, each.role, each.content, now, reply_at(place))
        for place, each in enumerate(session.messages)
    )
    title = " ".join(session.messages[0].content.split()[:8]) if session.messages else ""
    whole = Conversation("", title, now, now, setup.system, session.name, messages)
    return lambda: whole
