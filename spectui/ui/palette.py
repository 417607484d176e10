"""The command palette, in a window of any size."""

from __future__ import annotations

from textual.command import CommandList, CommandPalette


class Palette(CommandPalette):
    """Textual's own. Where its list has no room, a page turned in it would end the program."""

    def _action_command_list(self, action: str) -> None:
        if self.query_one(CommandList).scrollable_content_region.height:
            super()._action_command_list(action)
