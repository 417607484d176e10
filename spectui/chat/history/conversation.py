"""`Conversation`: the messages as a tree, and a cursor that says which of them are read.

To go back, to ask a prompt otherwise and to answer it again move the cursor. Nothing that has text is deleted, with or without
a disk. What shows, saves or counts the messages listens, and has no list of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spectui.chat.messages import ChatMessage


class CameBack(NamedTuple):
    """A reply in place of others has ended without text: they are there again. `prompt`: the one that was edited for it, in
    place of the message with the index `at`; "" if none was."""

    at: int
    prompt: str


class Conversation:
    """The one conversation that is open: `begin` puts another one into its place."""

    def __init__(self, system: str = "") -> None:
        self._listeners: list[Callable[[int], None]] = []
        self.begin((), system)

    def begin(self, messages: Sequence[ChatMessage], system: str, others: Sequence[ChatMessage] = ()) -> None:
        """Begin another conversation, with these messages from the first to the last and this system prompt. `others`: those of
        its other branches."""
        self.system = system
        self.path: list[ChatMessage] = []
        """The messages from the first one to the cursor. The last may be a prompt without an answer, or a reply that is being
        written."""
        self.attempt: list[ChatMessage] = []
        """A reply that is written in place of another, with its prompt if that is another too, until it has text."""
        self.editing: int | None = None
        """The index of the prompt that the next one replaces; None if none is edited."""
        self._chat = 0
        self._left: list[ChatMessage | None] = []  # where the cursor stood before it was moved
        self._all = sorted([*messages, *others], key=lambda message: message.created)  # in the order in which they were made
        self._move(messages[-1] if messages else None)

    def listen(self, changed: Callable[[int], None]) -> None:
        """Call `changed` with a number after each change: so many of the messages that are `shown` are as before."""
        self._listeners.append(changed)

    # What it has

    @property
    def head(self) -> ChatMessage | None:
        """The message at the cursor; None before the first."""
        return self.path[-1] if self.path else None

    @property
    def shown(self) -> list[ChatMessage]:
        """The messages that a person sees: those of `path`, and an edited prompt whose reply has no text yet."""
        return [*self.path, *self.attempt[:-1]]

    @property
    def unanswered(self) -> ChatMessage | None:
        """The last prompt, if it got no reply: it can be asked again."""
        return self.head if self.head is not None and self.head.role == "user" else None

    def ends(self) -> list[ChatMessage]:
        """The last messages of the other branches, the latest first."""
        followed = {message.parent for message in self._all} | {*self.path}
        return [message for message in reversed(self._all) if message not in followed]

    def branches(self) -> dict[ChatMessage, list[ChatMessage]]:
        """The alternatives of each message that has some: all of them, itself too, the earliest first."""
        same: dict[tuple[ChatMessage | None, str, int], list[ChatMessage]] = {}
        for message in self._all:
            same.setdefault((message.parent, message.role, message.chat), []).append(message)
        return {message: others for others in same.values() if len(others) > 1 for message in others}

    # What is said

    def add(self, messages: Sequence[ChatMessage]) -> None:
        """Add messages, each behind its parent, and move the cursor to the last of them."""
        for message in messages:
            message.chat = self._chat
        self._all += messages
        self._move(messages[-1])

    def remove(self, message: ChatMessage) -> None:
        """Forget the last message: a reply without text."""
        self._all.remove(message)
        self._move(message.parent)

    def begin_attempt(self, messages: Sequence[ChatMessage]) -> None:
        """The last of these messages is a reply in place of others: the cursor waits for its text."""
        self.attempt, self.editing = [*messages], None
        self._tell(len(self.path))

    def keep_attempt(self) -> None:
        """The attempt has text: it takes its place."""
        attempt, self.attempt = self.attempt, []
        self._left.append(self.head)
        self.add(attempt)

    def leave_attempt(self) -> CameBack:
        """The attempt has ended without text: everything is as it was."""
        (first, *more), self.attempt = self.attempt, []
        self._tell(len(self.path))
        return CameBack(len(first.line) - 1, first.content if more else "")

    # Editing, going back, turning, undoing

    def prompt_to_edit(self) -> int | None:
        """The index of the last prompt, or of the one before the prompt that is being edited; None if there is none."""
        end = len(self.path) if self.editing is None else self.editing
        return next((at for at in reversed(range(end)) if self.path[at].role == "user"), None)

    def begin_edit(self, index: int) -> str:
        """The next prompt replaces the message with this index, whose text is returned."""
        self.editing = index
        return self.path[index].content

    def leave_edit(self) -> None:
        """The message that is edited stays as it is."""
        self.editing = None

    def go_back(self, length: int) -> None:
        """Go back to the first `length` messages. The later ones stay, as a branch, and `undo` turns back to them."""
        self._left.append(self.head)
        self._move(self.path[length - 1] if length else None)

    def leave(self) -> None:
        """Begin another conversation, where none is saved: this one stays, and `undo` turns back to it."""
        self.go_back(0)
        self._chat = len(self._all)

    def turn_to(self, identity: int) -> None:
        """Turn to the branch that ends with the message of this id."""
        self._left.append(self.head)
        self._move(next(each for each in self._all if each.id == identity))

    def turn_branch(self, index: int, by: int) -> None:
        """Turn to the branch so many steps after that of the message with this index, as far as it was written last."""
        message = self.path[index]
        others = self.branches()[message]
        turned = others[(others.index(message) + by) % len(others)]
        self.turn_to(next(end.id for end in reversed(self._all) if turned in end.line))

    @property
    def no_undo(self) -> str:
        """Why nothing can be undone; "" if something can."""
        return "" if self._left else "Nothing was regenerated, edited or gone back to, so there is nothing to undo."

    def undo(self) -> None:
        """Turn back to the messages before the last regenerating, editing, going back or turning."""
        self._move(self._left.pop())

    def _move(self, head: ChatMessage | None) -> None:
        before, self.path, self.editing = self.path, head.line if head is not None else [], None
        self._chat = head.chat if head is not None else self._chat
        same = min(len(before), len(self.path))
        self._tell(next((at for at in range(same) if before[at] is not self.path[at]), same))

    def _tell(self, same: int) -> None:
        for changed in self._listeners:
            changed(same)
