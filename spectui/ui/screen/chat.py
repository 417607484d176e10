"""The chat screen of the window: transcript and prompt on the left, figures and controls on the right."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from inspect import isawaitable
from time import monotonic
from typing import Any, ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content

from spectui.chat.commands import LAST_LINE
from spectui.chat.comparison import OfComparison
from spectui.chat.dropping import Dropped
from spectui.chat.sentences import dropped_mark, dropped_note, failed_advice, load_advice, stop_note
from spectui.chat.session import ChatSession
from spectui.engine.events import (
    Devices,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    Loading,
    Notice,
    Prompt,
    RoundDone,
    ThreadsInUse,
)
from spectui.engine.loading.plan import PlanInWords
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.profiles.file import ProfileFile
from spectui.store.records import StoredConversation
from spectui.store.rounds.packed import CHUNK
from spectui.telemetry.monitor import Monitor
from spectui.text import printable
from spectui.ui.dashboard.devices import DevicePane
from spectui.ui.dashboard.pages.rounds import RoundsPage
from spectui.ui.dashboard.panel import SidePanel
from spectui.ui.dashboard.status import StatusLine
from spectui.ui.keys import with_keys
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.prompt.suggestions import Suggestions
from spectui.ui.screen.commands import BINDINGS, ENABLED, GROUPS, RUN, behind_slash
from spectui.ui.screen.controls import Controls
from spectui.ui.screen.conversations import Conversations
from spectui.ui.screen.messages import Messages
from spectui.ui.screen.pages import PanelPages
from spectui.ui.screen.reading import Reading
from spectui.ui.screen.replies import Replies
from spectui.ui.screen.welcome import Fetch, Welcome
from spectui.ui.textual_patches.key_line import KeyLine
from spectui.ui.textual_patches.refresh_rate import RefreshRate
from spectui.ui.textual_patches.screen import DirectScreen
from spectui.ui.transcript.inspectable import InspectableTranscript
from spectui.ui.transcript.inspector import Inspector
from spectui.ui.transcript.legend import Legend
from spectui.ui.widgets.choice_row import ChoiceRow
from spectui.ui.widgets.loading import LoadingLine
from spectui.ui.widgets.slider import Slider
from spectui.ui.widgets.title_line import TitleLine

FIGURES_S = 1.0
"""Seconds between two redraws of the figures while a reply is written."""


class ChatScreen(DirectScreen):
    """Shows a `ChatSession`: sends prompts down, drains events up, and hands each to the widget that shows it.

    One of its parts does what a command asks for (`commands`): `replies`, `messages` (earlier ones), `conversations`,
    `reading`, `controls` (knobs, profiles, models) and `pages` (the panel).
    """

    AUTO_FOCUS = "#prompt"
    BINDING_GROUP_TITLE = "chat"
    BINDING_GROUPS: ClassVar[Mapping[str, Any]] = GROUPS
    BINDINGS: ClassVar[list[BindingType]] = BINDINGS

    controls: Controls
    pages: PanelPages
    messages: Messages
    conversations: Conversations
    reading: Reading
    replies: Replies
    session: ChatSession
    prompt: PromptInput

    def __init__(
        self,
        session: ChatSession,
        *,
        conversation: StoredConversation | None = None,
        monitor: Monitor | None = None,
        notices: Sequence[str] = (),
        profiles: ProfileFile | None = None,
        catalogue: ModelCatalogue | None = None,
        plan: PlanInWords | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        """`conversation` is the one to resume, with `notices` below it. `catalogue` has the models to choose from, `plan`
        says what they would take on the devices, and `fetch` downloads a first pair."""
        super().__init__()
        self.session = session
        self.profiles = profiles
        self.catalogue = catalogue or ModelCatalogue()
        self.plan = plan
        self._fetch = fetch
        self._conversation = conversation
        self._monitor = monitor
        self._notices = notices
        self.controls = Controls(self)
        self.pages = PanelPages(self)
        self.messages = Messages(self)
        self.conversations = Conversations(self)
        self.reading = Reading(self)
        self.replies = Replies(self)
        self._mark_models(update=False)  # after the widgets are styled, the whole window would be styled again
        self._figures_stale = False  # they do not show the latest events yet
        self._figures_due = 0.0
        self._seen = False
        self._unsent: str | None = None  # the prompt's text as it is on disk; None before the last chat's was taken

    def compose(self) -> ComposeResult:
        """Title; transcript, legend, prompt beside the panel; keys."""
        yield TitleLine(id="title")
        with Horizontal(id="body"):
            with Vertical(id="main"):
                yield InspectableTranscript(id="transcript")
                if self.has_class("-empty"):
                    yield Welcome(self._fetch, id="welcome")
                yield LoadingLine(id="loading")
                yield LoadingLine(id="opening")
                yield Inspector(id="inspector")
                yield Legend(id="legend")
                yield StatusLine(id="status")
                suggestions = Suggestions(id="suggestions")
                yield suggestions
                yield PromptInput(suggestions, id="prompt")
            yield SidePanel(self.session.knobs, self.session.setup, id="panel")
        yield KeyLine()

    def on_mount(self) -> None:
        """Show the known figures, and load after the window is drawn, so that a person can type meanwhile."""
        self.transcript = self.query_one(InspectableTranscript)
        self.prompt = self.query_one(PromptInput)
        self.panel = self.query_one(SidePanel)
        self.session.conversation.listen(self.conversations.follow)
        self.prompt.commands = lambda: behind_slash(self)
        self.show_models()
        if self.session.setup.model:
            self.query_one("#loading", LoadingLine).begin()
        self.show_figures()
        self._refresh_rate = RefreshRate(self.set_interval, self._tick)
        self.call_after_refresh(lambda: self.run_worker(self._begin()))

    async def _begin(self) -> None:
        """Show the resumed conversation, the last crash and the notices; then load the models."""
        if self.session.stored.saved:
            earlier = await asyncio.to_thread(self.session.stored.prompts)
            self.prompt.remember(earlier, self.session.stored.save_prompt)
            if unsent := await asyncio.to_thread(self.session.stored.take_unsent):
                self.prompt.give_back(unsent)
        self._unsent = ""
        if self._conversation is not None:
            await self.conversations.show(self._conversation)
        self.conversations.show_crash()
        for notice in self._notices:
            self.transcript.add_notice(printable(notice))
        # A person may have chosen others meanwhile.
        if self.session.setup.model and not self.session.models.requested:
            self.controls.load(self.session.setup)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Come to the front. At start the styles are fresh, and applying them again took a twentieth of the start."""
        event.refresh_styles = self._seen
        self._seen = True

    def on_unmount(self) -> None:
        """Save the text of a reply in progress and of the prompt, however the window closes."""
        self._save_unsent()
        self.session.close()

    # Events of the engine

    def _tick(self) -> None:
        """Take the engine's events and, every `FIGURES_S`, show figures, all in one frame."""
        now = monotonic()
        due = now >= self._figures_due
        if due or self.session.engine.events:
            with self.held():
                self._drain()
                if due:
                    self._figures_due = now + FIGURES_S
                    self._show_once_a_second()
            # Widgets announce changed figures by messages, which must be handled first.
            (self.check_idle if due else self.refresh_now)()
        self._refresh_rate.adjust(awaited=self.session.state == "reading")

    def _drain(self) -> None:
        for notice in self.session.take_notices():
            self.transcript.add_error(printable(notice))
        if not self.session.engine.events:
            return
        rounds = 0
        for shown in self.session.drain():
            event = shown.event if isinstance(shown, OfComparison) else shown
            if isinstance(event, RoundDone):
                self._refresh_rate.add(len(event.round.tokens))
            if isinstance(shown, OfComparison):
                self.replies.show_comparison(shown.event)
            elif isinstance(shown, RoundDone):
                rounds += 1
                if rounds % CHUNK == 0:
                    self.transcript.grow()  # before they are packed: to unpack them takes time
            else:
                self.transcript.grow()
                self._show(shown)
        self.transcript.grow()
        self._figures_stale = True
        self.replies.send_waiting()  # after all events of this drain: a notice belongs above the next prompt

    def _show(self, event: Event | Dropped) -> None:
        session, transcript = self.session, self.transcript
        match event:
            case Prompt(thinking=True):
                transcript.begin_thinking()
            case Loading():
                self.query_one("#loading", LoadingLine).update_loading(event)
            case Loaded():
                self.query_one("#loading", LoadingLine).end()
                self.show_models()
                self.panel.update_models(filter(None, (event.target, event.draft)))
                self.panel.update_fixed(session.models.fixed, session.knobs)
            case LoadFailed(message=message, without_draft=without_draft, without_servers=without_servers):
                self.query_one("#loading", LoadingLine).end()
                self.panel.update_models(())
                advice = load_advice(without_draft=without_draft, without_servers=without_servers)
                say = transcript.add_notice if session.models.stopped else transcript.add_error
                say(printable(f"{message} {with_keys(self.app, advice)}"))
                self.replies.return_waiting()
            case Finished(reason=reason, to_drop=to_drop):
                models = session.models
                note = stop_note(reason.value, models.n_ctx, to_drop=to_drop > 0, larger=models.larger_context)
                self.replies.finish(with_keys(self.app, note))
            case Dropped(turns=turns):
                transcript.add_notice_above(with_keys(self.app, dropped_note(turns)))
            case Failed(message=message, to_drop=to_drop):
                self.replies.finish()
                transcript.add_error(f"{printable(message)} {with_keys(self.app, failed_advice(to_drop))}".rstrip())
            case Notice(message=message):
                transcript.add_notice(printable(message))
            case ThreadsInUse():
                self.panel.machine.update_threads(event)
        if isinstance(event, Loaded | Devices | LoadFailed):
            self.controls.show_devices()
        if not isinstance(event, Loading | Devices | Notice):
            self.show_figures()
        if not isinstance(event, Loading | Devices | Notice | Prompt):
            self.show_state()

    # Figures and state

    def show_figures(self) -> None:
        """Draw the present figures. Hide a comparison when its reply is gone."""
        self._figures_stale = False
        figures = self.session.figures()
        self.query_one(TitleLine).update_figures(figures)
        self.query_one(Legend).update_figures(figures)
        self.query_one(StatusLine).update_figures(figures)
        self.panel.update_figures(figures)
        self.replies.hide_old_comparison()

    def _show_once_a_second(self) -> None:
        self._save_unsent()
        if self._figures_stale:
            self.show_figures()
        if self._monitor is not None:
            self.panel.update_telemetry(self._monitor.telemetry)

    def show_state(self) -> None:
        """Show above the prompt what waits and what is edited, and update the keys."""
        session = self.session
        if session.state == "reading":
            self._refresh_rate.hurry()
        self.prompt.cursor_blink = not session.replying  # each blink draws a frame, which takes time from decoding
        waiting, way = len(session.waiting), ""
        if waiting:
            word = "prompt waits" if waiting == 1 else "prompts wait"
            way = f"{waiting} {word} until the model is free, {{stop}} takes back"
        elif (editing := session.conversation.editing) is not None:
            way = f"editing message {editing + 1}: {{send}} sends it anew, {{stop}} leaves it"
        self.transcript.mark_dropped(session.oldest.dropped, dropped_mark(session.oldest.turns))
        self.prompt.border_title = Content(with_keys(self.app, way))
        self.refresh_bindings()

    def _save_unsent(self) -> None:
        # Before, it would take the place of the last chat's text, or come into the box as if it were that.
        if self._unsent is not None and self.prompt.unsent != self._unsent:
            self._unsent = self.prompt.unsent
            self.session.stored.save_unsent(self._unsent)

    def show_models(self) -> None:
        """Show the models' names."""
        self.query_one(TitleLine).update_models(self.session.name, self.session.models.drafter)
        if self.has_class("-empty") and self.session.setup.model:
            self.prompt.focus()  # the list has had the keys
        self._mark_models()

    def _mark_models(self, update: bool = True) -> None:
        empty = not self.session.setup.model and self._conversation is None
        self.update_classes({"-alone": not self.session.models.drafter, "-empty": empty}, update)

    def say(self, sentence: str, severity: Literal["information", "warning", "error"] = "warning") -> None:
        """Notify a person, with keys in place of the {ids} of actions."""
        self.notify(with_keys(self.app, sentence), severity=severity, markup=False)

    def complain(self, error: Exception) -> None:
        """Notify a person of an error."""
        self.notify(printable(str(error)), severity="error", markup=False)

    # Actions

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The keys in the order of the last line: a narrow window shows the first ones only."""
        bindings = super().active_bindings
        rank = {identity: index for index, identity in enumerate(LAST_LINE)}
        return dict(sorted(bindings.items(), key=lambda item: rank.get(item[1].binding.id or "", 99)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key is active, and taken from the text area, only while its action is possible."""
        enabled = ENABLED.get(str(parameters[0])) if action == "run" else None
        return enabled is None or enabled(self)

    async def action_run(self, identity: str) -> None:
        """Do what the command of this id asks for."""
        done = RUN[identity](self)
        if isawaitable(done):
            await done

    def take_text(self, event: events.Key | events.Paste) -> bool:
        """Give the prompt the focus before a printable key or a paste comes, wherever the focus is; a number that is being
        typed at a slider stays there while it is one. Returns whether the event is dealt with.
        """
        focused = self.focused
        if focused is self.prompt or not self.prompt.is_mounted:
            return False
        if isinstance(event, events.Key) and (not event.is_printable or event.key in self.active_bindings):
            return False
        if isinstance(focused, Slider):
            if isinstance(event, events.Key) and focused.type(event.character or ""):
                return True
            begun = focused.forget()
            if begun:  # it was the beginning of a text
                self.prompt.post_message(events.Paste(begun))
        self.set_focus(self.prompt)
        return False

    # Messages of the widgets

    @on(PromptInput.Submitted)
    def _submit(self, event: PromptInput.Submitted) -> None:
        self.replies.submit(event.text)

    @on(Suggestions.Taken)
    def _take_suggestion(self) -> None:
        self.prompt.take_suggestion()

    @on(PromptInput.Commanded)
    async def _command(self, event: PromptInput.Commanded) -> None:
        await self.action_run(event.command)

    @on(InspectableTranscript.Inspected)
    def _inspect(self, event: InspectableTranscript.Inspected) -> None:
        self.reading.show_token(event.token, event.round)

    @on(InspectableTranscript.HeadingClicked)
    def _list_messages(self, event: InspectableTranscript.HeadingClicked) -> None:
        self.messages.list(event.index)

    @on(RoundsPage.Chosen)
    def _mark_round(self, event: RoundsPage.Chosen) -> None:
        self.reading.mark_round(event.round)

    @on(Slider.Changed)
    @on(ChoiceRow.Changed)
    def _turn(self, event: Slider.Changed | ChoiceRow.Changed) -> None:
        if event.control is self.panel.profile:
            self.controls.use_profile(str(event.value))
        else:
            self.controls.turn(event.control.key, event.value)

    @on(DevicePane.Picked)
    def _pick(self, event: DevicePane.Picked) -> None:
        self.controls.pick_device(event.role, event.device)
