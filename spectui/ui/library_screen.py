"""The chat among the other conversations: the list of them, and turning to another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from spectui import paths
from spectui.errors import SpectuiError
from spectui.store import library
from spectui.store.prompts import PromptHistory
from spectui.ui.conversations import Choice, ConversationsScreen
from spectui.ui.figures import printable
from spectui.ui.prompt_input import PromptInput
from spectui.ui.resuming import ResumingChatScreen


class LibraryChatScreen(ResumingChatScreen):
    """A chat screen from which every conversation on disk can be reached."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f12,alt+c", "conversations", "Chats", id="conversations", priority=True,
                tooltip="List, search, rename and delete conversations"),
    ]  # fmt: skip

    def on_mount(self) -> None:
        """Have the prompts of earlier chats at hand, where chats are kept."""
        if self.session.journal.file is not None:
            self.query_one(PromptInput).remember(PromptHistory(paths.state_directory() / "prompts.jsonl"))

    def action_conversations(self) -> None:
        """List the conversations."""
        if (file := self.session.journal.file) is None:
            self.notify("Nothing is kept of chats: --no-history is on.", severity="warning", markup=False)
            return

        def chosen(choice: Choice | None) -> None:
            if choice is not None and choice.verb == "new":
                self.action_new_chat()
            elif choice is not None:
                self._open(file, choice.id)

        self.app.push_screen(ConversationsScreen(self.session.journal, file, self.action_new_chat), chosen)

    @work(exclusive=True, group="open")
    async def _open(self, file: Path, identity: str) -> None:
        """Read it beside the UI thread, and go on with it."""
        if identity == self.session.journal.conversation:
            return  # it is open
        try:
            conversation = await asyncio.to_thread(library.open_conversation, file, identity)
        except SpectuiError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
        else:
            self.resume(conversation)
