"""The command palette, for small windows and fast keys too."""

from __future__ import annotations

from textual import work
from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette


class Palette(CommandPalette):
    """Textual's palette without three faults that would end the program."""

    def _action_command_list(self, action: str) -> None:
        """Ignore page keys where the list has no height."""
        if self.query_one(CommandList).scrollable_content_region.height:
            super()._action_command_list(action)

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close once: a second Enter may come before the first has closed the palette."""
        return super().dismiss(result) if self.is_current else AwaitComplete.nothing()  # type: ignore[no-untyped-call]

    @work(exclusive=True, group=CommandPalette._GATHER_COMMANDS_GROUP, exit_on_error=False)
    async def _gather_commands(self, search_value: str) -> None:
        """Search. An error of a search that starts while the palette closes is ignored."""
        await CommandPalette._gather_commands.__wrapped__(self, search_value)  # type: ignore[attr-defined]
