"""The messages and the other branches of a conversation, to continue from any of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Literal, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from spectui.engine.events import Message
from spectui.store.records import StoredMessage
from spectui.text import printable
from spectui.ui.dialogs.list_window import ListWindow
from spectui.ui.figures import MUTED
from spectui.ui.widgets.actions import ActionLine

_SHOWN = 200  # characters of a message: more than a line has


class Way(NamedTuple):
    """Where to continue: edit the conversation's `number`th prompt, go back to its first `number` messages, or turn to the
    branch that ends with the message of this number."""

    verb: Literal["edit", "back", "branch"]
    number: int


class MessagesScreen(ListWindow[Way]):
    """Answers with where to continue, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Edit or branch", id="messages.choose", priority=True,
                tooltip="Edit this prompt, go on from this reply, or turn to this branch"),
    ]  # fmt: skip

    def __init__(self, messages: Sequence[Message], branches: Sequence[StoredMessage], at: int | None = None) -> None:
        """`branches` are the last messages of the conversation's other branches; message `at` is highlighted."""
        super().__init__()
        self._at = at
        self._lines: list[tuple[Way, Content]] = []
        for index, message in enumerate(messages):
            prompt = message.role == "user"
            way = Way("edit", index) if prompt else Way("back", index + 1)
            name = "you" if prompt else "reply"
            self._lines.append((way, Content.assemble((f"{index + 1:>4} {name:<6} ", MUTED), _line(message.content))))
        for each in branches:
            when = datetime.fromtimestamp(each.created).strftime("%Y-%m-%d %H:%M")
            line = Content.assemble((f"branch of {when}  ", MUTED), _line(each.text))
            self._lines.append((Way("branch", each.id), line))

    def compose(self) -> ComposeResult:
        """The list, and actions."""
        with Vertical() as box:
            box.border_title = "messages: edit a prompt, go on from a reply"
            yield OptionList(*(Option(line) for _, line in self._lines), markup=False)
            yield ActionLine([("edit or go on from there", "choose"), ("close", "back")])

    def on_mount(self) -> None:
        """Highlight the message that was clicked, or the last."""
        own = sum(way.verb != "branch" for way, _ in self._lines)
        listed = self.query_one(OptionList)
        listed.highlighted = max(0, min(own - 1 if self._at is None else self._at, len(self._lines) - 1))
        listed.focus()

    def choose(self) -> None:
        """Answer with the highlighted message."""
        at = self.query_one(OptionList).highlighted
        if at is not None and at < len(self._lines):
            self.dismiss(self._lines[at][0])


def _line(text: str) -> str:
    return " ".join(printable(text[:_SHOWN]).split())
