"""Writes a conversation into a document while it is read from the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spectui.chat.messages import ChatMessage
from spectui.speculation.records import Round
from spectui.ui.transcript.document import Document


class DocumentReader:
    """A `MessageReader` of the window, for a worker thread."""

    def __init__(
        self,
        width: int,
        notes: Callable[[str], str],
        progress: Callable[[float], None],
        *,
        rejected: bool,
        show_thinking: bool,
    ) -> None:
        """`width`: cells of a row. `notes` inserts keys into a sentence. Any thread may call it, and `progress`."""
        self.document = Document(width)
        self.progress = progress
        self._notes = notes
        self.rejected, self.show_thinking = rejected, show_thinking

    def show(self, index: int, message: ChatMessage, rounds: Iterator[Round]) -> None:
        """Add the message to the document."""
        self.document.show(
            index, message, rounds, self._notes, rejected=self.rejected, show_thinking=self.show_thinking
        )
