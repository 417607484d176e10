"""The numbers behind the choice of devices, as flags: layers, cells, context, shares, threads. The models are loaded anew."""

from __future__ import annotations

from collections.abc import Sequence

from textual import work
from textual.timer import Timer
from textual.widgets import Label

from spectui.engine.loading.plan import PlanInWords
from spectui.errors import UsageError
from spectui.knobs import Setup
from spectui.llama.devices.records import MemoryUse
from spectui.profiles.setup_line import flags_of, with_flags
from spectui.ui.dialogs.questions import LineScreen

PLAN_AFTER_S = 0.5
"""Seconds after the last letter before it is planned what the models would take."""


class PlacementScreen(LineScreen):
    """Asks for flags. Says what is wrong with them, or what the models would take on each device."""

    def __init__(
        self,
        setup: Setup,
        plan: PlanInWords | None = None,
        loaded: Sequence[MemoryUse] = (),
        proposed: Setup | None = None,
    ) -> None:
        """`setup`: the loaded one; `plan` and `loaded` as in `ModelsScreen`; `proposed`: one whose flags are in the box."""
        now = flags_of(setup)
        super().__init__(
            f"Flags of the models: {now or 'none'}. Load them with:",
            flags_of(proposed, setup) if proposed is not None else "",
            verb="load", consequence=self.consequence, max_length=400,
            placeholder="-ngl 20 -c 8192 -ctk q8_0 -ctv q8_0 -ts 3,1",
        )  # fmt: skip
        self._setup = setup
        self._plan, self._loaded = plan, loaded
        self._planned: dict[Setup, str] = {}
        self._timer: Timer | None = None

    def consequence(self, line: str) -> str:
        """The plan for it, once it is made, or why the line cannot be."""
        if self._timer is not None:
            self._timer.stop()
        try:
            setup = with_flags(self._setup, line)
        except UsageError as error:
            return str(error)
        if self._plan is not None and setup not in self._planned:
            self._timer = self.set_timer(PLAN_AFTER_S, lambda: self._make_plan(line, setup))
        return self._planned.get(setup, "")

    def acceptable(self, line: str) -> bool:
        """Whether a set-up follows from it."""
        try:
            with_flags(self._setup, line)
        except UsageError:
            return False
        return True

    @work(thread=True, group="plan", exclusive=True)
    def _make_plan(self, line: str, setup: Setup) -> None:
        if self._plan is not None:
            plan = self._plan(setup, self._loaded)
            self.app.call_from_thread(self._show_plan, line, setup, plan)

    def _show_plan(self, line: str, setup: Setup, plan: str) -> None:
        self._planned[setup] = plan
        if self.line == line:
            self.query_one("#consequence", Label).update(plan)
