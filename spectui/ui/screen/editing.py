"""The chat in which what was said can be said otherwise: edit and resend, branch, go on with a stopped reply."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content

from spectui.engine.events import Event, RoundDone
from spectui.errors import SpectuiError
from spectui.store import library
from spectui.store.records import Conversation, StoredMessage
from spectui.text import printable
from spectui.ui.keys import spoken
from spectui.ui.screen.continuation import renumbered
from spectui.ui.screen.resuming import Resuming
from spectui.ui.transcript.inspectable import InspectableTranscript
from spectui.ui.widgets.slider import Slider


class Editing(Resuming):
    """A chat screen whose conversation can be changed and branched. What was said before stays on disk, as a branch."""

    BINDING_GROUP_TITLE = "messages"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+e", "edit", "Edit", id="edit", show=False, priority=True,
                tooltip="Edit the last prompt and send it anew; once more: the one before"),
        Binding("alt+l", "messages", "Messages", id="messages", show=False, priority=True,
                tooltip="List the messages and branches, to edit one or go on from it"),
        Binding("alt+g", "continue", "Continue", id="continue", show=False, priority=True,
                tooltip="Go on with a reply that was stopped or reached its limit"),
        Binding("alt+y", "system_prompt", "System prompt", id="system", show=False, priority=True,
                tooltip="What the model is told before this conversation"),
    ]  # fmt: skip

    _editing: int | None = None  # which message the prompt in the box takes the place of
    _put = ""  # that prompt as it was put there
    _rounds_before = 0  # of the reply that is gone on with: those it had

    # Edit and resend

    def action_edit(self) -> None:
        """Put the last prompt into the box, to be sent in its place; then the one before, and so on."""
        last = len(self.session.messages) if self._editing is None else self._editing
        prompts = [place for place in range(last) if self.session.messages[place].role == "user"]
        if prompts:
            self._edit(prompts[-1])
        elif self._editing is None:
            self.notify("There is no prompt to edit.", severity="warning", markup=False)

    def _edit(self, place: int) -> None:
        if not self._may_change():
            return
        if self.prompt.text.strip() and (self._editing is None or self.prompt.text != self._put):
            self.notify("Send or clear what is in the box first.", severity="warning", markup=False)
            return
        self._editing = place
        self.prompt.put_sent(self.session.messages[place].content)
        self._put = self.prompt.text
        self.prompt.focus()
        self._show_state()

    def _may_change(self) -> bool:
        if self.session.replying:
            return self.is_free()
        if self.session.waiting:
            way = spoken(self.app, "{stop} takes the prompt that waits back first.")
            self.notify(way, severity="warning", markup=False)
        return not self.session.waiting

    def _send_waiting(self) -> None:
        if self._editing is not None and self.session.state == "ready" and self.session.waiting:
            self._back_to(self._editing)
        super()._send_waiting()

    def _back_to(self, length: int) -> None:
        """Go back to the first so many messages."""
        self._editing = None
        rounds = self.transcript.rounds_of(length - 1)
        self.session.cut(length, rounds)
        self.panel.look_back(rounds)
        self.transcript.cut(length)

    def _show_state(self) -> None:
        super()._show_state()
        if self._editing is not None and not self.session.waiting:
            way = f"editing message {self._editing + 1}: {{send}} sends it anew, {{stop}} leaves it"
            self.prompt.border_title = Content(spoken(self.app, way))

    def action_stop(self) -> None:
        """As in the chat; an edit that was begun is left first."""
        other = self.session.waiting or self.session.state == "loading" or isinstance(self.focused, Slider)
        if self._editing is None or other:
            super().action_stop()
        else:
            self._editing = None
            self.prompt.text = ""
            self._show_state()

    def action_new_chat(self) -> None:
        """Forget the conversation, and an edit."""
        self._editing = None
        super().action_new_chat()

    def resume(self, conversation: Conversation) -> None:
        """Turn to a conversation; prompts that wait for the one before go back into the box."""
        self._editing = None
        self._return_waiting()
        super().resume(conversation)

    # Branches

    def action_messages(self, at: int | None = None) -> None:
        """List the messages and the other branches."""
        # What a key opens is imported then: the window stands sooner.
        from spectui.ui.dialogs.messages import MessagesScreen, Way

        if not self._may_change():
            return
        branches = self._branches()
        if not self.session.messages and not branches:
            self.notify("Nothing was said yet.", severity="warning", markup=False)
            return

        def chosen(way: Way | None) -> None:
            match way:
                case Way("edit", place):
                    self._edit(place)
                case Way("back", length):
                    self._back_to(length)
                    self.session.journal.turn_here()
                    self._show_figures()
                    self._show_state()
                case Way("branch", identity):
                    self._turn_to(identity)

        self.app.push_screen(MessagesScreen(self.session.messages, branches, at), chosen)

    @on(InspectableTranscript.HeadingClicked)
    def _list_messages(self, event: InspectableTranscript.HeadingClicked) -> None:
        self.action_messages(event.place)

    def _branches(self) -> list[StoredMessage]:
        journal = self.session.journal
        if journal.file is None or not journal.conversation:
            return []
        journal.flush()
        try:
            return [each for each in library.ends(journal.file, journal.conversation) if each.id not in journal.path]
        except SpectuiError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
            return []

    def _turn_to(self, message: int) -> None:
        journal = self.session.journal
        assert journal.file is not None
        try:
            self.resume(library.branch(journal.file, journal.conversation, message))
        except SpectuiError as error:
            self.notify(printable(str(error)), severity="error", markup=False)

    # Going on with a reply

    def action_continue(self) -> None:
        """Go on with the last reply, where it was stopped."""
        if not self.is_free():
            return
        rounds = self.transcript.last_rounds
        if not self.session.can_go_on or not self.transcript.continue_reply():
            self.notify("The last reply is whole: there is nothing to go on with.", severity="warning", markup=False)
            return
        self._rounds_before = rounds[-1].index + 1
        self.engine.generate(self.session.go_on())
        self._show_figures()
        self._show_state()

    def _take(self, event: Event) -> None:
        if isinstance(event, RoundDone) and self._rounds_before and not self.session.comparing:
            event = event._replace(round=renumbered(event.round, self._rounds_before))
        super()._take(event)
        if not self.session.replying:
            self._rounds_before = 0

    # The system prompt

    def action_system_prompt(self) -> None:
        """Show and change it."""
        from spectui.ui.dialogs.system_prompt import SystemPromptScreen

        def chosen(text: str | None) -> None:
            if text is not None:
                self.session.set_system(text)

        self.app.push_screen(SystemPromptScreen(self.session.setup.system), chosen)
