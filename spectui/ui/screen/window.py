"""The chat's window: its widgets, what they show of the session, and ways to tell and ask a person."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Literal

from textual.content import Content
from textual.screen import ScreenResultType

from spectui.chat.session import ChatSession
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.knobs import Setup
from spectui.text import printable
from spectui.ui.dashboard.panel import SidePanel
from spectui.ui.dashboard.status import ChatsPane, Legend, LoadingLine, StatusLine, TitleLine
from spectui.ui.keys import with_keys
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.prompt.suggestions import Suggestions
from spectui.ui.textual_patches.refresh_rate import RefreshRate
from spectui.ui.textual_patches.screen import Dialog, DirectScreen
from spectui.ui.transcript.inspector import Inspector
from spectui.ui.transcript.reader import FindLine, Reader
from spectui.ui.transcript.source import SourceReader


class Window(DirectScreen):
    """The widgets of the chat. What is done with them are functions of a window, in the modules beside this one."""

    catalogue: ModelCatalogue
    """The models to choose from."""

    rate: RefreshRate
    """How often news is taken; set when the window is mounted."""

    def __init__(self, session: ChatSession, *, resumes: bool) -> None:
        """`resumes`: a conversation is shown although no model may be chosen."""
        super().__init__()
        self.session = session
        self._resumes = resumes
        self.title_line = TitleLine(session, id="title")
        self.transcript = Reader(id="transcript")
        self.find_line = FindLine(self.transcript, id="find")
        self.loading_line = LoadingLine(id="loading")
        self.opening_line = LoadingLine(id="opening")
        self.inspector = Inspector(id="inspector")
        self.legend = Legend(id="legend")
        self.status = StatusLine(id="status")
        self.suggestions = Suggestions(id="suggestions")
        self.prompt = PromptInput(self.suggestions, id="prompt")
        self.chats = ChatsPane(session.stored, id="chats")
        self.panel = SidePanel(session, id="panel")
        self.plan: Callable[[Setup], str] = lambda setup: ""
        """Says what the models of a set-up would take on the devices, in place of the loaded ones. Takes a while."""
        self.opening: SourceReader | None = None
        """Reads a conversation from the disk."""
        self.stale = False
        """The figures do not show the latest events yet."""
        self._mark_models(update=False)  # after the widgets are styled, the whole window would be styled again

    # What is shown

    def show_figures(self) -> None:
        """Draw the present figures."""
        self.stale = False
        figures = self.session.figures()
        for each in (self.title_line, self.legend, self.status, self.panel):
            each.update_figures(figures)

    def show_state(self) -> None:
        """Show `way_on` above the prompt, and update the keys."""
        session = self.session
        if session.state == "reading":
            self.rate.hurry()
        # Each blink draws a frame, which takes time from decoding.
        self.prompt.cursor_blink = not (session.replying or self.prompt.disabled)
        below = f"↑ dropped turns: {session.oldest.turns}, no part of the prompt any more"
        self.transcript.mark_dropped(session.oldest.dropped, below)
        self.prompt.border_title = Content(self.way_on)
        self.refresh_bindings()

    @property
    def way_on(self) -> str:
        """What stands above the prompt: what waits and what is edited, and what can be done about it."""
        session, waiting = self.session, len(self.session.waiting)
        if waiting:
            word = "prompt waits" if waiting == 1 else "prompts wait"
            return with_keys(self.app, f"{waiting} {word} until the model is free, {{stop}} takes back")
        if (editing := session.conversation.editing) is not None:
            return with_keys(self.app, f"editing message {editing + 1}: {{send}} sends it anew, {{stop}} leaves it")
        return f"replies obey {schema}" if (schema := printable(session.user_knobs.schema[0])) else ""

    def show_all(self) -> None:
        """Draw the present figures, and the state."""
        self.show_figures()
        self.show_state()

    def show_models(self) -> None:
        """Show the models' names, and what can be turned of them."""
        self.title_line.refresh()
        self.panel.show_models()
        if self.has_class("-empty") and self.session.setup.model:
            self.set_focus(self.prompt)  # the list has had the keys
        self._mark_models()

    def _mark_models(self, update: bool = True) -> None:
        empty = not self.session.setup.model and not self._resumes
        saves = self.session.stored.saved and bool(self.check_action("run", ("conversations",)))
        self.update_classes({"-alone": not self.session.models.drafter, "-empty": empty, "-unsaved": not saves}, update)

    def return_waiting(self) -> None:
        """Put waiting prompts back into the text area."""
        if waiting := self.session.take_back_waiting():
            self.prompt.give_back(waiting)
            self.show_state()

    @property
    def picked(self) -> Setup | None:
        """The set-up with the devices or the context that a person has picked, until it is loaded."""
        return self.panel.devices.picked

    # What is told and asked

    def say(self, sentence: str, severity: Literal["information", "warning", "error"] = "warning") -> None:
        """Notify a person, with keys in place of the {ids} of actions."""
        self.notify(with_keys(self.app, sentence), severity=severity, markup=False)

    def why_fixed(self, key: str) -> str:
        """Why this knob, or what the models run on, cannot be turned; "" if it can."""
        fixed = self.session.models.fixed.get(key)
        return fixed.sentence if fixed is not None else ""

    def refuses(self, reason: str) -> bool:
        """Say why something cannot be done, unless the reason is "". Returns whether it cannot."""
        if reason:
            self.say(reason)
        return bool(reason)

    def complain(self, error: Exception) -> None:
        """Notify a person of an error."""
        self.notify(printable(str(error)), severity="error", markup=False)

    def ask(self, dialog: Dialog[ScreenResultType], then: Callable[[ScreenResultType], object]) -> None:
        """Open a dialog, and pass on what a person chooses there, if anything."""

        def answered(answer: ScreenResultType | None) -> None:
            if answer is not None:
                then(answer)

        self.app.push_screen(dialog, answered)

    def run(self, work: Callable[[], Coroutine[None, None, object]], group: str) -> None:
        """Run this beside the window, in place of what is still running of the same group.

        A function, since what is replaced before it begins must not have made its coroutine.
        """
        self.run_worker(work, exclusive=True, group=group)  # type: ignore[arg-type]  # mypy cannot choose among the forms that Textual takes
