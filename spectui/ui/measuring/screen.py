"""Finds the best settings for the loaded pair. The chat's models are freed meanwhile, because another process loads them."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Label

from spectui.chat.models import LoadedModels
from spectui.chat.sentences import saved_profile
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Knobs, Setup
from spectui.measure.bench.settings import Setting
from spectui.measure.live import LiveSearch
from spectui.profiles.file import ProfileFile
from spectui.text import printable
from spectui.ui.figures import MUTED
from spectui.ui.keys import with_keys
from spectui.ui.textual_patches.screen import Dialog
from spectui.ui.textual_patches.text_area import LineInput
from spectui.ui.widgets.actions import ActionLine
from spectui.ui.widgets.line_widget import gauge

POLL_S = 0.2
"""Seconds between two looks at the search, and at whether the chat's models are freed."""

LEAST_MINUTES, MOST_MINUTES = 0.05, 600

_BAR = 20


BEGINS = "{measure.begin} begins. The chat's models are freed meanwhile, and loaded again."
PURPOSE = "The fastest settings for these models, and whether they beat auto, which stays if they do not."


def _command(setup: Setup) -> str:
    """The command that does the same, but for the minutes, with the models' names in place of their paths."""
    models = [
        part for flag, path in (("-m", setup.model), ("-md", setup.draft)) if path for part in (flag, Path(path).name)
    ]
    return shlex.join(["spectui", "tune", *models])


