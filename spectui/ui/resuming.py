"""The chat with a memory: what is said is kept, what was said can be gone on with, and what goes wrong there is shown."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from spectui.engine.protocol import Engine
from spectui.knobs import Setup
from spectui.speculation.records import StopReason
from spectui.store.journal import Journal
from spectui.store.records import Conversation, Reply
from spectui.telemetry.monitor import Monitor
from spectui.ui.chat import ChatScreen
from spectui.ui.figures import printable
from spectui.ui.session import note_of, short_name

CUT_OFF = "spectui ended here, before the reply did"
UNANSWERED = "The last prompt has no answer: Ctrl+R asks it again."


class ResumingChatScreen(ChatScreen):
    """A chat screen over a journal. `conversation` is the one to go on with."""

    def __init__(
        self,
        engine: Engine,
        setup: Setup,
        journal: Journal,
        *,
        conversation: Conversation | None = None,
        monitor: Monitor | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        if conversation is not None:
            setup = replace(setup, system=conversation.system)
        super().__init__(engine, setup, monitor=monitor, notices=notices)
        self.session.journal = journal
        self._conversation = conversation

    def on_mount(self) -> None:
        """Show the conversation that is gone on with."""
        if self._conversation is not None:
            self.call_after_refresh(self.resume, self._conversation)

    def on_unmount(self) -> None:
        """However the window closes, what was written of the reply is kept."""
        self.engine.close()
        while self.engine.events:
            self.session.take(self.engine.events.popleft())
        self.session.journal.close()

    def resume(self, conversation: Conversation) -> None:
        """Go on with a conversation that was kept; a reply in progress is stopped."""
        if self.session.replying:
            self.engine.stop()
        self.session.resume(conversation)
        self.transcript.clear()
        for message in conversation.messages:
            if message.reply is None or (message.text and not message.reply.rounds):
                self.transcript.add_message(message.role, message.text)
            else:
                self._show_reply(message.reply)
        if self.session.unanswered:
            self.transcript.add_notice(UNANSWERED)
        self._show_figures()
        self._show_state()

    def _show_reply(self, reply: Reply) -> None:
        self.transcript.start_reply(short_name(reply.setup.model))
        for round in reply.rounds:
            self.transcript.append_round(round)
        note = CUT_OFF if reply.stop is None else ""
        with suppress(ValueError):  # one that failed, or that another spectui knows of
            note = note or note_of(StopReason(reply.stop), reply.setup.ctx_size or None)
        self.transcript.finish_reply(note)

    def _drain(self) -> None:
        notices = self.session.journal.notices
        while notices:
            self.transcript.add_error(printable(notices.popleft()))
        super()._drain()
