"""The right side: figures, and what can be turned (sliders, devices)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set
from dataclasses import replace
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Label

from spectui.chat.figures.records import Figures
from spectui.chat.session import ChatSession
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup, spec_of, specs, title
from spectui.telemetry.monitor import Telemetry
from spectui.text import printable
from spectui.ui.dashboard.machine import MINUTES, DevicePane, MachinePage
from spectui.ui.dashboard.reply import DetailsPage, NowPage
from spectui.ui.dashboard.rounds import RoundsPage
from spectui.ui.widgets.lines import MUTED
from spectui.ui.widgets.rows import ActionLine, ChoiceRow, KnobRow, Slider, next_choice

SLIDERS = ("draft_max", "draft_min", "p_min", "temperature")
"""The knobs that are often changed while a reply is written: those that have an effect are on the first page too."""

CHOICES = ("policy", "drafter", "context_full")
"""The knobs that are words. The last one is on the page of settings alone."""


_LABELS = {
    "repeat_penalty": "repetition", "presence_penalty": "presence", "frequency_penalty": "frequency",
    "reasoning_budget": "thinking", "context_full": "when full",
}  # fmt: skip
"""In place of names that are too long for a row."""

NO_PROFILE = "–"

PAGES: dict[str, tuple[str, ...]] = {
    "now": ("now", "choices", "sliders", "devices"),
    "rounds": ("rounds",),
    "details": ("details",),
    "machine": ("machine", "devices"),
    "settings": ("choices", "sliders", "context", "choice-context-full", "profile", "actions", "about"),
}
"""The ids of each page's parts."""

USUAL_CONTEXT = 131_072
"""Tokens up to which the context's slider goes where it is not known for how many a model was trained."""


class PageNames(Label):
    """The names of the pages. A click opens one."""

    ALLOW_SELECT: ClassVar[bool] = False
    auto_links = reactive(False)  # no underlining


