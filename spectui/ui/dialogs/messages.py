"""The messages and the other branches of a conversation, to continue from any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets.option_list import Option

from spectui.chat.history.message_list import ListedMessage
from spectui.text import printable
from spectui.ui.dialogs.list_window import ListWindow
from spectui.ui.figures import MUTED

_SHOWN = 200  # characters of a message: more than a line has


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
        self.listed.add_options(Option(_line(number, each)) for number, each in enumerate(self._messages, 1))
        own = sum(each.verb != "branch" for each in self._messages)
        self.listed.highlighted = max(0, min(own - 1 if self._at is None else self._at, len(self._messages) - 1))
        self.listed.focus()

    def choose(self) -> None:
        """Answer with the highlighted message."""
        if (at := self.listed.highlighted) is not None:
            self.dismiss(self._messages[at])


def _line(number: int, each: ListedMessage) -> Content:
    label = f"{each.label}  " if each.verb == "branch" else f"{number:>4} {each.label:<6} "
    return Content.assemble((label, MUTED), " ".join(printable(each.text[:_SHOWN]).split()))
