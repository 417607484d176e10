"""`OpenConversation`: what can be done with messages that were said, without the engine: edit, go back, turn, undo."""

from __future__ import annotations

from spectui.chat import sentences
from spectui.chat.comparison import Comparison
from spectui.chat.figures.running import RunningFigures
from spectui.chat.history.conversations import StoredConversations
from spectui.chat.history.tree import MessageTree
from spectui.chat.messages import ChatMessage
from spectui.store.journal import Journal


class OpenConversation:
    """The messages, the figures of the last reply, and the journal that writes both."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.stored = StoredConversations(journal)
        self._begin(MessageTree(), RunningFigures())

    def _begin(self, tree: MessageTree, figures: RunningFigures) -> None:
        self.tree = self.stored.tree = tree
        """The conversation, without the reply in progress."""
        self.comparison: Comparison | None = None
        """The comparison of the last reply with plain decoding."""
        self._figures = figures
        self._editing: int | None = None
        self._unanswered: ChatMessage | None = None

    @property
    def no_change(self) -> str:
        """Why the conversation cannot be edited or cut just now; "" where it can."""
        raise NotImplementedError

    @property
    def messages(self) -> list[ChatMessage]:
        """The messages that are shown, without the reply in progress."""
        return self.tree.path

    @property
    def unanswered(self) -> ChatMessage | None:
        """The last prompt, if it got no reply: it can be asked again."""
        return self._unanswered

    @property
    def editing(self) -> int | None:
        """The index of the message that the next prompt replaces; None if none is edited."""
        return self._editing

    def cut(self, length: int) -> None:
        """Go back to the first `length` messages. The later ones stay, as a branch, and `undo` turns back to them."""
        self.tree.remember(self.tree.head)
        self._turn(self.messages[length - 1] if length else None)

    def cut_and_save(self, length: int) -> None:
        """Go back to the first `length` messages, and open the conversation there the next time too."""
        self.tree.remember(self.tree.head)
        self._turn(self.messages[length - 1] if length else None, save=True)

    def turn_to(self, identity: int) -> bool:
        """Turn to the branch that ends with the message of this id. False if the branch is on disk alone."""
        end = self.tree.find(identity)
        if end is not None:
            self.tree.remember(self.tree.head)
            self._turn(end, save=True)
        return end is not None

    def undo(self) -> None:
        """Turn back to the messages before the last regenerating, editing or going back. Call it only if `no_undo` is ""."""
        self.tree.undo()
        self._turn(self.tree.head, save=True)

    @property
    def no_undo(self) -> str:
        """Why nothing can be undone just now; "" if something can."""
        return self.no_change or ("" if self.tree.can_undo else sentences.NOTHING_TO_UNDO)

    def _turn(self, end: ChatMessage | None, *, save: bool = False) -> None:
        """Turn to the messages that end with this one; a prompt at the end is one without an answer. `save`: open the
        conversation there the next time too."""
        prompt = end if end is not None and end.role == "user" else None
        if save and end is not None:
            self.journal.save_head(end.id)
        self._follow(prompt.parent if prompt is not None else end)
        self._unanswered, self._editing, self.comparison = prompt, None, None
        self._figures.go_back(self.tree.head)

    def _follow(self, head: ChatMessage | None) -> None:
        """Let the next message follow this one; None: let it be the first."""
        self.tree.turn(head)
        self.journal.at = head.id if head is not None else None

    def prompt_to_edit(self) -> int | None:
        """The index of the last prompt, or of the one before the prompt that is being edited; None if there is none."""
        end = len(self.messages) if self._editing is None else self._editing
        return next((at for at in reversed(range(end)) if self.messages[at].role == "user"), None)

    def begin_edit(self, index: int) -> str:
        """The next prompt replaces the message with this index, whose text is returned. Call it only if `no_change` is ""."""
        self._editing = index
        return self.messages[index].content

    def leave_edit(self) -> None:
        """The message that is edited stays as it is."""
        self._editing = None
