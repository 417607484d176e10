"""The messages of a conversation as a tree: every message follows another one, and a cursor says which is the last.

To go back, to ask a prompt otherwise and to answer it again move the cursor. Nothing that has text is deleted, with or without
a disk.
"""

from __future__ import annotations

from collections.abc import Iterable

from spectui.chat.messages import ChatMessage


class MessageTree:
    """The messages of one conversation, in the order in which they were made."""

    def __init__(self, messages: Iterable[ChatMessage] = ()) -> None:
        """`messages`: from the first to the last, each behind the one before."""
        self._all: list[ChatMessage] = []
        self._left: list[ChatMessage | None] = []  # where the cursor stood before it was moved
        self.path: list[ChatMessage] = []
        """The messages from the first one to the cursor."""
        for message in messages:
            self.add(message)

    @property
    def head(self) -> ChatMessage | None:
        """The message at the cursor; None before the first."""
        return self.path[-1] if self.path else None

    def add(self, message: ChatMessage) -> None:
        """Add a message behind the cursor, which moves to it. One that is there already is not added again."""
        message.parent = self.head
        if message not in self._all:
            self._all.append(message)
        self.path.append(message)

    def turn(self, head: ChatMessage | None) -> None:
        """Move the cursor to this message; None: before the first."""
        path: list[ChatMessage] = []
        while head is not None:
            path.append(head)
            head = head.parent
        self.path = path[::-1]

    def remove(self, message: ChatMessage) -> None:
        """Forget a message that none follows, and that is not on the cursor's path."""
        self._all.remove(message)

    def remember(self, head: ChatMessage | None) -> None:
        """`undo` moves the cursor back to this message."""
        self._left.append(head)

    @property
    def can_undo(self) -> bool:
        """The cursor was moved back."""
        return bool(self._left)

    def undo(self) -> None:
        """Move the cursor to where it stood before it was moved last."""
        self.turn(self._left.pop())

    def find(self, identity: int) -> ChatMessage | None:
        """The message of this id; None if this chat has neither made nor opened it."""
        return next((each for each in self._all if each.id == identity), None)

    def ends(self) -> list[ChatMessage]:
        """The last messages of the other branches, the latest first."""
        followed = {id(each.parent) for each in self._all} | {id(each) for each in self.path}
        return [each for each in reversed(self._all) if id(each) not in followed]