class MeasureScreen(Dialog[None]):
    """Runs the search, and shows its table as it grows."""

    BINDING_GROUP_TITLE = "best settings"
    # Priority, because the box of the options has the focus.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "begin", "Begin", id="measure.begin", priority=True, tooltip="Begin to measure"),
        Binding("escape", "stop", "Stop, back", id="measure.stop", priority=True,
                tooltip="Stop and keep what was measured; again: end it at once; then back to the chat"),
        Binding("alt+u", "use", "Use", id="measure.use", priority=True, tooltip="Use what is best in the chat"),
        Binding("alt+s", "save", "Save", id="measure.save", priority=True, tooltip="Save what is best as a profile"),
        Binding("up", "scroll(-1)", "Up", id="measure.up", priority=True, show=False),
        Binding("down", "scroll(1)", "Down", id="measure.down", priority=True, show=False),
        Binding("pageup", "scroll(-8)", "Page up", id="measure.page-up", priority=True, show=False),
        Binding("pagedown", "scroll(8)", "Page down", id="measure.page-down", priority=True, show=False),
    ]  # fmt: skip
    AUTO_FOCUS = "Input"
    DEFAULT_CSS = """
    MeasureScreen {
        align: left top;
        background: $background;
        #title { margin: 0 1; text-style: bold; }
        #purpose, #state { margin: 0 1; width: 1fr; }
        #purpose { height: auto; color: $foreground 70%; }
        #state { height: auto; max-height: 3; }
        #command { height: 1; margin: 0 1; }
        #typed { width: auto; max-width: 50%; color: $foreground 60%; text-wrap: nowrap; text-overflow: ellipsis; }
        Input, Input:focus { margin: 0 0 0 1; width: 8; }
        #minutes { margin-left: 1; width: auto; color: $foreground 60%; }
        #result { width: auto; }
        ActionLine { margin: 0 1; }
        VerticalScroll { height: 1fr; margin: 1 1 0 1; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    }
    """

    def __init__(
        self,
        models: LoadedModels,
        knobs: Callable[[], Knobs],
        use: Callable[[Knobs], None],
        profiles: ProfileFile | None,
        search: LiveSearch | None = None,
    ) -> None:
        """`knobs`: those of the chat now. `use` turns them. `search`: the last one, which has ended."""
        super().__init__()
        self._models, self._knobs, self._use, self._profiles = models, knobs, use, profiles
        self.search = search
        """The search that runs, or waits until the chat's models are freed; or the last one."""
        self._shown: object = None  # what `_look` has seen

    def compose(self) -> ComposeResult:
        """The command, its progress and its results."""
        yield Label("Find the best settings", id="title")
        yield Label(PURPOSE, id="purpose")
        with Horizontal(id="command"):
            yield Label(printable(_command(self._models.setup)), id="typed", markup=False)
            yield Label("--minutes", id="minutes")
            yield LineInput("5", restrict=r"[0-9.]*")
        yield Label("", id="state", markup=False)
        with VerticalScroll(can_focus=False):
            yield Label("", id="result", markup=False)
        yield ActionLine([("begin", "begin"), ("stop, back", "stop"), ("use", "use"), ("save", "save")])

    def on_mount(self) -> None:
        """Show the last results, and then what is new."""
        self.call_after_refresh(self.show_result)
        self.set_interval(POLL_S, self._look)

    def on_resize(self) -> None:
        """Lay the table out anew."""
        self.show_result()

    def on_unmount(self) -> None:
        """A search ends with the page, however that is closed."""
        if self.search is not None and self.search.running:
            self.search.stop()
            self.search.stop()

    # Measuring

    @property
    def running(self) -> bool:
        """A search goes on, or waits for the memory of the chat's models."""
        return self.search is not None and self.search.running

    @property
    def winner(self) -> Setting | None:
        """What was found to be fastest, once the search has ended."""
        return self.search.winner if self.search is not None else None

    def action_begin(self) -> None:
        """Free the chat's models, and begin."""
        if self.running:
            return
        try:
            minutes = float(self.query_one(Input).value)
        except ValueError:
            minutes = 0.0
        if not LEAST_MINUTES <= minutes <= MOST_MINUTES:
            self._complain(UsageError(f"A search takes {LEAST_MINUTES:g} to {MOST_MINUTES} minutes: write how many."))
            return
        self.search = LiveSearch(self._models.setup, self._knobs(), minutes)
        self.show_result()
        self.run_worker(self._measure(self.search), group="measure")

    async def _measure(self, search: LiveSearch) -> None:
        if not self._models.measured:
            self._models.unload()
        while not self._models.unloaded:
            await asyncio.sleep(POLL_S)
        self.show_result()
        await asyncio.to_thread(search.run)

    def _look(self) -> None:
        """Show what is new: the search tells its thread's news by its attributes alone."""
        search = self.search
        news = search and (search.running, search.done, search.what, self._models.unloaded)
        if self.is_current and news != self._shown:
            self._shown = news
            self.show_result()

    def action_stop(self) -> None:
        """Stop the search and keep its results; if none is running, or it does not end, go back to the chat."""
        if self.search is None or not self.running or self.search.stops > 1:
            self.dismiss(None)
            return
        if not self._models.unloaded:  # it has not begun
            self.workers.cancel_group(self, "measure")
        self.search.stop()
        self.show_result()

    def show_result(self) -> None:
        """Show what was measured so far."""
        if not self.is_current:
            return
        search, result = self.search, self.query_one("#result", Label)
        self.query_one("#state", Label).update(self._state())
        lines = (
            search.lines(self.query_one(VerticalScroll).scrollable_content_region.width or 80)
            if search is not None
            else []
        )
        result.update("\n".join(lines))
        self.refresh_bindings()
        self.query_one(ActionLine).refresh()

    def _state(self) -> Content:
        """The progress of the search, and the actions on its results."""
        search = self.search
        if search is None:
            return Content(with_keys(self.app, BEGINS))
        if search.running and not self._models.unloaded:
            return Content("Freeing the models of the chat.")
        if search.running:
            stopping = with_keys(self.app, " Stopping: {measure.stop} ends it at once.") if search.stops else ""
            if not search.what:
                return Content(f"Loading the models for the measurement.{stopping}")
            return Content.assemble(
                gauge(search.done, _BAR),
                f" {search.done:4.0%}",
                (f"{stopping}  ", "bold"),
                (printable(search.what), MUTED),
            )
        if search.problem:
            return Content.styled(printable(search.problem), "$error")
        if not search.stops:
            first = "Done."
        elif search.summary is not None:
            first = "Stopped: what was measured is kept."
        else:
            first = "Stopped before anything was measured."
        return Content(with_keys(self.app, f"{first} {self._advice()}".strip()))

    # Results

    def _advice(self) -> str:
        winner = self.winner
        if winner is None:
            return ""
        name = printable(winner.label).replace("{", "(")
        return f"To use: {name}. {{measure.use}} uses it, {{measure.save}} saves it as a profile."

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are active only while their actions are possible."""
        if not super().check_action(action, parameters):
            return False
        match action:
            case "begin":
                return not self.running
            case "use":
                return self.winner is not None
            case "save":
                return self.winner is not None and self._profiles is not None
        return True

    def action_use(self) -> None:
        """Turn the chat's knobs to what is best."""
        if (winner := self.winner) is not None:
            self._use(replace(self._knobs(), **winner.knobs))
            self.notify(f"The chat goes on with this: {winner.label}.", markup=False)

    @work(exclusive=True)
    async def action_save(self) -> None:
        """Ask for a name, and save the pair with the chat's knobs and what is best under it."""
        from spectui.ui.dialogs.questions import profile_question

        winner, profiles = self.winner, self._profiles
        if winner is None or profiles is None:
            return
        try:
            name = await self.app.push_screen_wait(profile_question("", await asyncio.to_thread(profiles.names)))
            if name:
                knobs = replace(self._knobs(), **winner.knobs)
                await asyncio.to_thread(profiles.save, name, knobs, self._models.setup)
                self.notify(saved_profile(name), markup=False)
        except SpectuiError as error:
            self._complain(error)

    def action_scroll(self, by: int) -> None:
        """Scroll the results."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def _complain(self, error: Exception) -> None:
        self.notify(printable(str(error)), severity="error", markup=False)
