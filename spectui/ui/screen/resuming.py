"""The chat with a memory: what is said is kept, what was said can be gone on with, and what goes wrong there is shown."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from spectui.chat.session import note_of, short_name
from spectui.engine.events import Event, Loaded
from spectui.engine.protocol import Engine
from spectui.knobs import Setup
from spectui.speculation.records import StopReason
from spectui.store.crash import Crash, safe_setup
from spectui.store.journal import Journal
from spectui.store.records import Conversation, Reply
from spectui.telemetry.monitor import Monitor
from spectui.text import printable
from spectui.ui.keys import key_of, spoken
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.widgets.loading import LoadingLine

CUT_OFF = "spectui ended here, before the reply did"
UNANSWERED = "The last prompt has no answer: {regenerate} asks it again."


class Resuming(ChatScreen):
    """A chat screen over a journal. `conversation` is the one to go on with.

    After a `crash` nothing is loaded that a person has not asked for again: the same models may end spectui the same way.
    `offer` is the conversation that was going on then.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "go_on", "Go on", id="go-on", priority=True, tooltip="Go on with the last conversation"),
        Binding("ctrl+s", "safe_way", "Safe way", id="safe-way", priority=True,
                tooltip="Load the models in the way that asks least of llama.cpp"),
    ]  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        setup: Setup,
        journal: Journal,
        *,
        conversation: Conversation | None = None,
        crash: Crash | None = None,
        offer: Conversation | None = None,
        monitor: Monitor | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        usual = setup.system
        if conversation is not None:
            setup = replace(setup, system=conversation.system)
        super().__init__(engine, setup, monitor=monitor, notices=notices)
        self.session.usual_system = usual
        self.session.journal = journal
        self._conversation = conversation
        self._crash = crash
        self._offer = offer
        self._held = crash is not None and (crash.setup.model, crash.setup.draft) == (setup.model, setup.draft)

    def on_mount(self) -> None:
        """Show the conversation that is gone on with, and what happened to it."""
        if self._conversation is not None:
            self.call_after_refresh(self.resume, self._conversation)
        if self._crash is not None:
            self.call_after_refresh(self._tell, self._crash)

    def on_unmount(self) -> None:
        """However the window closes, what was written of the reply is kept."""
        self.engine.close()
        while self.engine.events:
            self.session.take(self.engine.events.popleft())
        self.session.journal.close()

    def _tell(self, crash: Crash) -> None:
        ways = []
        if self._offer is not None:
            ways.append("{go-on} goes on with the conversation.")
        if self.session.setup.model:
            ways.append("{safe-way} loads the models the safe way (weights as they are, no flash attention, f16 cells, context"
                        f" {safe_setup(self.session.setup).ctx_size}).")  # fmt: skip
        if self._held:
            ways.append("{load} loads them as before.")
        self.transcript.add_error(printable(f"{crash.sentence} {spoken(self.app, ' '.join(ways))}".strip()))

    def load(self, setup: Setup) -> None:
        """Ask for these models, in place of what is loaded; not yet, where that is what ended spectui."""
        if not self._held:
            super().load(setup)
            return
        self._held = False
        self.session.hold()
        self.query_one(LoadingLine).end()
        self._show_figures()
        self._show_state()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """As in the chat; the ways on after a crash are there until they are taken."""
        if action == "go_on":
            return self._offer is not None
        if action == "safe_way":
            return self._crash is not None and bool(self.session.setup.model)
        return super().check_action(action, parameters)

    def action_go_on(self) -> None:
        """Go on with the conversation that a crash ended."""
        if self._offer is not None:
            conversation, self._offer = self._offer, None
            self.resume(conversation)

    def action_safe_way(self) -> None:
        """Load the models so that they are likelier to work."""
        self._crash = None
        self.load(safe_setup(self.session.setup))

    def resume(self, conversation: Conversation) -> None:
        """Go on with a conversation that was kept; a reply in progress is stopped."""
        if self.session.replying:
            self.engine.stop()
        self.return_knobs()
        self.session.resume(conversation)
        self.transcript.clear()
        self.panel.clear()
        for place, message in enumerate(conversation.messages):
            if message.reply is None or (message.text and not message.reply.rounds):
                self.transcript.add_message(message.role, message.text, place=place)
            else:
                self._show_reply(message.reply, place)
        if self.session.unanswered:
            self.transcript.add_notice(spoken(self.app, UNANSWERED))
        self._show_figures()
        self._show_state()

    def _show_reply(self, reply: Reply, place: int) -> None:
        self.transcript.start_reply(short_name(reply.setup.model), place, reply.rounds)
        if reply.thinking:
            self.transcript.begin_thinking()
        self.transcript.append_rounds(reply.rounds)
        for round in reply.rounds:
            self.panel.add_round(round)
        note = CUT_OFF if reply.stop is None else ""
        with suppress(ValueError):  # one that failed, or that another spectui knows of
            note = note or note_of(StopReason(reply.stop), reply.setup.ctx_size or None, key_of(self.app, "new-chat"))
        self.transcript.finish_reply(note)

    def _take(self, event: Event) -> None:
        """As in the chat; with models that are loaded there is nothing to be saved from any more."""
        if isinstance(event, Loaded):
            self._crash = None
        super()._take(event)

    def _drain(self) -> None:
        notices = self.session.journal.notices
        while notices:
            self.transcript.add_error(printable(notices.popleft()))
        super()._drain()
