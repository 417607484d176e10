"""The latest conversations, beside the text where the window has room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from spectui.chat.history.conversations import StoredConversations
from spectui.errors import SpectuiError
from spectui.text import printable

MOST = 200
"""Conversations that are listed; the search finds the others."""


class ChatsPane(OptionList):
    """Titles, the latest on top. Enter or a click opens one."""

    HELP = """\
## Chats

The latest conversations: a click, or arrows and **Enter**, opens one; **{stop}** leads back to the prompt. **{chats}** folds
them away, and **{conversations}** searches, renames and deletes.
"""
    DEFAULT_CSS = """
    ChatsPane, ChatsPane:focus {
        display: none; width: 30; height: 1fr; border: none; border-right: solid $foreground 20%; padding: 1 0 0 1;
        background: $background; text-wrap: nowrap; text-overflow: ellipsis; scrollbar-size-vertical: 1;
        & > .option-list--option-highlighted { background: $foreground 0%; text-style: none; color: $foreground; }
    }
    ChatsPane:focus > .option-list--option-highlighted { background: $primary 15%; }
    """

    def __init__(self, stored: StoredConversations, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._stored = stored
        self.choose: Callable[[str], object] = lambda identity: None
        """Opens the conversation of this id."""

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open it, and lead back to the prompt."""
        self.choose(event.option_id or "")
        self.screen.query_one("#prompt").focus()

    def on_show(self) -> None:
        """List what has come while it was hidden."""
        self.follow()

    def follow(self) -> None:
        """List the conversations as they are now, if they are seen."""
        if self.display and self.is_attached and self._stored.saved:
            self.run_worker(self._list, exclusive=True)  # type: ignore[arg-type]  # mypy cannot choose among the forms that Textual takes

    async def _list(self) -> None:
        with suppress(SpectuiError):  # the list that is opened by a key says it
            summaries = await asyncio.to_thread(self._stored.find)
            at = self.highlighted
            self.clear_options()
            for summary in summaries[:MOST]:
                mark = "▸ " if self._stored.is_open(summary.id) else "  "
                self.add_option(Option(Content(f"{mark}{printable(summary.title) or '(no title)'}"), summary.id))
            self.highlighted = min(at or 0, self.option_count - 1) if self.option_count else None
