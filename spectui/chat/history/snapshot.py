"""A snapshot of the conversation, for a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spectui.chat.session import ChatSession
from spectui.store import export
from spectui.store.records import StoredConversation, StoredMessage


def snapshot(session: ChatSession) -> StoredConversation:
    """The conversation as it is now, without a reply in progress."""
    journal = session.journal
    messages = tuple(
        StoredMessage(
            message.id, message.parent.id if message.parent is not None else None, message.role, message.content,
            message.created, message.reply if message.rounds else None,
        )
        for message in session.messages if message is not session.writing
    )  # fmt: skip
    return StoredConversation(
        journal.conversation, journal.title, *journal.times, session.conversation.system, session.name, messages
    )


def exported(session: ChatSession, name: str, *, replace: bool = False) -> Callable[[], Path]:
    """A function that writes the conversation as it is now to a file of this name in the working directory.

    Without a suffix it is Markdown. Any thread but the window's may call it. It raises ExistsError where there is such a file
    that is not to be replaced, ExportError and OSError.
    """
    conversation, file = snapshot(session), name if Path(name).suffix else f"{name}.md"
    return lambda: export.save(conversation, export.working_directory(), file, replace=replace)
