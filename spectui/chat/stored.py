"""The conversations on disk, for a chat. Each function waits for the disk and may decode a long conversation: the window
calls them in a worker thread. All raise SpectuiError."""

from __future__ import annotations

from pathlib import Path

from spectui.chat.messages import OpenedConversation
from spectui.chat.sentences import NOT_KEPT
from spectui.errors import UsageError
from spectui.store import library
from spectui.store.database import DamagedError, StoreError, database_file
from spectui.store.journal import Journal
from spectui.store.prompts import PromptHistory, prompts_file
from spectui.store.records import Conversation, StoredMessage, Summary
from spectui.store.recovery.rescue import begin_anew


def conversation_at_start(name: str | None, history: Path | None, notices: list[str]) -> Conversation | None:
    """The conversation of this id, or the last; None if there is none. Raises StoreError.

    If the `history` that is written to is damaged, what can be read is first brought over to a new file, and a notice says so.
    """

    def read() -> Conversation | None:
        file = database_file()
        return library.last(file) if name is None else library.open_conversation(file, name)

    try:
        return read()
    except DamagedError:
        if history is None:
            raise
        notices.append(begin_anew(history).sentence)
        try:
            return read()
        except StoreError as error:
            raise StoreError(f"{notices[-1]} {error}") from error


def file_of(journal: Journal) -> Path:
    """Where the journal keeps chats. Raises UsageError where it keeps nothing."""
    if journal.file is None:
        raise UsageError(NOT_KEPT)
    return journal.file


def conversations(journal: Journal, words: str = "") -> list[Summary]:
    """The conversations that have these words, the latest first."""
    journal.flush()
    return library.summaries(file_of(journal), words)


def open_conversation(journal: Journal, name: str) -> OpenedConversation:
    """The conversation of this id."""
    return OpenedConversation.of(library.open_conversation(file_of(journal), name))


def branches(journal: Journal) -> list[StoredMessage]:
    """The last message of each branch of the open conversation, but for the one that is shown."""
    if journal.file is None or not journal.conversation:
        return []
    journal.flush()
    return [each for each in library.ends(journal.file, journal.conversation) if each.id not in journal.path]


def open_branch(journal: Journal, message: int) -> OpenedConversation:
    """The open conversation along the branch that ends with this message."""
    return OpenedConversation.of(library.branch(file_of(journal), journal.conversation, message))


def delete(journal: Journal, name: str) -> list[str]:
    """Delete a conversation and its prompts, which it returns. Leave the open conversation before deleting it."""
    journal.flush()  # otherwise the end of its reply would be written afterwards
    said = library.delete(file_of(journal), name)
    PromptHistory(prompts_file()).forget(said)
    return said