class SidePanel(VerticalScroll, can_focus=False):
    """Shows one page at a time. What can be turned is drawn as the session has it."""

    ALLOW_MAXIMIZE: ClassVar[bool] = False

    def __init__(self, session: ChatSession, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.page = "now"
        """The page that is seen."""
        self._session = session
        self._idle: Set[str] = frozenset()
        self._past: deque[Telemetry] = deque(maxlen=60 * MINUTES)
        self.rounds = RoundsPage(id="rounds")
        self.machine = MachinePage(session.models, self._past, id="machine")
        self.devices = DevicePane(session.models, self._past, id="devices")
        self.profile = ChoiceRow("profile", "profile", NO_PROFILE, choices=(NO_PROFILE,), default=NO_PROFILE, id="profile")
        self._pages = (NowPage(id="now"), self.rounds, DetailsPage(id="details"), self.machine)
        # Choices and sliders are made from the table of knobs.
        rows, self.sliders = dict[str, ChoiceRow](), dict[str, Slider]()
        for key, default, spec in specs(Knobs):
            label, value = _LABELS.get(key, title(key)), getattr(session.knobs, key)
            if key in CHOICES:
                more = {"id": f"choice-{title(key)}", "about": spec.help}
                rows[key] = ChoiceRow(key, label, value, choices=spec.choices, default=default, **more)
            elif spec.step is not None:
                self.sliders[key] = Slider(key, label, value, spec, default=default, id=f"slider-{title(key)}")
        spec, tokens = spec_of(Setup, "ctx_size"), session.setup.ctx_size
        spec = replace(spec, high=USUAL_CONTEXT, step=1024, help=f"{spec.help}; Enter loads the models with it")
        self.context = Slider("ctx_size", "context", tokens, spec, default=tokens, id="context")
        """Acts when models are loaded."""
        self.about = Label("", id="about", markup=False)
        """A line about the control that has the focus."""
        self._controls: tuple[KnobRow, ...] = (*rows.values(), *self.sliders.values())
        self._names = PageNames("", id="pages", markup=False)
        actions = ("save", "run('save-profile')"), ("next profile", "run('profile')"), ("reset all", "run('reset')")
        self._parts: tuple[Widget, ...] = (
            *self._pages,
            Horizontal(*(rows[key] for key in CHOICES[:-1]), id="choices"),
            Vertical(*(self.sliders[key] for key in SLIDERS), id="sliders"),
            self.context,
            rows[CHOICES[-1]],
            self.profile,
            ActionLine(actions, id="actions"),
            self.about,
            self.devices,
        )
        self._dim()

    def compose(self) -> ComposeResult:
        """The parts that are seen first. The others follow after the first frame, since they take a twentieth of the start."""
        yield self._names
        yield from (part for part in self._parts if part is self.devices or not _is_off(part))
        self.call_after_refresh(self._compose_rest)

    def _compose_rest(self) -> None:
        if self.is_attached:  # the window may be closed already
            self.query_one("#sliders").mount(*(each for key, each in self.sliders.items() if key not in SLIDERS))
            self.mount(*(part for part in self._parts if not part.is_attached), before=self.devices)

    # Pages

    def show_page(self, page: str) -> None:
        """Show this page."""
        self.page = page
        self._show_parts()
        self._keep_focus(self.focus_page)

    def open(self) -> bool:
        """Show it if it is hidden: in a narrow window it lies over the chat, when asked for. Returns whether it was visible."""
        narrow = self.screen.has_class("-narrow")
        was_there = narrow == self.screen.has_class("-overlay" if narrow else "-no-panel")
        if not was_there:
            self.screen.toggle_class("-overlay" if narrow else "-no-panel")
        return was_there

    def toggle(self) -> None:
        """Show or hide it."""
        self.screen.toggle_class("-overlay" if self.screen.has_class("-narrow") else "-no-panel")
        self._focus_prompt()

    def turn(self) -> None:
        """Open the next page; if the panel is hidden, the present one."""
        if self.open():
            self.open_page(next_choice(tuple(PAGES), self.page))

    def open_page(self, page: str, *, focus: bool = False) -> None:
        """Show this page, and the panel if it is hidden. It gets the focus unless the prompt has it, or if it is to `focus`."""
        if page == "settings":
            self._show_profile()
        self.open()
        self.show_page(page)
        if focus or not self.screen.query_one("#prompt").has_focus:
            self.focus_page()

    def open_knob(self, key: str) -> None:
        """Focus this knob: arrows turn it, a slider's number can be typed."""
        self.open_page("settings")
        knob = next(control for control in self._controls if control.key == key)
        if knob.is_attached:  # else it would take the keys from the window, too
            self.screen.set_focus(knob)

    def open_devices(self) -> None:
        """Focus the devices."""
        self.open_page("machine")
        self.screen.set_focus(self.devices)

    def _focus_prompt(self) -> None:
        self.screen.set_focus(self.screen.query_one("#prompt"))

    def _keep_focus(self, elsewhere: Callable[[], bool] = lambda: False) -> None:
        """Focus something else, or the prompt, if what has the focus is not seen any more. Textual would focus a neighbour that
        is hidden too, or nothing: typed text would then change knobs."""
        focused = self.screen.focused if self.is_attached else None
        if focused is not None and self in focused.ancestors and _is_off(focused) and not elsewhere():
            self._focus_prompt()

    def _show_parts(self) -> None:
        for part in self._parts:
            not_here = part is self.devices and bool(self._session.setup.server)
            _mark(part, part.id not in PAGES[self.page] or not_here, "-off")
        looks = ((page, "bold reverse" if page == self.page else MUTED) for page in PAGES)
        names = (Content.styled(page, f"{look} @click=screen.run('page.{page}')") for page, look in looks)
        self._names.update(Content("  ").join(names), layout=False)
        for control in self._controls:
            first = control.key in (*SLIDERS, *CHOICES) and control.key not in self._idle
            if control.key != CHOICES[-1]:
                _mark(control, self.page != "settings" and not first, "-off")

    def on_hide(self) -> None:
        """Focus the prompt when a narrow window hides the panel."""
        if self.screen.focused is not None and self in self.screen.focused.ancestors:
            self._focus_prompt()

    def focus_page(self) -> bool:
        """Focus the first knob, list or chart of the page. False if it has none."""
        for part in (self.rounds, *self.sliders.values(), self.devices):
            if part.is_attached and not _is_off(part):
                self.screen.set_focus(part, scroll_visible=False)
                return True
        return False

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Say what the control is that has the focus."""
        if isinstance(event.widget, KnobRow):
            self.about.update(event.widget.about)

    # What it shows

    def update_figures(self, figures: Figures) -> None:
        """Give the figures to all pages. Those that are seen draw them."""
        for page in self._pages:
            page.update_figures(figures)

    def update_telemetry(self, telemetry: Telemetry) -> None:
        """Show the monitor's latest reading. The same reading counts once."""
        if not self._past or self._past[-1] is not telemetry:
            self._past.append(telemetry)
            self.machine.redraw()
            self.devices.redraw()

    def show_knobs(self) -> None:
        """Show the knobs' values and the profile that they are of, and dim knobs without effect."""
        for control in self._controls:
            control.value = getattr(self._session.knobs, control.key)
        if self.profile.value != (self._session.user_knobs.profile or NO_PROFILE):
            self._show_profile()
        self._dim()

    def show_models(self) -> None:
        """Show the devices and the context as the models have them, or as they were picked; and what Delete goes back to."""
        models, defaults = self._session.models, self._session.user_knobs.defaults
        setup, target = self.devices.picked or models.setup, models.target
        self.context.default = models.setup.ctx_size
        self.context.high = max((target.trained_ctx if target is not None else 0) or USUAL_CONTEXT, setup.ctx_size)
        self.context.value = setup.ctx_size
        for key, slider in self.sliders.items():
            slider.default = slider.validate_value(getattr(defaults, key))
            slider.refresh()
        self.context.refresh()
        self.devices.show()
        self.machine.redraw()
        self.show_knobs()

    def _show_profile(self) -> None:
        self.profile.show_choices([NO_PROFILE, *self.profile_names()], self._session.user_knobs.profile or NO_PROFILE)

    def profile_names(self) -> list[str]:
        """The profiles of the configuration; none, with a notice, if it cannot be read."""
        try:
            return self._session.user_knobs.profiles.names()
        except SpectuiError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
            return []

    def _dim(self) -> None:
        self._idle = without_effect(self._session.knobs) | self._session.models.fixed.keys()
        for control in (*self._controls, self.context):
            _mark(control, control.key in self._idle, "-idle")
        self._show_parts()
        self._keep_focus()


def _mark(part: Widget, add: bool, name: str) -> None:
    """Add or remove a part's class. A part that is not mounted is styled later."""
    part.set_class(add, name, update=part.is_attached)


def _is_off(part: Widget) -> bool:
    return any(each.has_class("-off") for each in part.ancestors_with_self)


def without_effect(knobs: Knobs) -> frozenset[str]:
    """The knobs that have no effect with the present values of the others. They can still be changed."""
    if knobs.drafter == "off":
        return frozenset(("policy", "draft_max", "draft_min", "p_min"))
    return {"auto": frozenset(("p_min",)), "expected": frozenset(("p_min", "draft_min"))}.get(knobs.policy, frozenset())


def turned(knobs: Knobs, key: str, value: float | str) -> Knobs:
    """The knobs with one changed. draft-min never exceeds draft-max, which would ignore every draft: one moves the other."""
    change: dict[str, Any] = {key: value}
    knobs = replace(knobs, **change)
    if knobs.draft_min > knobs.draft_max:
        other = "draft_min" if key == "draft_max" else "draft_max"
        change = {other: value}
        knobs = replace(knobs, **change)
    return knobs
