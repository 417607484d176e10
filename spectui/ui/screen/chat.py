"""The chat screen of the window: transcript and prompt on the left, figures and controls on the right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer, OptionList

from spectui.chat.commands import COMMANDS, LAST_LINE
from spectui.chat.comparison import OfComparison
from spectui.chat.dropping import Dropped
from spectui.chat.figures.lines import said_of
from spectui.chat.messages import OpenedConversation, thinks
from spectui.chat.sentences import NO_TEXT
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
from spectui.store.records import StoredConversation
from spectui.telemetry.monitor import Monitor
from spectui.text import printable
from spectui.ui.dashboard.machine import DevicePane
from spectui.ui.dashboard.rounds import RoundsPage
from spectui.ui.keys import with_keys
from spectui.ui.screen import asking, commands, controls, reading
from spectui.ui.screen.welcome import Fetch, Welcome
from spectui.ui.screen.window import Window
from spectui.ui.textual_patches.refresh_rate import RefreshRate
from spectui.ui.transcript.reader import Reader
from spectui.ui.widgets.rows import KnobRow, Slider

if TYPE_CHECKING:
    from spectui.ui.textual_patches.app import TerminalApp

FIGURES_S = 1.0
"""Seconds between two redraws of the figures while a reply is written."""

GUESSES_S = 1.0
"""Seconds after a guess in which another one is looked for often."""

RING_S = 10.0
"""Seconds of a reply at whose end the bell rings, if another window has the focus."""

SHOWN_KEYS = 5
"""Keys on the last line."""


class ChatScreen(Window):
    """Shows a `ChatSession`: sends prompts down, drains events up, and hands each to the widget that shows it."""

    AUTO_FOCUS = "#prompt"
    BINDING_GROUP_TITLE = "chat"
    BINDINGS: ClassVar[list[BindingType]] = commands.BINDINGS

    def __init__(
        self,
        session: ChatSession,
        *,
        conversation: StoredConversation | None = None,
        monitor: Monitor | None = None,
        notices: Sequence[str] = (),
        catalogue: ModelCatalogue | None = None,
        plan: PlanInWords | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        """`conversation` is the one to resume, with `notices` below it. `catalogue` has the models to choose from, `plan`
        says what they would take on the devices, and `fetch` downloads a first pair."""
        super().__init__(session, resumes=conversation is not None)
        self._fetch = fetch
        self._conversation = conversation
        self._monitor = monitor
        self._notices = notices
        self.catalogue = catalogue or ModelCatalogue()
        if plan is not None:
            self.plan = lambda setup: plan(setup, session.models.memory)
        self.chats.choose = partial(reading.choose, self)
        self.prompt.commands = partial(commands.behind_slash, self)
        self.prompt.send = partial(asking.submit, self)
        self.prompt.count = partial(asking.count, self)
        self.prompt.command = partial(commands.do_behind_slash, self)
        self.remember: Callable[[], object] = lambda: None
        """Called when models are loaded, to write the pair down: a killed window writes nothing."""
        self._figures_due = 0.0
        self._guess = self._struck = ""  # the draft that is seen, and what the target has rejected of it
        self._guesses_until = 0.0
        self._thought = False  # the reply was thinking at the last look
        self._seen = False
        self._unsent: str | None = None  # the prompt's text as it is on disk; None before the last chat's was taken

    def compose(self) -> ComposeResult:
        """Title; transcript, legend, prompt beside the panel; keys."""
        yield self.title_line
        with Horizontal(id="body"):
            yield self.chats
            with Vertical(id="main"):
                yield self.transcript
                if self.has_class("-empty"):
                    yield Welcome(self, self._fetch)
                yield self.loading_line
                yield self.opening_line
                yield self.inspector
                yield self.legend
                yield self.status
                yield self.find_line
                yield self.suggestions
                yield self.prompt
                yield self.prompt.chips
            yield self.panel
        yield Footer()

    def on_mount(self) -> None:
        """Show the known figures, and load after the window is drawn, so that a person can type meanwhile."""
        self.session.conversation.listen(partial(reading.follow, self))
        self.show_models()
        if self.session.setup.model:
            self.loading_line.begin()
        self.show_figures()
        self.rate = RefreshRate(self.set_interval, self._tick)
        self.call_after_refresh(lambda: self.run_worker(self._begin()))

    async def _begin(self) -> None:
        """Show the resumed conversation, the last crash and the notices; then load the models."""
        if self.session.stored.saved:
            earlier = await asyncio.to_thread(self.session.stored.prompts)
            self.prompt.remember(earlier, self.session.journal.save_prompt)
            if unsent := await asyncio.to_thread(self.session.stored.take_unsent):
                self.prompt.give_back(unsent, sent=False)
        self._unsent = ""
        self._save_unsent()  # what came back is no more on disk
        if (stored := self._conversation) is not None:
            await reading.show_conversation(self, partial(OpenedConversation.of, stored))
        reading.show_crash(self)
        for notice in self._notices:
            self.transcript.add_notice(printable(notice))
        # A person may have chosen others meanwhile.
        if self.session.setup.model and not self.session.models.requested:
            controls.load(self, self.session.setup)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Come to the front. At start the styles are fresh, and applying them again took a twentieth of the start."""
        event.refresh_styles = self._seen
        self.chats.follow()  # a dialog may have renamed one
        self._seen = True

    def on_resize(self) -> None:
        """Show the keys that have room now."""
        self.refresh_bindings()

    def on_unmount(self) -> None:
        """Save the text of a reply in progress and of the prompt, however the window closes."""
        self._save_unsent()
        self.session.close()

    # Events of the engine

    def _tick(self) -> None:
        """Take the engine's events and, every `FIGURES_S`, show figures, all in one frame."""
        now = monotonic()
        due = now >= self._figures_due
        if due or self.session.engine.events or self.session.engine.guess != self._guess:
            with self.held():
                self._drain()
                self._show_guess(now)
                if due:
                    self._figures_due = now + FIGURES_S
                    self._show_once_a_second()
            # Widgets announce changed figures by messages, which must be handled first.
            (self.check_idle if due else self.refresh_now)()
        self.rate.adjust(awaited=self.session.state == "reading" or now < self._guesses_until)

    def _drain(self) -> None:
        for notice in self.session.journal.take_notices():
            self.transcript.add_error(printable(notice))
        if not self.session.engine.events:
            return
        for shown in self.session.drain():
            event = shown.event if isinstance(shown, OfComparison) else shown
            if isinstance(event, RoundDone):
                self.rate.add(len(event.round.tokens))
                rejected = (token.text for token in event.round.drafted if token.fate == "rejected")
                self._struck = "".join(rejected) if self._guess and not self.transcript.show_rejected else ""
            if isinstance(shown, OfComparison):
                asking.show_comparison(self, shown.event)
            elif not isinstance(shown, RoundDone):
                self.transcript.grow()
                self._show(shown)
        self.transcript.grow()
        self.stale = True
        if self._thought != (now := thinks(self.session.writing)):
            self._thought = now
            self.refresh_bindings()
        if self.session.send_waiting():  # after all events of this drain: a notice belongs above the next prompt
            self.show_all()

    def _show_guess(self, now: float) -> None:
        """Show the draft that the target reads, and then what it has struck of it until there is another. A terminal that is
        behind, and a person who wants nothing to move, are spared."""
        spared = self.app.animation_level == "none" or cast("TerminalApp", self.app).is_behind
        engine = self.session.engine
        guess = "" if spared or self.session.writing is None else engine.guess
        self._guess = "" if engine.events else guess  # it may stand behind a round that has come since
        if self._guess:
            self._struck, self._guesses_until = "", now + GUESSES_S
        self.transcript.show_guess(self._guess or self._struck, struck=not self._guess)

    def _show(self, event: Event | Dropped) -> None:
        session, transcript = self.session, self.transcript
        said = printable(with_keys(self.app, said_of(event, session)))
        match event:
            case Loading():
                self.loading_line.update_loading(event)
            case Loaded():
                self.loading_line.end()
                self.prompt.count_soon()
                self.remember()
            case LoadFailed():
                self.loading_line.end()
                (transcript.add_notice if session.models.stopped else transcript.add_error)(said)
                self.return_waiting()
            case Finished():
                self._ring(event)
                self._finish(said)
                reading.show_unanswered(self)
            case Dropped():
                transcript.add_notice(said, above=True)
            case Failed():
                self._finish()
                transcript.add_error(said)
            case Notice():
                transcript.add_notice(said)
            case ThreadsInUse():
                self.panel.machine.threads = event
                self.panel.machine.redraw()
        if isinstance(event, Loaded | Devices | LoadFailed):
            self.show_models()
        if not isinstance(event, Loading | Devices | Notice):
            self.show_figures()
        if not isinstance(event, Loading | Devices | Notice | Prompt):
            self.show_state()

    def _ring(self, reply: Finished) -> None:
        """Tell a person who looks at another window that a long reply has ended."""
        if not self.app.app_focus and (reply.time_to_first_token_s or 0.0) + reply.statistics.decode_s >= RING_S:
            self.app.bell()

    def _finish(self, note: str = "") -> None:
        """The reply has ended, with a note. If it has no text and was in place of others, they are there again, and an edited
        prompt is edited again."""
        came_back = self.session.take_back()
        if came_back is None:
            self.transcript.finish_reply()
            if note:
                self.transcript.add_notice(note)
            return
        self.say(NO_TEXT)
        if came_back.prompt:
            asking.edit_again(self, came_back.at, came_back.prompt)

    def _show_once_a_second(self) -> None:
        self._save_unsent()
        if self.stale:
            self.show_figures()
        if self._monitor is not None:
            self.panel.update_telemetry(self._monitor.telemetry)

    def _save_unsent(self) -> None:
        # Before, it would take the place of the last chat's text, or come into the box as if it were that.
        if self._unsent is not None and self.prompt.unsent != self._unsent:
            self._unsent = self.prompt.unsent
            self.session.journal.save_unsent(self._unsent)

    # Actions

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The keys in the order of the last line. It shows a few, as many as stand there whole: what is urgent, those of the
        focused pane, and those that lead to all others. Esc is shown where it stops something or leads back."""
        pane = self.focused if self.focused is not self.prompt else None
        rank = {identity: number for number, identity in enumerate(LAST_LINE)}

        def order(item: tuple[str, ActiveBinding]) -> tuple[float, bool]:
            key, (node, binding, *_) = item
            command = COMMANDS.get(binding.id or "")
            if node is pane or command is None:
                return rank["models"] - 0.5, False
            return rank.get(command.id, len(rank)), not command.keys.startswith(key)

        ordered = sorted(super().active_bindings.items(), key=order)
        session = self.session
        stops = session.replying or session.state == "loading" or session.waiting or session.conversation.editing is not None
        room, actions = self.size.width, set[str]()
        for index, (key, (node, binding, enabled, tooltip)) in enumerate(ordered):
            shown = binding.show and enabled and binding.action not in actions and len(actions) < SHOWN_KEYS
            shown = shown and (binding.id != "compare" or (session.state == "ready" and session.last_reply is not None))
            if binding.id == "stop" and not stops:
                shown, binding = shown and pane is not None, replace(binding, description="Back")
            if shown:
                actions.add(binding.action)
                room -= cell_len(f" {self.app.get_key_display(binding)} {binding.description} ")
            ordered[index] = key, ActiveBinding(node, replace(binding, show=shown and room >= 0), enabled, tooltip)
        return dict(ordered)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key is active, and taken from the text area, only while its action is possible."""
        return action != "run" or commands.is_possible(self, COMMANDS[str(parameters[0])])

    async def action_run(self, identity: str) -> None:
        """Do what the command of this id asks for."""
        done = commands.run(self, identity)
        if isawaitable(done):
            await done

    def take_text(self, event: events.Key | events.Paste) -> bool:
        """Give the prompt the focus before a printable key or a paste comes, wherever the focus is; a number that is being
        typed at a slider stays there while it is one. Returns whether the event is dealt with.
        """
        focused = self.focused
        if focused in (self.prompt, self.find_line) or not self.prompt.is_mounted:
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

    @on(OptionList.OptionSelected, "#suggestions")
    def _take_suggestion(self) -> None:
        self.prompt.take_suggestion()

    @on(Reader.Inspected)
    def _inspect(self, event: Reader.Inspected) -> None:
        reading.show_token(self, event.token, event.round)

    @on(Reader.HeadingClicked)
    def _list_messages(self, event: Reader.HeadingClicked) -> None:
        if event.by:
            asking.turn_branch(self, event.index, event.by)
        else:
            asking.list_messages(self, event.index)

    @on(Reader.CodeClicked)
    def _copy_code(self, event: Reader.CodeClicked) -> None:
        reading.copy(self, event.code, "the code block")

    @on(RoundsPage.Chosen)
    def _mark_round(self, event: RoundsPage.Chosen) -> None:
        reading.mark_round(self, event.round)

    @on(KnobRow.Changed)
    def _turn(self, event: KnobRow.Changed) -> None:
        if event.key == self.panel.profile.key:
            controls.use_profile(self, str(event.value))
        elif event.key == self.panel.context.key:
            controls.pick_context(self, int(event.value))
        else:
            controls.turn(self, event.key, event.value)

    @on(Slider.Entered)
    def _load_picked(self, event: Slider.Entered) -> None:
        if event.key == self.panel.context.key:
            controls.load_picked(self)

    @on(DevicePane.Picked)
    def _pick(self, event: DevicePane.Picked) -> None:
        controls.pick_device(self, event.role, event.device)
