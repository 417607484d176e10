"""The chat: transcript and prompt on the left, figures and levers on the right."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from time import monotonic
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content

from spectui.chat.session import Session, note_of
from spectui.engine.events import (
    Devices,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    Loading,
    Message,
    Notice,
    Prompt,
    RoundDone,
)
from spectui.engine.protocol import Engine
from spectui.knobs import Setup
from spectui.speculation.records import Round
from spectui.telemetry.monitor import Monitor
from spectui.text import printable
from spectui.ui.dashboard.panel import SidePanel
from spectui.ui.dashboard.rounds import RoundsPage
from spectui.ui.dashboard.status import StatusLine
from spectui.ui.keys import key_of, spoken
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen.busy import why_not_now
from spectui.ui.screen.panel_screen import PanelScreen
from spectui.ui.textual_patches.compositor import ChangesCompositor
from spectui.ui.textual_patches.refresh_rate import RefreshRate
from spectui.ui.transcript.inspectable import InspectableTranscript
from spectui.ui.transcript.inspector import Inspector
from spectui.ui.transcript.legend import Legend
from spectui.ui.widgets.key_line import KeyLine
from spectui.ui.widgets.loading import LoadingLine
from spectui.ui.widgets.slider import Slider
from spectui.ui.widgets.title_line import TitleLine

FIGURES_S = 1.0


class ChatScreen(PanelScreen):
    """Sends prompts down, drains events up, and hands each to the widget that shows it."""

    AUTO_FOCUS = "#prompt"

    BINDING_GROUP_TITLE = "chat"
    # Priority, because the prompt's text area takes F6, F7 and Escape for itself.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", id="stop", priority=True, tooltip="Stop the reply, or the loading"),
        Binding("f2", "colours", "Colours", id="colours", priority=True, tooltip="Colour tokens by their origin"),
        Binding("f3", "ghosts", "Ghosts", id="ghosts", priority=True, tooltip="Show drafted tokens that were rejected"),
        Binding("f4", "inspect", "Inspect", id="inspect", priority=True,
                tooltip="Put a cursor on the tokens: where each came from"),
        Binding("ctrl+r", "again", "Again", id="regenerate", priority=True, tooltip="Answer the last prompt once more"),
        Binding("ctrl+n", "new_chat", "New", id="new-chat", priority=True, tooltip="Begin a new chat"),
        Binding("ctrl+d", "without_draft", "No draft", id="without-draft", priority=True,
                tooltip="Go on with the target alone"),
        Binding("ctrl+l", "load", "Load again", id="load", priority=True, tooltip="Try to load the models once more"),
        # Where a load failed, Ctrl+L is the key above, so the other is the one to teach.
        Binding("alt+m,ctrl+l", "models", "Models", id="models", show=False, priority=True,
                tooltip="Choose target and draft out of the files on this machine"),
    ]  # fmt: skip

    def __init__(
        self, engine: Engine, setup: Setup, *, monitor: Monitor | None = None, notices: Sequence[str] = ()
    ) -> None:
        super().__init__(engine, Session(setup))
        self._monitor = monitor
        self._notices = notices
        self._arrived: list[Round] = []  # and are not drawn yet
        self._moved = False  # the engine has said something that the figures do not show yet
        self._figures_due = 0.0
        self._looking = False
        self._compositor = ChangesCompositor()

    def compose(self) -> ComposeResult:
        """Title; transcript, legend, prompt beside the panel; keys."""
        yield TitleLine(id="title")
        with Horizontal(id="body"):
            with Vertical(id="main"):
                yield InspectableTranscript(id="transcript")
                yield LoadingLine(id="loading")
                yield Inspector(id="inspector")
                yield Legend(id="legend")
                yield StatusLine(id="status")
                yield PromptInput(id="prompt")
            yield SidePanel(self.engine.knobs, self.session.setup, id="panel")
        yield KeyLine()

    def on_mount(self) -> None:
        """Show what is known, and load once the window stands: a person can type while it loads."""
        self.transcript = self.query_one(InspectableTranscript)
        self.prompt = self.query_one(PromptInput)
        self.panel = self.query_one(SidePanel)
        self._show_models()
        self.call_after_refresh(self._tell_notices)  # below a conversation that is resumed
        if self.session.setup.model:
            self.query_one(LoadingLine).begin()
            self.call_after_refresh(self.load, self.session.setup)
        self._show_figures()
        self._pace = RefreshRate(self.set_interval, self._tick)

    def _tell_notices(self) -> None:
        for notice in self._notices:
            self.transcript.add_notice(printable(notice))

    def load(self, setup: Setup) -> None:
        """Ask for these models, in place of what is loaded."""
        # First, so that the end of a reply which this stops does not let the next prompt go.
        self.session.load(setup)
        self.engine.load(setup)
        self.query_one(LoadingLine).begin("the draft" if setup.draft else "")
        self._show_models()
        self._show_state()

    def _show_models(self) -> None:
        self.query_one(TitleLine).update_models(self.session)
        self.set_class(self.session.setup.draft is None, "-alone")

    # Events of the engine

    def _tick(self) -> None:
        """Take what the engine says, and now and then show figures, in one frame."""
        now = monotonic()
        due = now >= self._figures_due
        if due or self.engine.events:
            self._looking = True
            self._drain()
            if due:
                self._figures_due = now + FIGURES_S
                self._show_what_moved()
            self._looking = False
            # At once, which spares a turn of Textual's timer; but that figures have changed, their widgets tell by messages.
            (self.check_idle if due else self._on_timer_update)()
        self._pace.keep(awaited=self.session.state == "reading")

    def check_idle(self) -> None:
        """Have Textual look, when nothing else is to be done, what there is to draw. A look draws at its end itself."""
        if not self._looking:
            super().check_idle()

    def _drain(self) -> None:
        if not self.engine.events:
            return
        while self.engine.events:
            event = self.engine.events.popleft()
            if isinstance(event, RoundDone):
                self._pace.add(len(event.round.tokens))
            self._take(event)
        self._show_rounds()
        self._moved = True
        # Behind all that was said with the event that freed the engine: a notice belongs above the next prompt.
        self._send_waiting()

    def _show_rounds(self) -> None:
        """Those that came since the last time, all at once: where the view ends then is found once, and not for each."""
        if self._arrived:
            self.transcript.append_rounds(self._arrived)
            self._arrived.clear()

    def _take(self, event: Event) -> None:
        if not self.session.take(event):
            return
        if isinstance(event, RoundDone):
            self._arrived.append(event.round)
            self.panel.add_round(event.round)
            return
        self._show_rounds()
        match event:
            case Prompt(thinking=True):
                self.transcript.begin_thinking()
            case Loading():
                self.query_one(LoadingLine).update_loading(event)
            case Loaded():
                self.query_one(LoadingLine).end()
                self._show_models()
                self.panel.update_models(filter(None, (event.target, event.draft)))
            case LoadFailed(message=message):
                self.query_one(LoadingLine).end()
                self.panel.update_models(())
                say = self.transcript.add_notice if self.session.stopped else self.transcript.add_error
                say(printable(f"{message} {self._way_on()}"))
                self._return_waiting()
            case Finished(reason=reason):
                self.transcript.finish_reply(note_of(reason, self.session.n_ctx, key_of(self.app, "new-chat")))
            case Failed(message=message):
                self.transcript.finish_reply()
                self.transcript.add_error(printable(message))
            case Notice(message=message):
                self.transcript.add_notice(printable(message))
        if isinstance(event, Loaded | Devices | LoadFailed):
            self.panel.update_devices(self.session.devices, self.session.setup)
        if not isinstance(event, Loading | Devices | Notice):
            self._show_figures()
        if not isinstance(event, Loading | Devices | Notice | Prompt):
            self._show_state()

    def _way_on(self) -> str:
        if self.session.without_draft:
            return spoken(self.app, "{without-draft}: go on without the draft.")
        return spoken(self.app, "{load} tries again, {models} chooses other models.")

    # Prompts

    @on(PromptInput.Submitted)
    def _submit(self, event: PromptInput.Submitted) -> None:
        if self.session.state in ("no model", "failed"):
            way = spoken(self.app, "No model can answer yet: {models} chooses one. The prompt is kept.")
            self.notify(way, severity="warning", markup=False)
            return
        if event.control.accept(event.text):
            self.session.waiting.append(event.text)
            self._send_waiting()
            self._show_state()

    def _send_waiting(self) -> None:
        if self.session.state == "ready" and self.session.waiting:
            text = self.session.waiting.pop(0)
            self.transcript.add_message("user", text, place=len(self.session.messages))
            self._answer(self.session.ask(text))

    def _answer(self, messages: Sequence[Message]) -> None:
        self.transcript.start_reply(self.session.name, len(self.session.messages), self.session.journal.rounds)
        self.engine.generate(messages)
        self._show_figures()
        self._show_state()

    def _return_waiting(self) -> None:
        """Put prompts that are not to be sent any more back into the box."""
        if self.session.waiting:
            self.prompt.give_back("\n".join(self.session.waiting))
            self.session.waiting.clear()
            self._show_state()

    # Figures and state

    def _show_figures(self) -> None:
        self._moved = False
        figures = self.session.figures()
        self.query_one(TitleLine).update_figures(figures)
        self.query_one(Legend).update_figures(figures)
        self.query_one(StatusLine).update_figures(figures)
        self.panel.update_figures(figures)

    def _show_what_moved(self) -> None:
        if self._moved:
            self._show_figures()
        if self._monitor is not None:
            self.panel.update_telemetry(self._monitor.snapshot)

    def _show_state(self) -> None:
        if self.session.state == "reading":
            self._pace.hurry()
        self.prompt.steady = self.session.replying
        waiting = len(self.session.waiting)
        word = "prompt waits" if waiting == 1 else "prompts wait"
        way = spoken(self.app, f"{waiting} {word} until the model is free, {{stop}} takes back") if waiting else ""
        self.prompt.border_title = Content(way)
        self.refresh_bindings()

    # Actions

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """Keys as the footer shows them: what matters most is left where the window is narrow."""
        order = ("send", "stop", "without-draft", "load", "quit", "help", "panel", "page", "inspect", "compare",
                 "ghosts", "colours", "regenerate")  # fmt: skip
        bindings = super().active_bindings
        rank = {key: order.index(each.binding.id) if each.binding.id in order else 99 for key, each in bindings.items()}
        return dict(sorted(bindings.items(), key=lambda item: rank[item[0]]))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key is shown, and taken from the text area, only while it can do something."""
        if action == "without_draft":
            return self.session.without_draft
        if action == "load":
            return self.session.state == "failed"
        return True

    def action_stop(self) -> None:
        """Stop what is going on and take waiting prompts back; with nothing going on, close the drawer. A number that is
        being typed at a slider is forgotten first."""
        if isinstance(self.focused, Slider) and self.focused.forget():
            return
        self._return_waiting()
        if self.session.replying or self.session.state == "loading":
            self.session.stop()
            self.engine.stop()
        elif self.transcript.inspected is not None:
            self._end_inspection()
        else:
            self.remove_class("-drawer")
        self.prompt.focus()

    def action_colours(self) -> None:
        """Colour tokens by origin, or not."""
        self.transcript.show_colours = not self.transcript.show_colours
        self.query_one(Legend).show_colours(self.transcript.show_colours)

    def action_ghosts(self) -> None:
        """Show rejected drafts, or not."""
        self.transcript.show_ghosts = not self.transcript.show_ghosts

    def action_inspect(self) -> None:
        """Put the cursor on the last token, or leave."""
        if self.transcript.inspected is not None:
            self._end_inspection()
        elif self.transcript.inspect_last():
            self.transcript.focus()
        else:
            self.notify("There is no token to inspect yet.", severity="warning", markup=False)

    def on_key(self, event: events.Key) -> None:
        """What is typed after a click into the transcript is meant for the prompt."""
        if self.focused is self.transcript and event.is_printable and event.key not in self.active_bindings:
            event.stop()
            self._hand_to_prompt(events.Key(event.key, event.character))

    def on_paste(self, event: events.Paste) -> None:
        """So is what is pasted."""
        if self.focused is self.transcript:
            event.stop()
            self._hand_to_prompt(events.Paste(event.text))

    def _hand_to_prompt(self, event: events.Key | events.Paste) -> None:
        self.prompt.focus()
        self.prompt.post_message(event)

    @on(InspectableTranscript.Inspected)
    def _inspect(self, event: InspectableTranscript.Inspected) -> None:
        self.query_one(Inspector).show(event.token, event.round)
        self.panel.rounds.show_round(event.round)
        if event.token is None:
            self.prompt.focus()

    @on(RoundsPage.Chosen)
    def _mark_round(self, event: RoundsPage.Chosen) -> None:
        self.query_one(Inspector).show(None, None)
        if event.round is None or not self.transcript.mark_round(event.round):
            self.transcript.end_inspection()

    def _end_inspection(self) -> None:
        self.transcript.end_inspection()
        self.query_one(Inspector).show(None, None)
        self.panel.rounds.show_round(None)
        self.prompt.focus()

    def action_again(self) -> None:
        """Take the last reply back and answer once more."""
        if not self.is_free():
            return
        messages = self.session.regenerate()
        if messages is None:
            self.notify("There is no prompt to answer again.", severity="warning", markup=False)
        else:
            self.transcript.cut(len(self.session.messages))
            self._answer(messages)

    def is_free(self) -> bool:
        """Whether the engine can be asked; a person is told why it cannot."""
        why = why_not_now(self.session.state)
        if why:
            self.notify(spoken(self.app, why), severity="warning", markup=False)
        return not why

    def action_new_chat(self) -> None:
        """Forget the conversation; a reply in progress is stopped, and prompts that wait go back into the box."""
        self._return_waiting()
        if self.session.replying:
            self.engine.stop()
        self.return_knobs()
        self.session.clear()
        self.transcript.clear()
        self.panel.clear()
        self._show_figures()
        self._show_state()

    def action_without_draft(self) -> None:
        """Load the target alone."""
        self.load(dataclasses.replace(self.session.setup, draft=None))

    def action_load(self) -> None:
        """Try the same models once more."""
        self.load(self.session.setup)
