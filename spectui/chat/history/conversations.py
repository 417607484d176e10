"""The conversations on disk, as a chat lists, opens, renames and deletes them."""

from __future__ import annotations

from pathlib import Path

from spectui import paths
from spectui.chat.messages import OpenedConversation, ReadMessage
from spectui.chat.sentences import NOT_SAVED
from spectui.errors import UsageError
from spectui.store import library
from spectui.store.database import DamagedError, StoreError, database_file, identity
from spectui.store.journal import TITLE, Journal
from spectui.store.prompts import PromptHistory, prompts_file
from spectui.store.records import StoredConversation, Summary
from spectui.store.recovery.rescue import begin_anew


def conversation_at_start(name: str | None, history: Path | None, notices: list[str]) -> StoredConversation | None:
    """The conversation of this id, or the last; None if there is none. Raises StoreError.

    If the `history` that is written to is damaged, what can be read is first brought over to a new file, and a notice says so.
    """
    file = database_file()

    def read() -> StoredConversation | None:
        return library.last(file) if name is None else library.open_conversation(file, name)

    damaged = identity(file)
    try:
        return read()
    except DamagedError:
        if history is None:
            raise
    rescued = begin_anew(history, damaged)
    if rescued is None:  # another spectui was quicker
        return read()
    notices.append(rescued.sentence)
    try:
        return read()
    except StoreError as error:  # the notices are not shown then
        raise StoreError(f"{rescued.sentence} {error}") from error


class StoredConversations:
    """The conversations on disk, beside the open one. All methods raise SpectuiError.

    They wait for the disk and may decode a long conversation: the window calls them in a worker thread.
    """

    def __init__(self, journal: Journal) -> None:
        """`journal` writes the open conversation."""
        self._journal = journal
        self.listed: list[Summary] = []
        """The conversations that were listed last, which a person may name by their numbers."""
        self.deleted: list[str] = []
        """The prompts of conversations that were deleted."""

    @property
    def saved(self) -> bool:
        """Chats are saved on disk."""
        return self._journal.file is not None

    @property
    def _file(self) -> Path:
        if self._journal.file is None:
            raise UsageError(NOT_SAVED)
        return self._journal.file

    def is_open(self, identity: str) -> bool:
        """Whether the conversation of this id is the open one."""
        return identity == self._journal.conversation

    def find(self, words: str = "") -> list[Summary]:
        """The conversations that have these words, the latest first."""
        self._journal.flush()
        return library.summaries(self._file, words)

    def read(self, identity: str, show: ReadMessage = lambda *message: None) -> OpenedConversation:
        """The conversation of this id."""
        return OpenedConversation.of(library.open_conversation(self._file, identity), show)

    def rename(self, identity: str, title: str) -> str:
        """Give it another title, which is cut to length. Returns the title; an empty one changes nothing."""
        title = " ".join(title.split())[:TITLE]
        if title:
            library.rename(self._file, identity, title)
            if self.is_open(identity):
                self._journal.change(title=title)
        return title

    def delete(self, identity: str) -> list[str]:
        """Delete a conversation and its prompts, which it returns. `ChatSession.leave` leaves the open one first."""
        self._journal.flush()  # otherwise the end of its reply would be written afterwards
        prompts = library.delete(self._file, identity)
        paths.delete_kept()  # what models have read of it, and of others
        PromptHistory(prompts_file()).forget(prompts)
        self.deleted += prompts
        return prompts

    def take_unsent(self) -> str:
        """What was being written when spectui ended; "" at the second call."""
        return PromptHistory(prompts_file()).take_unsent() if self.saved else ""

    def prompts(self) -> list[str]:
        """The prompts of earlier chats, oldest first; none if chats are not saved."""
        return PromptHistory(prompts_file()).load() if self.saved else []
