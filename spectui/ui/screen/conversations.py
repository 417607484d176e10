"""Lists conversations, opens one, and resumes the last."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

from spectui.chat.messages import ChatMessage, MessageReader, OpenedConversation
from spectui.chat.sentences import NOT_SAVED, UNANSWERED, crash_advice
from spectui.engine.events import Loading
from spectui.errors import SpectuiError
from spectui.store.records import StoredConversation
from spectui.text import printable
from spectui.ui.keys import with_keys
from spectui.ui.screen.replies import Replies
from spectui.ui.screen.view import ChatView
from spectui.ui.transcript.document import Document
from spectui.ui.transcript.transcript import REWRITTEN_AT_ONCE


class Conversations:
    """Reads conversations and their rounds in a worker thread, and shows them."""

    def __init__(self, view: ChatView, replies: Replies) -> None:
        self._view = view
        self._session = view.session
        self._replies = replies
        self._opening: Document | None = None  # fills a document from the disk
        self._read: Document | None = None  # has just filled one
        self._building: Document | None = None  # fills one with messages that are here

    def list(self) -> None:
        """List the conversations."""
        from spectui.ui.dialogs.conversations import ConversationsScreen

        stored = self._session.stored
        if self._view.refuses("" if stored.saved else NOT_SAVED):
            return

        def chosen(identity: str) -> None:
            if not identity:
                self.begin_new()
            elif not stored.is_open(identity):
                self.open(lambda reader: stored.read(identity, reader))

        self._view.ask(ConversationsScreen(stored, self._delete), chosen)

    def open(self, read: Callable[[MessageReader], OpenedConversation]) -> None:
        """Open the conversation that `read` returns and shows; waiting prompts go back into the text area."""
        self._replies.return_waiting()
        self._view.run(self._open(read), "open")

    async def show(self, conversation: StoredConversation) -> None:
        """Resume a conversation that was read from the disk before the window started."""
        await self._open(lambda reader: OpenedConversation.of(conversation, reader))

    def follow(self, same: int) -> None:
        """The conversation has changed behind its first `same` messages: show it as it is now."""
        view, session, (read, self._read) = self._view, self._session, (self._read, None)
        building, self._building = self._building, None
        messages, same = session.conversation.shown, same if building is None else 0
        if read is not None:
            view.transcript.show_document(read)
        elif sum(len(each.rounds) for each in messages[same:] if each is not session.writing) <= REWRITTEN_AT_ONCE:
            view.transcript.follow(messages, same, session.writing)
        else:
            self._building = self._new_document(lambda share: None)
            view.run(self._build(self._building, messages), "build")

    async def _build(self, reader: Document, messages: Sequence[ChatMessage]) -> None:

        def build() -> None:
            for index, message in enumerate(messages):
                reader.show(index, message, iter(message.rounds))

        await asyncio.to_thread(build)
        if self._building is reader:
            self._building = None
            self._view.transcript.show_document(reader)
            self.show_unanswered()

    def show_unanswered(self) -> None:
        """Say how to have the last prompt answered, if it is not."""
        if self._session.conversation.unanswered is not None and self._building is None:
            self._view.transcript.add_notice(with_keys(self._view.app, UNANSWERED))

    def open_offer(self) -> None:
        """Resume the conversation that a crash ended."""
        if (offer := self._session.take_offer()) is not None:
            self.open(lambda reader: OpenedConversation.of(offer, reader))

    def begin_new(self) -> None:
        """Begin a new chat; a reply in progress is stopped, and waiting prompts go back into the text area."""
        self._session.new_chat()
        self._show_new()

    async def _delete(self, identity: str) -> None:
        """Delete a conversation; if it is the open one, a new chat begins. Raises SpectuiError."""
        if self._session.leave(identity):
            self._show_new()
        self._view.prompt.forget(await asyncio.to_thread(self._session.stored.delete, identity))

    def _show_new(self) -> None:
        view = self._view
        self._end_opening()
        self._replies.return_waiting()
        view.transcript.clear()
        view.panel.clear()
        view.show()

    def _end_opening(self) -> None:
        self._opening, self._replies.held = None, False
        self._view.opening.end()

    async def _open(self, read: Callable[[MessageReader], OpenedConversation]) -> None:
        view, loop = self._view, asyncio.get_running_loop()

        def progress(share: float) -> None:
            loop.call_soon_threadsafe(view.opening.update_loading, Loading("the conversation", share))

        reader = self._opening = self._new_document(progress)
        self._replies.held = True
        try:
            opened = await asyncio.to_thread(read, reader)
        except SpectuiError as error:
            view.complain(error)
            opened = None
        if self._opening is not reader:
            return  # a person has begun a new chat, or opened another, meanwhile
        self._end_opening()
        if opened is None:
            self._replies.return_waiting()
            return
        self._read = reader
        self._session.resume(opened)
        view.panel.clear()
        self.show_unanswered()
        view.show()
        self._replies.send_waiting()

    def _new_document(self, progress: Callable[[float], None]) -> Document:
        """A document that any thread may fill with messages."""
        keys = {action: with_keys(self._view.app, action) for action in ("{drop}", "{new-chat}", "{placement}")}
        transcript = self._view.transcript

        def keyed(note: str) -> str:
            return re.sub("{[a-z-]+}", lambda found: keys[found[0]], note)

        document = Document(transcript.text_width, keyed, progress)
        document.rejected, document.show_thinking = transcript.show_rejected, transcript.show_thinking
        return document

    def show_crash(self) -> None:
        """Show how spectui crashed the last time, and what to do about it."""
        session = self._session
        if (crash := session.models.crash) is not None:
            held, offer = session.models.held, session.offer is not None
            advice = crash_advice(session.setup, offer=offer, held=held, details=True)
            said = f"{crash.sentence} {with_keys(self._view.app, advice)}".strip()
            self._view.transcript.add_error(printable(said))
