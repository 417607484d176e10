"""The list of a conversation's messages and branches, and how the conversation continues from each of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, NamedTuple

from spectui.chat.session import ChatSession


class ListedMessage(NamedTuple):
    """A message of the conversation, or the last message of another branch.

    `verb` and `number` say how to continue from it: "edit" the prompt with this index; go "back" to the first so many
    messages, which end with this reply; or turn to the "branch" that ends with the message of this id.
    """

    verb: Literal["edit", "back", "branch"]
    number: int
    label: str
    text: str


def listed_messages(session: ChatSession) -> Iterator[ListedMessage]:
    """The messages in order, those that are no part of the prompt marked; then the branches."""
    for index, message in enumerate(session.messages):
        left_out = ", dropped" if index < session.oldest.dropped else ""
        if message.role == "user":
            yield ListedMessage("edit", index, f"you{left_out}", message.content)
        else:
            yield ListedMessage("back", index + 1, f"reply{left_out}", message.content)
    for branch in session.conversation.ends():
        when = datetime.fromtimestamp(branch.created).strftime("%Y-%m-%d %H:%M")
        yield ListedMessage("branch", branch.id, f"branch of {when}", branch.content)
