"""Writes a conversation into a document while it is read from the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spectui.chat.messages import ChatMessage
from spectui.speculation.records import Round
from spectui.ui.transcript.blocks import NOTICE
from spectui.ui.transcript.document import Document


class DocumentReader:
    """A `MessageReader` of the window, for a worker thread."""

    def __init__(
        self,
        document: Document,
        notes: Callable[[str], str],
        progress: Callable[[float], None],
        *,
        ghosts: bool,
        show_thinking: bool,
    ) -> None:
        """`notes` inserts keys into a sentence. Any thread may call it, and `progress`."""
        self.progress = progress
        self._document, self._notes = document, notes
        self._ghosts, self._show_thinking = ghosts, show_thinking

    def show(self, index: int, message: ChatMessage, rounds: Iterator[Round]) -> None:
        """Add the message to the document."""
        document = self._document
        if message.setup is None:
            document.add_message(message.role, message.content, index=index)
            return
        before = len(document.blocks), len(document.messages)
        document.add_reply(
            message.model, index, message.rounds, rounds,
            opened_thinking=message.thinking, ghosts=self._ghosts, show_thinking=self._show_thinking,
        )  # fmt: skip
        if message.content and not message.rounds:  # it has none, or they are damaged
            document.cut(*before)
            document.add_message(message.role, message.content, index=index)
        elif note := self._notes(message.stop_note(to_drop=index > 2)):
            document.add_remark(note, NOTICE)
