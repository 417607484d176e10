"""Lists conversations, opens one, and resumes the last."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spectui.chat.messages import ChatMessage, MessageReader, OpenedConversation
from spectui.chat.sentences import NOT_SAVED, UNANSWERED, crash_advice
from spectui.engine.events import Loading
from spectui.errors import SpectuiError
from spectui.store.records import StoredConversation
from spectui.text import printable
from spectui.ui.keys import with_keys
from spectui.ui.transcript.document_reader import DocumentReader
from spectui.ui.transcript.transcript import REWRITTEN_AT_ONCE
from spectui.ui.widgets.loading import LoadingLine

if TYPE_CHECKING:
    from spectui.ui.screen.chat import ChatScreen


class Conversations:
    """Reads conversations and their rounds in a worker thread, and shows them."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._opening: DocumentReader | None = None  # fills a document from the disk
        self._read: DocumentReader | None = None  # has just filled one
        self._building: DocumentReader | None = None  # fills one with messages that are here

    def list(self) -> None:
        """List the conversations."""
        from spectui.ui.dialogs.conversations import Choice, ConversationsScreen

        screen, stored = self._screen, self._screen.session.stored
        if not stored.saved:
            screen.say(NOT_SAVED)
            return

        def chosen(choice: Choice | None) -> None:
            if choice is not None and choice.verb == "new":
                self.begin_new()
            elif choice is not None and not stored.is_open(choice.id):
                self.open(lambda reader: stored.read(choice.id, reader))

        screen.app.push_screen(ConversationsScreen(stored, self._delete), chosen)

    def open(self, read: Callable[[MessageReader], OpenedConversation]) -> None:
        """Open the conversation that `read` returns and shows; waiting prompts go back into the text area."""
        self._screen.replies.return_waiting()
        self._screen.run_worker(self._open(read), exclusive=True, group="open")

    async def show(self, conversation: StoredConversation) -> None:
        """Resume a conversation that was read from the disk before the window started."""
        await self._open(lambda reader: OpenedConversation.of(conversation, reader))

    def follow(self, same: int) -> None:
        """The conversation has changed behind its first `same` messages: show it as it is now."""
        screen, session, (read, self._read) = self._screen, self._screen.session, (self._read, None)
        building, self._building = self._building, None
        messages, same = session.conversation.shown, same if building is None else 0
        if read is not None:
            screen.transcript.show_document(read)
        elif sum(len(each.rounds) for each in messages[same:] if each is not session.writing) <= REWRITTEN_AT_ONCE:
            screen.transcript.follow(messages, same, session.writing, lambda note: with_keys(screen.app, note))
        else:
            self._building = self._reader(lambda share: None)
            screen.run_worker(self._build(self._building, messages), exclusive=True, group="build")

    async def _build(self, reader: DocumentReader, messages: Sequence[ChatMessage]) -> None:

        def build() -> None:
            for index, message in enumerate(messages):
                reader.show(index, message, iter(message.rounds))

        await asyncio.to_thread(build)
        if self._building is reader:
            self._building = None
            self._screen.transcript.show_document(reader)
            self.show_unanswered()

    def show_unanswered(self) -> None:
        """Say how to have the last prompt answered, if it is not."""
        screen = self._screen
        if screen.session.conversation.unanswered is not None and self._building is None:
            screen.transcript.add_notice(with_keys(screen.app, UNANSWERED))

    def open_offer(self) -> None:
        """Resume the conversation that a crash ended."""
        if (offer := self._screen.session.take_offer()) is not None:
            self.open(lambda reader: OpenedConversation.of(offer, reader))

    def begin_new(self) -> None:
        """Begin a new chat; a reply in progress is stopped, and waiting prompts go back into the text area."""
        self._screen.session.new_chat()
        self._show_new()

    async def _delete(self, identity: str) -> None:
        """Delete a conversation; if it is the open one, a new chat begins. Raises SpectuiError."""
        deletion = self._screen.session.delete(identity)
        if deletion.left:
            self._show_new()
        self._screen.prompt.forget(await asyncio.to_thread(deletion.carry_out))

    def _show_new(self) -> None:
        screen, self._opening = self._screen, None
        screen.query_one("#opening", LoadingLine).end()
        screen.replies.return_waiting()
        screen.transcript.clear()
        screen.panel.clear()
        screen.show_figures()
        screen.show_state()

    @property
    def opening(self) -> bool:
        """A conversation is being read; prompts sent now wait for it."""
        return self._opening is not None

    async def _open(self, read: Callable[[MessageReader], OpenedConversation]) -> None:
        screen, loop = self._screen, asyncio.get_running_loop()
        line = screen.query_one("#opening", LoadingLine)

        def progress(share: float) -> None:
            loop.call_soon_threadsafe(line.update_loading, Loading("the conversation", share))

        reader = self._opening = self._reader(progress)
        try:
            opened = await asyncio.to_thread(read, reader)
        except SpectuiError as error:
            screen.complain(error)
            opened = None
        if self._opening is not reader:
            return  # a person has begun a new chat, or opened another, meanwhile
        self._opening = None
        line.end()
        if opened is None:
            screen.replies.return_waiting()
            return
        self._read = reader
        screen.session.resume(opened)
        screen.panel.clear()
        self.show_unanswered()
        screen.show_figures()
        screen.show_state()
        screen.replies.send_waiting()

    def _reader(self, progress: Callable[[float], None]) -> DocumentReader:
        """Fills a document with messages, in any thread."""
        keys = {action: with_keys(self._screen.app, action) for action in ("{drop}", "{new-chat}", "{placement}")}
        transcript = self._screen.transcript
        return DocumentReader(
            transcript.text_width, lambda note: re.sub("{[a-z-]+}", lambda found: keys[found[0]], note), progress,
            rejected=transcript.show_rejected, show_thinking=transcript.show_thinking,
        )  # fmt: skip

    def show_crash(self) -> None:
        """Show how spectui crashed the last time, and what to do about it."""
        session = self._screen.session
        if (crash := session.models.crash) is not None:
            held, offer = session.models.held, session.offer is not None
            advice = crash_advice(session.setup, offer=offer, held=held, details=True)
            said = f"{crash.sentence} {with_keys(self._screen.app, advice)}".strip()
            self._screen.transcript.add_error(printable(said))
