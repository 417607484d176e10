"""The right side: from effect (figures) to lever (sliders, devices)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll

from spectui.knobs import Knobs, Setup, spec_of, specs, title
from spectui.ui.dashboard import Dashboard
from spectui.ui.devices import DevicePane
from spectui.ui.slider import Slider
from spectui.ui.switch import Switch

SLIDERS = ("draft_max", "draft_min", "p_min", "temperature")
"""The knobs that are worth a hand on them while a reply is written."""

SWITCHES = ("policy", "drafter")
"""Those that are a word: what the sliders then refine."""


class SidePanel(VerticalScroll, can_focus=False):
    """Figures, sliders and devices, scrolled together where the window is low."""

    ALLOW_MAXIMIZE: ClassVar[bool] = False

    def __init__(self, knobs: Knobs, setup: Setup, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._knobs = knobs
        self._setup = setup

    def compose(self) -> ComposeResult:
        """Switches and sliders are made from the table of knobs."""
        yield Dashboard(id="dashboard")
        with Horizontal(id="switches"):
            for key in SWITCHES:
                value, spec = getattr(self._knobs, key), spec_of(Knobs, key)
                yield Switch(
                    key,
                    title(key),
                    value,
                    choices=spec.choices,
                    default=getattr(Knobs(), key),
                    id=f"switch-{title(key)}",
                )
        for key, default, spec in specs(Knobs):
            if key in SLIDERS and spec.low is not None and spec.high is not None and spec.step is not None:
                value = getattr(self._knobs, key)
                yield Slider(
                    key, title(key), value, low=spec.low, high=spec.high, step=spec.step, default=default,
                    id=f"slider-{title(key)}",
                )  # fmt: skip
        yield DevicePane(self._setup, id="devices")

    def on_mount(self) -> None:
        """Dim what has no effect from the start."""
        self.show_knobs(self._knobs)

    def show_knobs(self, knobs: Knobs) -> None:
        """Put every slider and switch where its knob stands, and dim those that have no effect now."""
        idle = without_effect(knobs)
        for slider in self.query(Slider):
            slider.value = getattr(knobs, slider.key)
            slider.set_class(slider.key in idle, "-idle")
        for switch in self.query(Switch):
            switch.value = getattr(knobs, switch.key)
            switch.set_class(switch.key in idle, "-idle")


def without_effect(knobs: Knobs) -> frozenset[str]:
    """The knobs that change nothing as the others stand: they can still be turned, but nobody should wait for it."""
    if knobs.drafter == "off":
        return frozenset(("policy", "draft_max", "draft_min", "p_min"))
    return {
        "auto": frozenset(("p_min",)),
        "profile": frozenset(("p_min", "draft_min")),
    }.get(knobs.policy, frozenset())


def turned(knobs: Knobs, key: str, value: float | str) -> Knobs:
    """The knobs after one was turned. draft-min above draft-max would ignore every draft, so one drags the other."""
    change: dict[str, Any] = {key: value}
    knobs = replace(knobs, **change)
    if knobs.draft_min > knobs.draft_max:
        other = "draft_min" if key == "draft_max" else "draft_max"
        change = {other: value}
        knobs = replace(knobs, **change)
    return knobs
