"""The right side: from effect (figures) to lever (sliders, devices)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.containers import VerticalScroll

from spectui.knobs import Knobs, Setup, specs, title
from spectui.ui.dashboard import Dashboard
from spectui.ui.devices import DevicePane
from spectui.ui.slider import Slider

SLIDERS = ("draft_max", "draft_min", "p_min", "temperature")
"""The knobs that are worth a hand on them while a reply is written."""


class SidePanel(VerticalScroll, can_focus=False):
    """Figures, sliders and devices, scrolled together where the window is low."""

    ALLOW_MAXIMIZE: ClassVar[bool] = False

    def __init__(self, knobs: Knobs, setup: Setup, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._knobs = knobs
        self._setup = setup

    def compose(self) -> ComposeResult:
        """Sliders are made from the table of knobs."""
        yield Dashboard(id="dashboard")
        for key, default, spec in specs(Knobs):
            if key in SLIDERS and spec.low is not None and spec.high is not None and spec.step is not None:
                value = getattr(self._knobs, key)
                yield Slider(
                    key, title(key), value, low=spec.low, high=spec.high, step=spec.step, default=default,
                    id=f"slider-{title(key)}",
                )  # fmt: skip
        yield DevicePane(self._setup, id="devices")

    def show_knobs(self, knobs: Knobs) -> None:
        """Put every slider where its knob stands."""
        for slider in self.query(Slider):
            slider.value = getattr(knobs, slider.key)


def turned(knobs: Knobs, key: str, value: float) -> Knobs:
    """The knobs after one was turned. draft-min above draft-max would ignore every draft, so one drags the other."""
    change: dict[str, Any] = {key: value}
    knobs = replace(knobs, **change)
    if knobs.draft_min > knobs.draft_max:
        other = "draft_min" if key == "draft_max" else "draft_max"
        change = {other: value}
        knobs = replace(knobs, **change)
    return knobs
