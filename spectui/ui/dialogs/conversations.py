"""The list of conversations: search, open, rename, delete; and the list of one's messages, to continue from any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets.option_list import Option

from spectui.chat.history.conversations import StoredConversations
from spectui.chat.history.views import ListedMessage
from spectui.chat.sentences import nothing_found
from spectui.errors import SpectuiError
from spectui.store.journal import TITLE
from spectui.store.records import Summary
from spectui.text import printable
from spectui.ui.dialogs.lists import MOST_SHOWN, ListWindow
from spectui.ui.dialogs.questions import ConfirmScreen, LineScreen
from spectui.ui.widgets.lines import MUTED

PAUSE_S = 0.15
"""Seconds after a letter before the search begins."""

_SHOWN = 200  # characters of a message: more than a line has


class ConversationsScreen(ListWindow[str]):
    """Answers with the id of the chosen conversation; "" for a new one."""

    TITLE = "conversations"
    PLACEHOLDER = "Search titles and what was said"
    ACTIONS = (("open", "choose"), ("rename", "rename"), ("delete", "delete"), ("new", "new"), ("close", "back"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Open", id="conversations.open", priority=True, tooltip="Go on with this conversation"),
        Binding("f2", "rename", "Rename", id="conversations.rename", priority=True, tooltip="Give it another title"),
        Binding("ctrl+d", "delete", "Delete", id="conversations.delete", priority=True,
                tooltip="Delete this conversation, on disk too"),
        Binding("ctrl+n", "new", "New", id="conversations.new", priority=True, tooltip="Begin a new chat"),
    ]  # fmt: skip

    def __init__(self, stored: StoredConversations, delete: Callable[[str], Awaitable[None]]) -> None:
        """`delete` deletes the conversation of an id, and leaves it first if it is open."""
        super().__init__()
        self._stored = stored
        self._delete = delete
        self._summaries: dict[str, Summary] = {}

    def on_mount(self) -> None:
        """Show all."""
        self.filter()

    def filter(self, at: int = 0) -> None:
        """Search for these words, and highlight what stands at this index."""
        self.search = self._list(self.words, at)

    @work(exclusive=True)
    async def _list(self, words: str, at: int) -> None:
        """Search in a thread: a large file takes a while."""
        if words:
            await asyncio.sleep(PAUSE_S)  # for the next letter, which cancels this
        try:
            summaries = await asyncio.to_thread(self._stored.find, words.strip())
            self.about.update(_count(len(summaries), words.strip()))
        except SpectuiError as error:
            summaries = []
            self.about.update(printable(str(error)))
        self._summaries = {summary.id: summary for summary in summaries[:MOST_SHOWN]}
        self.fill([Option(self._line(summary), identity) for identity, summary in self._summaries.items()], at)

    def _line(self, summary: Summary) -> Content:
        when = datetime.fromtimestamp(summary.updated).strftime("%Y-%m-%d %H:%M")
        mark = "▸ " if self._stored.is_open(summary.id) else "  "
        excerpt = f"\n      {printable(summary.excerpt)}" if summary.excerpt else ""
        return Content.assemble(
            mark, (f"{when} {summary.messages:>4}  ", MUTED), printable(summary.title) or "(no title)",
            (f"  {printable(summary.target)}{excerpt}", MUTED),
        )  # fmt: skip

    # Actions

    def choose(self) -> None:
        """Answer with the highlighted conversation."""
        if self.chosen_id:
            self.dismiss(self.chosen_id)

    def action_new(self) -> None:
        """Answer with a new conversation."""
        self.dismiss("")

    @work(group="change")
    async def action_rename(self) -> None:
        """Ask for another title."""
        if (chosen := self._summaries.get(self.chosen_id)) is not None:
            question = LineScreen("The conversation's title", printable(chosen.title), max_length=TITLE)
            if title := await self.app.push_screen_wait(question):
                await self._change(asyncio.to_thread(self._stored.rename, chosen.id, title))

    @work(group="change")
    async def action_delete(self) -> None:
        """Ask, and delete it."""
        if (chosen := self._summaries.get(self.chosen_id)) is not None:
            title = printable(chosen.title)
            question = f"Delete “{title}” and its {chosen.messages} messages? It cannot be brought back."
            if await self.app.push_screen_wait(ConfirmScreen(question, "delete")):
                await self._change(self._delete(chosen.id))

    async def _change(self, change: Awaitable[object]) -> None:
        """Wait for it, and list the conversations again."""
        try:
            await change
        except SpectuiError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
        self.filter(self.listed.highlighted or 0)


def _count(number: int, words: str) -> str:
    if not number:
        return nothing_found(words)
    more = f", the latest {MOST_SHOWN} shown: search for the others" if number > MOST_SHOWN else ""
    return f"{number} conversation{'s' if number > 1 else ''}{more}"


class MessagesScreen(ListWindow[ListedMessage]):
    """Answers with where to continue, or None."""

    TITLE = "messages: edit a prompt, go on from a reply"
    ACTIONS = (("edit or go on from there", "choose"), ("close", "back"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Edit or branch", id="messages.choose", priority=True,
                tooltip="Edit this prompt, go on from this reply, or turn to this branch"),
    ]  # fmt: skip

    def __init__(self, listed: Sequence[ListedMessage], at: int | None = None) -> None:
        """`at`: the index of the message to highlight; None: the last one that is not of another branch."""
        super().__init__()
        self._messages = listed
        self._at = at

    def on_mount(self) -> None:
        """List the messages, and highlight the one that was clicked, or the last."""
        own = sum(message.verb != "branch" for message in self._messages)
        options = [Option(_line_of(number, message)) for number, message in enumerate(self._messages, 1)]
        self.fill(options, own - 1 if self._at is None else self._at)

    def choose(self) -> None:
        """Answer with the highlighted message."""
        if (at := self.listed.highlighted) is not None:
            self.dismiss(self._messages[at])


def _line_of(number: int, message: ListedMessage) -> Content:
    label = f"{message.label}  " if message.verb == "branch" else f"{number:>4} {message.label:<6} "
    return Content.assemble((label, MUTED), " ".join(printable(message.text[:_SHOWN]).split()))
