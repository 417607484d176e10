"""The screen that the side panel belongs to: its pages, its levers, and what turning one of them does."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.screen import Screen

from spectui.chat.device_choice import pick
from spectui.chat.session import Session
from spectui.engine.protocol import Engine
from spectui.errors import SpectuiError
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.knobs import Knobs, Setup, spec_of, title
from spectui.ui.dashboard.devices import DevicePane
from spectui.ui.dashboard.panel import NO_PRESET, PAGES, SidePanel, turned
from spectui.ui.keys import spoken
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen.presets import PresetStore, SaveScreen
from spectui.ui.widgets.choice_row import ChoiceRow, next_choice
from spectui.ui.widgets.slider import Slider


class PanelScreen(Screen[None]):
    """Opens the panel, turns its pages, and hands its levers to the engine."""

    BINDING_GROUP_TITLE = "panel"
    # Priority, because the prompt's text area takes F6, F7 and Escape for itself.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f6", "panel", "Panel", id="panel", priority=True, tooltip="Show or hide figures, sliders and devices"),
        Binding("f7", "devices", "Devices", id="devices", priority=True, tooltip="Choose devices for the models"),
        Binding("f8", "switch('drafter')", "Drafter", id="drafter", show=False, priority=True,
                tooltip="Who drafts: turn on by one"),
        Binding("f9", "switch('policy')", "Policy", id="policy", show=False, priority=True,
                tooltip="How long drafts are: turn on by one"),
        Binding("f10,ctrl+t", "page(1)", "Page", id="page", priority=True, tooltip="See the panel's next page"),
        *(Binding(f"alt+{number}", f"show_page('{page}')", f"Page: {page}", id=f"page.{page.replace('/', '')}", show=False,
                  priority=True, tooltip="See this page of the panel") for number, page in enumerate(PAGES, 1)),
        Binding("alt+p", "next_preset", "Next preset", id="preset", show=False, priority=True,
                tooltip="Turn the knobs to the next preset of the configuration"),
        Binding("alt+s", "save_preset", "Save preset", id="save-preset", show=False, priority=True,
                tooltip="Keep the knobs in the configuration, under a name"),
        Binding("alt+0", "reset_knobs", "Reset knobs", id="reset", show=False, priority=True,
                tooltip="Turn every knob back to its default"),
    ]  # fmt: skip

    panel: SidePanel
    prompt: PromptInput

    def __init__(self, engine: Engine, session: Session) -> None:
        super().__init__()
        self.presets: PresetStore | None = None
        """Keeps knobs under names; None: nobody does."""
        self.shelf = ModelCatalogue()
        """The models to choose from."""
        self.engine = engine
        self.session = session
        self._preset_knobs: Knobs | None = None
        self._aside: Knobs | None = None  # a person's knobs, while the engine has those of a comparison

    @property
    def knobs(self) -> Knobs:
        """The knobs as a person has them."""
        return self.engine.knobs if self._aside is None else self._aside

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        if self._aside is None:
            self.engine.knobs = knobs
        else:
            self._aside = knobs
        self.panel.show_knobs(knobs)
        if knobs != self._preset_knobs:
            self.panel.preset.value = NO_PRESET

    def override_knobs(self, knobs: Knobs) -> None:
        """Let the engine have these until `return_knobs`; what is turned meanwhile acts afterwards."""
        self._aside = self.knobs
        self.engine.knobs = knobs

    def return_knobs(self) -> None:
        """Give the engine the person's knobs again."""
        if self._aside is not None:
            self.engine.knobs, self._aside = self._aside, None

    def load(self, setup: Setup) -> None:
        """Ask for these models, in place of what is loaded."""
        raise NotImplementedError

    @on(Slider.Changed)
    @on(ChoiceRow.Changed)
    def _turn(self, event: Slider.Changed | ChoiceRow.Changed) -> None:
        if event.control.key == "preset":
            self.use_preset(str(event.value))
        else:
            self.turn(event.control.key, event.value)

    def turn(self, key: str, value: float | str) -> None:
        """Set one knob; it acts from the next round on."""
        knobs = turned(self.knobs, key, value)
        if knobs != self.knobs:
            self.knobs = knobs

    # Presets

    def preset_names(self) -> list[str]:
        """The presets of the configuration; none, with a word about it, if it cannot be read."""
        try:
            return self.presets.names() if self.presets is not None else []
        except SpectuiError as error:
            self._complain(error)
            return []

    def use_preset(self, name: str) -> bool:
        """Turn the knobs that a preset sets. False, with a word about it, if they cannot be."""
        if self.presets is None or name == NO_PRESET:
            return False
        try:
            self.knobs = replace(self.knobs, **self.presets.load(name)).checked()
        except SpectuiError as error:
            self.panel.preset.value = NO_PRESET  # where a hand has turned it on already
            self._complain(error)
            return False
        self._show_preset(name)
        return True

    def action_next_preset(self) -> None:
        """Turn the knobs to the next preset."""
        names = self.preset_names()
        if not names:
            self.notify(spoken(self.app, "There is no preset yet: {save-preset} saves the knobs as one."), markup=False)
            return
        now = self.panel.preset.value
        name = next_choice(names, now) if now in names else names[0]
        if self.use_preset(name):
            self.notify(f"preset: {name}", timeout=2, markup=False)

    def action_save_preset(self) -> None:
        """Ask for a name and keep the knobs under it."""
        if self.presets is not None:
            now = self.panel.preset.value
            self.app.push_screen(SaveScreen("" if now == NO_PRESET else now, self.preset_names()), self._save_preset)

    def _save_preset(self, name: str | None) -> None:
        if not name or self.presets is None:
            return
        try:
            self.presets.save(name, self.knobs)
        except SpectuiError as error:
            self._complain(error)
        else:
            self._show_preset(name)
            self.notify(f"Saved: spectui chat -P {name} starts with it.", markup=False)

    def action_reset_knobs(self) -> None:
        """Turn every knob back to its default."""
        self.knobs = Knobs()

    def _show_preset(self, name: str) -> None:
        self.panel.preset.show_choices([NO_PRESET, *self.preset_names()], name)
        self._preset_knobs = self.knobs

    def _complain(self, error: SpectuiError) -> None:
        self.notify(str(error), severity="error", markup=False)

    @on(DevicePane.Picked)
    def _pick(self, event: DevicePane.Picked) -> None:
        setup = pick(self.session.setup, event.role, event.device, self.session.devices)
        if setup != self.session.setup:
            self.load(setup)
            self.panel.update_devices(self.session.devices, setup)

    def action_models(self) -> None:
        """Choose other models out of those that this machine has."""
        # What a key opens is imported then: the window stands sooner.
        from spectui.ui.dialogs.models import ModelsScreen

        def chosen(setup: Setup | None) -> None:
            if setup is not None:
                self.choose(setup)

        self.app.push_screen(ModelsScreen(self.shelf, self.session.setup), chosen)

    def choose(self, setup: Setup) -> None:
        """Load this set-up's target and draft."""
        self.load(replace(self.session.setup, model=setup.model, draft=setup.draft))

    def action_switch(self, key: str) -> None:
        """Turn a switch on by one, and say so where the panel is hidden."""
        value = next_choice(spec_of(Knobs, key).choices, getattr(self.knobs, key))
        self.turn(key, value)
        if not self.panel.display:
            self.notify(f"{title(key)}: {value}", timeout=2, markup=False)

    def action_panel(self) -> None:
        """Show or hide the panel; in a narrow window it is a drawer over the transcript."""
        narrow = self.has_class("-narrow")
        self.toggle_class("-drawer" if narrow else "-no-panel")
        if not (narrow and self._panel_is_open and self.panel.focus_page()):
            self.prompt.focus()

    def action_page(self, by: int) -> None:
        """See the next page of the panel, opening it where it is hidden."""
        if self._open_panel():
            self.show_page(next_choice(tuple(PAGES), self.panel.page, by))
        else:
            self.panel.focus_page()

    def action_show_page(self, page: str) -> None:
        """See this page of the panel, by its key, and with that of the knobs have a hand on the first."""
        self.show_page(page)
        if page == "knobs":
            self.panel.focus_page()

    def show_page(self, page: str) -> None:
        """See this page of the panel."""
        if page == "knobs":
            preset = self.panel.preset
            preset.show_choices([NO_PRESET, *self.preset_names()], preset.value)
        self._open_panel()
        self.panel.show_page(page)
        if not self.prompt.has_focus or self.has_class("-drawer"):
            self.panel.focus_page()

    def show_slider(self, key: str) -> None:
        """Put a hand on this knob's slider: arrows turn it, a number can be typed."""
        self.show_page("knobs")
        self.panel.sliders[key].focus()

    def action_devices(self) -> None:
        """Go to the devices, opening the panel where it is hidden."""
        self._open_panel()
        self.panel.show_page("machine")
        self.panel.devices.focus()

    def _open_panel(self) -> bool:
        """Show the panel if it is hidden. Returns whether it was there."""
        was_there = self._panel_is_open
        if self.has_class("-narrow"):
            self.add_class("-drawer")
        else:
            self.remove_class("-no-panel")
        return was_there

    @property
    def _panel_is_open(self) -> bool:
        return self.has_class("-drawer") if self.has_class("-narrow") else not self.has_class("-no-panel")
