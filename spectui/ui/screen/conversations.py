"""Lists conversations, opens one, and resumes the last."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from spectui.chat.figures.running import ChatFigures
from spectui.chat.messages import MessageReader, OpenedConversation
from spectui.chat.sentences import NOT_SAVED, UNANSWERED, crash_advice
from spectui.engine.events import Loading
from spectui.errors import SpectuiError
from spectui.store.records import Conversation
from spectui.text import printable
from spectui.ui.keys import with_keys
from spectui.ui.transcript.document import Document
from spectui.ui.transcript.document_reader import DocumentReader
from spectui.ui.widgets.loading import LoadingLine

if TYPE_CHECKING:
    from spectui.ui.screen.chat import ChatScreen


class Conversations:
    """Reads conversations and their rounds in a worker thread, and shows them."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._opening: Document | None = None  # the document that is being filled

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

    async def show(self, conversation: Conversation) -> None:
        """Resume a conversation that was read from the disk before the window started."""
        await self._open(lambda reader: OpenedConversation.of(conversation, reader))

    def show_again(self) -> None:
        """Show the open conversation, which has turned to other messages."""
        messages = tuple(self._screen.session.messages)

        def read(reader: MessageReader) -> OpenedConversation:
            for index, message in enumerate(messages):
                reader.show(index, message, iter(message.rounds))
            return OpenedConversation(Conversation("", "", 0, 0, "", "", ()), messages, ChatFigures())

        self._screen.run_worker(self._open(read, resume=False), exclusive=True, group="open")

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
        screen.replies.forget()
        screen.replies.return_waiting()
        screen.transcript.clear()
        screen.panel.clear()
        screen.show_figures()
        screen.show_state()

    @property
    def opening(self) -> bool:
        """A conversation is being read; prompts sent now wait for it."""
        return self._opening is not None

    async def _open(self, read: Callable[[MessageReader], OpenedConversation], *, resume: bool = True) -> None:
        screen, transcript = self._screen, self._screen.transcript
        document = self._opening = Document(transcript.text_width)
        ghosts, thinking, notes = transcript.show_ghosts, transcript.show_thinking, self._notes()

        loop, line = asyncio.get_running_loop(), screen.query_one("#opening", LoadingLine)

        def progress(share: float) -> None:
            loop.call_soon_threadsafe(line.update_loading, Loading("the conversation", share))

        reader = DocumentReader(document, notes, progress, ghosts=ghosts, show_thinking=thinking)
        try:
            opened = await asyncio.to_thread(read, reader)
        except SpectuiError as error:
            screen.complain(error)
            opened = None
        if self._opening is not document:
            return  # a person has begun a new chat, or opened another, meanwhile
        self._opening = None
        line.end()
        if opened is None:
            screen.replies.return_waiting()
            return
        if resume:
            screen.session.resume(opened)
        screen.replies.forget()
        screen.panel.clear()
        transcript.show_document(document)
        shown = transcript.show_ghosts, transcript.show_thinking
        if shown != (ghosts, thinking):  # a person has pressed a key meanwhile
            transcript.watch_show_ghosts()
            transcript.watch_show_thinking()
        if screen.session.unanswered:
            transcript.add_notice(with_keys(screen.app, UNANSWERED))
        screen.show_figures()
        screen.show_state()
        screen.replies.send_waiting()

    def _notes(self) -> Callable[[str], str]:
        """Inserts keys into a sentence; any thread may call it."""
        keys = {action: with_keys(self._screen.app, action) for action in ("{drop}", "{new-chat}", "{placement}")}
        return lambda note: re.sub("{[a-z-]+}", lambda found: keys[found[0]], note)

    def show_crash(self) -> None:
        """Show how spectui crashed the last time, and what to do about it."""
        session = self._screen.session
        if (crash := session.models.crash) is not None:
            held, offer = session.models.held, session.offer is not None
            advice = crash_advice(session.setup, offer=offer, held=held, details=True)
            said = f"{crash.sentence} {with_keys(self._screen.app, advice)}".strip()
            self._screen.transcript.add_error(printable(said))
