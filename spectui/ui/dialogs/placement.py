"""The numbers behind the choice of devices, as flags, and what they would take there. The models are loaded anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from textual.screen import Screen
from textual.timer import Timer

from spectui.knobs import Setup
from spectui.profiles.setup_line import flags_of, with_flags
from spectui.ui.dialogs.questions import LineScreen

PLAN_AFTER_S = 0.3
"""Seconds that a set-up stays chosen before its plan is made."""


class Plans:
    """Makes each plan once, in a thread beside the dialog."""

    def __init__(self, dialog: Screen[Any], make: Callable[[Setup], str], show: Callable[[], object]) -> None:
        """`make` makes a plan in words, and `show` is called when one is there."""
        self._dialog = dialog
        self._make = make
        self._show = show
        self._made: dict[Setup, str] = {}
        self._wanted: Setup | None = None
        self._timer: Timer | None = None

    def of(self, setup: Setup | None) -> str:
        """The plan for what is chosen now; "" until it is made, and where nothing is."""
        if setup != self._wanted:
            self._wanted = setup
            if self._timer is not None:
                self._timer.stop()
            if setup is not None and setup not in self._made:
                self._timer = self._dialog.set_timer(PLAN_AFTER_S, lambda: self._dialog.run_worker(self._add(setup)))
        return self._made.get(setup, "") if setup is not None else ""

    async def _add(self, setup: Setup) -> None:
        self._made[setup] = await asyncio.to_thread(self._make, setup)
        self._show()


class PlacementScreen(LineScreen):
    """Asks for flags. Says what is wrong with them, or what the models would take on each device."""

    def __init__(self, setup: Setup, plan: Callable[[Setup], str], proposed: Setup | None = None) -> None:
        """`setup`: the loaded one; `plan` as in `ModelsScreen`; `proposed`: one whose flags are in the box."""
        now = flags_of(setup)
        plans = Plans(self, plan, self.say)
        super().__init__(
            f"Flags of the models: {now or 'none'}. Load them with:",
            flags_of(proposed, setup) if proposed is not None else "",
            verb="load", consequence=lambda line: plans.of(with_flags(setup, line)), max_length=400,
            placeholder="-ngl 20 -c 8192 -ctk q8_0 -ctv q8_0 -ts 3,1",
        )  # fmt: skip
