"""Measuring from the window. The models of the chat are freed meanwhile, since a process of its own loads them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label
from textual.worker import get_current_worker

from spectui.chat.models import LoadedModels
from spectui.chat.sentences import saved_profile
from spectui.errors import SpectuiError, UsageError
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.gguf_files.compatibility import smaller_drafts
from spectui.knobs import Knobs
from spectui.measure.live.command import MEASUREMENTS, arguments, compared, in_short
from spectui.measure.live.process import MeasurementProcess
from spectui.measure.live.view import View, Winner
from spectui.measure.progress import duration
from spectui.profiles.file import ProfileFile
from spectui.text import printable
from spectui.ui.dashboard.page_bar import PageBar
from spectui.ui.figures import MUTED
from spectui.ui.keys import spoken
from spectui.ui.measuring.result import ResultPane
from spectui.ui.widgets.actions import ActionLine
from spectui.ui.widgets.choice_row import next_choice
from spectui.ui.widgets.line_widget import gauge

LOOK_S = 0.2
"""Seconds between two looks at what the measurement tells."""

DRAFTS = 4
"""Drafts that a comparison proposes."""

_BAR = 20


class MeasureScreen(ModalScreen[str | None]):
    """Runs one measurement at a time, and shows its table and its chart as they grow. Answers with a draft to load, or None."""

    BINDING_GROUP_TITLE = "measuring"
    # Priority, because the box of the options has the focus.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "begin", "Begin", id="measure.begin", priority=True, tooltip="Begin this measurement"),
        Binding("escape", "stop", "Stop, back", id="measure.stop", priority=True,
                tooltip="Stop and keep what was measured; then back to the chat, which loads its models again"),
        Binding("tab", "choose", "Next", id="measure.next", priority=True, tooltip="Another measurement"),
        Binding("alt+u", "use", "Use", id="measure.use", priority=True, tooltip="Use the fastest in the chat"),
        Binding("alt+s", "save", "Save", id="measure.save", priority=True, tooltip="Save the fastest as a profile"),
        Binding("up", "scroll(-1)", "Up", id="measure.up", priority=True, show=False),
        Binding("down", "scroll(1)", "Down", id="measure.down", priority=True, show=False),
        Binding("pageup", "scroll(-8)", "Page up", id="measure.page-up", priority=True, show=False),
        Binding("pagedown", "scroll(8)", "Page down", id="measure.page-down", priority=True, show=False),
    ]  # fmt: skip
    AUTO_FOCUS = "Input"
    DEFAULT_CSS = """
    MeasureScreen {
        background: $background;
        #kinds { margin: 0 1; }
        #purpose, #state { margin: 0 1; width: 1fr; }
        #purpose { height: 1; color: $foreground 70%; }
        #state { height: auto; max-height: 3; }
        #command { height: 1; margin: 0 1; }
        #typed { width: auto; max-width: 50%; color: $foreground 60%; text-wrap: nowrap; text-overflow: ellipsis; }
        Input, Input:focus { border: none; height: 1; padding: 0; margin: 0 0 0 1; width: 1fr; background: $foreground 10%; }
        ActionLine { margin: 0 1; }
        VerticalScroll { height: 1fr; margin: 1 1 0 1; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    }
    """

    def __init__(
        self,
        models: LoadedModels,
        knobs: Callable[[], Knobs],
        use: Callable[[Knobs], None],
        catalogue: ModelCatalogue,
        profiles: ProfileFile | None,
        results: dict[str, View],
    ) -> None:
        """`knobs`: those of the chat now. `use` turns them. `results`: what was measured last, by the
        measurement's name; it outlives the page.
        """
        super().__init__()
        self._models, self._knobs, self._use, self._catalogue, self._profiles = models, knobs, use, catalogue, profiles
        self._results = results
        self._measurement = MEASUREMENTS[0]
        self._options = {each.name: each.options for each in MEASUREMENTS}
        self._asked: tuple[str, ...] | None = None  # the command that waits until the models are freed
        self._process: MeasurementProcess | None = None
        self._measured = self._measurement  # by the process
        self._seen = -1
        self._draft: str | None = None  # to be loaded on the way back

    def compose(self) -> ComposeResult:
        """The measurements, the chosen one's command, how far it is, and what was found."""
        yield PageBar([each.name for each in MEASUREMENTS], id="kinds")
        yield Label("", id="purpose", markup=False)
        with Horizontal(id="command"):
            yield Label("", id="typed", markup=False)
            yield Input()
        yield Label("", id="state", markup=False)
        with VerticalScroll(can_focus=False):
            yield ResultPane()
        yield ActionLine(
            [("begin", "begin"), ("stop, back", "stop"), ("next", "choose"), ("use", "use"), ("save", "save")]
        )

    def on_mount(self) -> None:
        """Look for drafts to compare, and show what was measured before."""
        self._find_drafts()
        self._show_measurement()
        self.set_interval(LOOK_S, self._look)

    def on_unmount(self) -> None:
        """A measurement ends with the page, however that is closed."""
        if self._process is not None:
            self._process.close()

    def on_resize(self) -> None:
        """Fit the chart to the room."""
        self.call_after_refresh(self._show_result)

    @property
    def running(self) -> bool:
        """A measurement goes on, or waits for the memory of the chat's models."""
        return self._asked is not None or (self._process is not None and self._process.running)

    # Choosing

    @on(PageBar.Chosen)
    def _click(self, event: PageBar.Chosen) -> None:
        self._choose(event.page)

    def action_choose(self) -> None:
        """Choose the next measurement."""
        self._choose(next_choice([each.name for each in MEASUREMENTS], self._measurement.name))

    def _choose(self, name: str) -> None:
        if self.running:
            self.notify(
                spoken(self.app, "{measure.stop} stops this measurement first."), severity="warning", markup=False
            )
            return
        self._options[self._measurement.name] = self.query_one(Input).value
        self._measurement = next(each for each in MEASUREMENTS if each.name == name)
        self._show_measurement()

    def _show_measurement(self) -> None:
        measurement = self._measurement
        self.query_one("#kinds", PageBar).show_pages((measurement.name,))
        self.query_one("#purpose", Label).update(measurement.purpose)
        self.query_one("#typed", Label).update(printable(in_short(measurement, self._models.setup)))
        box = self.query_one(Input)
        box.value = self._options[measurement.name]
        box.cursor_position = len(box.value)
        self._show_result()

    @work(thread=True)
    def _find_drafts(self) -> None:
        """The loaded draft, and smaller models of the target's vocabulary, for `compare`."""
        worker, setup = get_current_worker(), self._models.setup
        beside = [Path(path).expanduser() for path in (setup.model, setup.draft) if path]
        headers = list(self._catalogue.scan(beside, lambda: worker.is_cancelled))
        path = str(Path(setup.model or "").expanduser().absolute())
        target = next((header for header in headers if header.path == path), None)
        found = [] if target is None else [header.path for header in smaller_drafts(target, headers)]
        drafts = list(dict.fromkeys([*filter(None, (setup.draft,)), *found]))[:DRAFTS]
        if not worker.is_cancelled and drafts:
            self.app.call_from_thread(self._propose, compared(drafts))

    def _propose(self, options: str) -> None:
        last = MEASUREMENTS[-1]
        box = self.query_one(Input)
        chosen = self._measurement is last
        if (box.value if chosen else self._options[last.name]) == last.options:  # nobody has changed it yet
            self._options[last.name] = options
            if chosen:
                box.value = options

    # Measuring

    def action_begin(self) -> None:
        """Free the chat's models, and begin."""
        if self.running:
            return
        options = self.query_one(Input).value
        try:
            self._asked = arguments(self._measurement, self._models.setup, self._knobs(), options)
        except UsageError as error:
            self._complain(error)
            return
        self._options[self._measurement.name] = options
        self._process, self._measured = None, self._measurement
        self._results.pop(self._measurement.name, None)
        if self._models.state != "measuring":
            self._models.unload()
        self._look()
        self._show_result()

    def action_stop(self) -> None:
        """Stop what is measured and keep it; with nothing going on, go back to the chat."""
        if self._asked is not None:
            self._asked = None
            self._show_result()
        elif self._process is not None and self._process.running:
            self._process.stop()
        else:
            self.dismiss(self._draft)

    def _look(self) -> None:
        """Begin as soon as the models are freed; show what is new."""
        if self._asked is not None and self._models.unloaded:
            self._process, self._asked, self._seen = MeasurementProcess(self._asked), None, -1
        process = self._process
        if process is not None and process.changes != self._seen:
            self._seen = process.changes
            self._results[self._measured.name] = process.view
            self._show_result()

    def _show_result(self) -> None:
        process = self._process if self._measurement is self._measured else None
        state = self.query_one("#state", Label)
        state.update(self._state())
        view = self._results.get(self._measurement.name, View())
        notices = () if process is None or _failed(process) else process.notices
        room = self.query_one(VerticalScroll).size.height
        self.query_one(ResultPane).show(view, tuple(map(printable, notices)), room)
        self.refresh_bindings()
        self.query_one(ActionLine).refresh()

    def _state(self) -> Content:
        """How far the measurement is, and what can be done with what it found."""
        process = self._process if self._measurement is self._measured else None
        if self._asked is not None:
            return Content("Freeing the models of the chat.")
        if process is not None and process.running:
            progress = process.progress
            if progress is None:
                return Content("Loading the models for the measurement.")
            left = "" if progress.left_s is None else f"  {duration(progress.left_s)} left"
            stopping = "  stopping" if process.stopped else ""
            return Content.assemble(
                gauge(progress.done, _BAR),
                f" {progress.done:4.0%}",
                (f"{left}{stopping}  ", "bold"),
                (printable(progress.what), MUTED),
            )
        if process is None:
            first = (
                ""
                if self._winner
                else "{measure.begin} begins. The chat's models are freed meanwhile, and loaded again."
            )
        elif _failed(process):
            words = (
                printable(process.notices[-1])
                if process.notices
                else f"The measurement ended with code {process.code}."
            )
            return Content.styled(words, "$error")
        elif process.stopped:
            resume = " spectui bench --resume goes on with it." if self._measured is MEASUREMENTS[0] else ""
            kept = f"Stopped: what was measured is kept.{resume}"
            first = kept if process.view.rows else "Stopped before anything was measured."
        else:
            first = "Done."
        return Content(spoken(self.app, f"{first} {self._advice()}".strip()))

    # What was found

    @property
    def _winner(self) -> Winner | None:
        view = self._results.get(self._measurement.name)
        return view.winner if view is not None and not self.running else None

    def _advice(self) -> str:
        winner = self._winner
        if winner is None:
            return ""
        name = printable(winner.label).replace("{", "(")
        if winner.draft is not None:
            return f"Best draft: {name}. {{measure.use}} loads it."
        return f"Fastest: {name}. {{measure.use}} uses it, {{measure.save}} saves it as a profile."

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are shown only while they can do something."""
        match action:
            case "begin" | "choose":
                return not self.running
            case "use":
                return self._winner is not None
            case "save":
                return self._winner is not None and bool(self._winner.knobs) and self._profiles is not None
        return True

    def action_use(self) -> None:
        """Turn the chat's knobs to the fastest setting, or load the best draft on the way back."""
        winner = self._winner
        if winner is None:
            return
        if winner.draft is not None:
            self._draft = winner.draft
            self.notify(f"{winner.label} drafts as soon as you are back in the chat.", markup=False)
        else:
            self._use(replace(self._knobs(), **winner.knobs))
            self.notify(f"The chat drafts with {winner.label} now.", markup=False)

    @work(exclusive=True)
    async def action_save(self) -> None:
        """Ask for a name, and save the chat's knobs with the fastest setting under it."""
        from spectui.ui.dialogs.profile_name import SaveScreen

        winner, profiles = self._winner, self._profiles
        if winner is None or profiles is None:
            return
        try:
            name = await self.app.push_screen_wait(SaveScreen("", await asyncio.to_thread(profiles.names)))
            if name:
                await asyncio.to_thread(profiles.save, name, replace(self._knobs(), **winner.knobs))
                self.notify(saved_profile(name), markup=False)
        except SpectuiError as error:
            self._complain(error)

    def action_scroll(self, by: int) -> None:
        """Scroll what was found."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def _complain(self, error: Exception) -> None:
        self.notify(printable(str(error)), severity="error", markup=False)


def _failed(process: MeasurementProcess) -> bool:
    return not process.running and process.code != 0 and not process.stopped
