"""The side panel on the screen: beside the chat, over it, or hidden; and its page."""

from __future__ import annotations

from spectui.ui.dashboard.panel import NO_PROFILE
from spectui.ui.screen.controls import Controls
from spectui.ui.screen.view import ChatView
from spectui.ui.widgets.choice_row import next_choice


class PanelPages:
    """Opens the panel and turns its pages."""

    def __init__(self, view: ChatView, controls: Controls) -> None:
        self._screen = view.screen
        self._panel = view.panel
        self._prompt = view.prompt
        self._controls = controls

    @property
    def is_open(self) -> bool:
        """The panel is visible."""
        screen = self._screen
        return screen.has_class("-overlay") if screen.has_class("-narrow") else not screen.has_class("-no-panel")

    def open(self) -> bool:
        """Show the panel if it is hidden. Returns whether it was visible."""
        was_there = self.is_open
        if self._screen.has_class("-narrow"):
            self._screen.add_class("-overlay")
        else:
            self._screen.remove_class("-no-panel")
        return was_there

    def toggle(self) -> None:
        """Show or hide the panel. In a narrow window it covers the transcript."""
        self._screen.toggle_class("-overlay" if self._screen.has_class("-narrow") else "-no-panel")
        self._prompt.focus()

    def turn(self, by: int) -> None:
        """Show the next page of the panel; open the panel if it is hidden."""
        if self.open():
            self.show(next_choice(self._panel.names, self._panel.page, by))

    def show(self, page: str) -> None:
        """Show this page of the panel."""
        panel = self._panel
        if page == "settings":
            panel.profile.show_choices([NO_PROFILE, *self._controls.profile_names()], panel.profile.value)
        self.open()
        panel.show_page(page)
        if not self._prompt.has_focus:
            panel.focus_page()

    def show_by_key(self, page: str) -> None:
        """Show this page. One that arrows do most on gets the focus."""
        self.show(page)
        if page in ("rounds", "settings"):
            self._panel.focus_page()

    def show_slider(self, key: str) -> None:
        """Focus this knob's slider: arrows turn it, a number can be typed."""
        self.show("settings")
        self._panel.sliders[key].focus()

    def show_devices(self) -> None:
        """Focus the devices; open the panel if it is hidden."""
        self.open()
        self._panel.show_page("machine")
        self._panel.devices.focus()
