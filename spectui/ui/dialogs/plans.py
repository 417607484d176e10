"""What the set-ups that a dialog proposes would take on the devices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from textual.screen import Screen
from textual.timer import Timer

from spectui.knobs import Setup

PLAN_AFTER_S = 0.3
"""Seconds that a set-up stays chosen before its plan is made."""


class Plans:
    """Makes each plan once, in a thread beside the dialog."""

    def __init__(self, dialog: Screen[Any], make: Callable[[Setup], str], show: Callable[[], None]) -> None:
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
