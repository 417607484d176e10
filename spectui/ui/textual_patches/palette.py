"""The command palette, for small windows and fast keys too."""

from __future__ import annotations

from textual.command import CommandList, CommandPalette

from spectui.ui.textual_patches.screen import Leavable


class Palette(Leavable, CommandPalette):
    """Textual's palette without three faults that would end the program: a second Enter, a search that begins while it closes,
    and page keys in a small window.
    """

    def _action_command_list(self, action: str) -> None:
        """Ignore page keys where the list has no height."""
        if self.query_one(CommandList).scrollable_content_region.height:
            super()._action_command_list(action)
