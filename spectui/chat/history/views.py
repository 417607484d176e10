"""A conversation as the list of its messages, to continue from each of them, and as a snapshot, for a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from spectui.chat.session import ChatSession
from spectui.store import export
from spectui.store.records import StoredConversation


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


def snapshot(session: ChatSession) -> StoredConversation:
    """The conversation as it is now, without a reply in progress."""
    return session.journal.snapshot(message for message in session.messages if message is not session.writing)


def exported(session: ChatSession, name: str, *, replace: bool = False) -> Callable[[], Path]:
    """A function that writes the conversation as it is now to a file of this name in the working directory.

    Without a suffix it is Markdown. Any thread but the window's may call it. It raises ExistsError where there is such a file
    that is not to be replaced, and SpectuiError.
    """
    conversation, file = snapshot(session), name if Path(name).suffix else f"{name}.md"
    return lambda: export.save(conversation, export.working_directory(), file, replace=replace)
