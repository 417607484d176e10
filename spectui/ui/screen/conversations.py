"""Lists conversations, opens one, and resumes the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from spectui.chat.messages import MessageReader, OpenedConversation
from spectui.chat.sentences import NOT_SAVED, UNANSWERED, crash_advice
from spectui.engine.events import Loading
from spectui.errors import SpectuiError
from spectui.store.records import StoredConversation
from spectui.text import printable
from spectui.ui.keys import with_keys
from spectui.ui.screen.window import Window
from spectui.ui.transcript.source import SourceReader


class Conversations:
    """Reads conversations and their rounds in a worker thread, and shows them."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._session = window.session
        self._opening: SourceReader | None = None  # reads a conversation from the disk

    def list(self) -> None:
        """List the conversations."""
        from spectui.ui.dialogs.conversations import ConversationsScreen

        stored = self._session.stored
        if self._window.refuses("" if stored.saved else NOT_SAVED):
            return

        def chosen(identity: str) -> None:
            if not identity:
                self.begin_new()
            elif not stored.is_open(identity):
                self.open(lambda reader: stored.read(identity, reader))

        self._window.ask(ConversationsScreen(stored, self._delete), chosen)

    def open(self, read: Callable[[MessageReader], OpenedConversation]) -> None:
        """Open the conversation that `read` returns and shows; waiting prompts go back into the text area."""
        self._window.return_waiting()
        self._window.run(self._open(read), "open")

    async def show(self, conversation: StoredConversation) -> None:
        """Resume a conversation that was read from the disk before the window started."""
        await self._open(lambda reader: OpenedConversation.of(conversation, reader))

    def follow(self, same: int) -> None:
        """The conversation has changed behind its first `same` messages: show it as it is now."""
        if not self._window.transcript.is_attached:
            return  # the window closes
        sources = self._opening.sources if self._opening is not None else {}
        self._window.transcript.follow(self._session.conversation.shown, same, self._session.writing, sources)

    def show_unanswered(self) -> None:
        """Say how to have the last prompt answered, if it is not."""
        if self._session.conversation.unanswered is not None:
            self._window.transcript.add_notice(with_keys(self._window.app, UNANSWERED))

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
        self._window.prompt.forget(await asyncio.to_thread(self._session.stored.delete, identity))

    def _show_new(self) -> None:
        window = self._window
        self._end_opening()
        self._window.return_waiting()
        window.transcript.clear()
        window.panel.clear()
        window.show_all()

    def _end_opening(self) -> None:
        self._opening, self._session.held = None, False
        self._window.opening_line.end()

    async def _open(self, read: Callable[[MessageReader], OpenedConversation]) -> None:
        window, loop = self._window, asyncio.get_running_loop()

        def progress(share: float) -> None:
            loop.call_soon_threadsafe(window.opening_line.update_loading, Loading("the conversation", share))

        reader = self._opening = SourceReader(progress)
        self._session.held = True
        try:
            opened = await asyncio.to_thread(read, reader)
        except SpectuiError as error:
            window.complain(error)
            opened = None
        if self._opening is not reader:
            return  # a person has begun a new chat, or opened another, meanwhile
        if opened is not None:
            self._session.resume(opened)
        self._end_opening()
        if opened is None:
            self._window.return_waiting()
            return
        window.panel.clear()
        self.show_unanswered()
        window.show_all()
        self._session.send_waiting()

    def show_crash(self) -> None:
        """Show how spectui crashed the last time, and what to do about it."""
        session = self._session
        if (crash := session.models.crash) is not None:
            held, offer = session.models.held, session.offer is not None
            advice = crash_advice(session.setup, offer=offer, held=held, details=True)
            said = f"{crash.sentence} {with_keys(self._window.app, advice)}".strip()
            self._window.transcript.add_error(printable(said))
