"""The numbers behind the choice of devices, as flags: layers, cells, context, shares, threads. The models are loaded anew."""

from __future__ import annotations

from collections.abc import Callable

from spectui.errors import UsageError
from spectui.knobs import Setup
from spectui.profiles.setup_line import flags_of, with_flags
from spectui.ui.dialogs.plans import Plans
from spectui.ui.dialogs.questions import LineScreen


class PlacementScreen(LineScreen):
    """Asks for flags. Says what is wrong with them, or what the models would take on each device."""

    def __init__(self, setup: Setup, plan: Callable[[Setup], str], proposed: Setup | None = None) -> None:
        """`setup`: the loaded one; `plan` as in `ModelsScreen`; `proposed`: one whose flags are in the box."""
        now = flags_of(setup)
        super().__init__(
            f"Flags of the models: {now or 'none'}. Load them with:",
            flags_of(proposed, setup) if proposed is not None else "",
            verb="load", consequence=self.consequence, max_length=400,
            placeholder="-ngl 20 -c 8192 -ctk q8_0 -ctv q8_0 -ts 3,1",
        )  # fmt: skip
        self._setup = setup
        self._plans = Plans(self, plan, self.say)

    def consequence(self, line: str) -> str:
        """The plan for it, once it is made, or why the line cannot be."""
        try:
            setup = with_flags(self._setup, line)
        except UsageError as error:
            return str(error)
        return self._plans.of(setup)

    def acceptable(self, line: str) -> bool:
        """Whether a set-up follows from it."""
        try:
            with_flags(self._setup, line)
        except UsageError:
            return False
        return True
