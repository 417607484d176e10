"""The keys on the window's last line: as many as it has whole room for, those that matter most first."""

from __future__ import annotations

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

AROUND = 3
"""Blanks of a key: before it, behind it, and behind what it does."""

PALETTE_EDGE = 2
"""What the palette's key has besides, at the right: a line and a blank."""


class KeyLine(Footer):
    """Textual's footer, but no key is cut: one that does not fit is left out, with all that come after it."""

    _width = 0  # for which the keys were chosen
    _chosen_from: list[tuple[Binding, bool]] | None = None

    def compose(self) -> ComposeResult:
        """The keys that fit, and the palette's at the right where it leaves room for any."""
        keys = [key for key in super().compose() if isinstance(key, FooterKey)]
        palette = keys.pop() if keys and keys[-1].has_class("-command-palette") else None
        self._width = room = self.screen.size.width
        self._chosen_from = self._to_choose_from() if keys else None
        if palette is not None and keys:
            if _cells(keys[0]) + _cells(palette) + PALETTE_EDGE <= room:
                room -= _cells(palette) + PALETTE_EDGE
            else:
                palette = None
        for key in keys:
            room -= _cells(key)
            if room < 0:
                break
            key.set_reactive(FooterKey.compact, self.compact)  # Textual would style each twice more on the way to it
            yield key
        if palette is not None:
            yield palette

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Choose anew where there are others to choose from. Textual would each time, for what ten frames cost."""
        if self._to_choose_from() != self._chosen_from:
            super().bindings_changed(screen)

    def _to_choose_from(self) -> list[tuple[Binding, bool]]:
        return [(each.binding, each.enabled) for each in self.screen.active_bindings.values() if each.binding.show]

    def on_resize(self, event: events.Resize) -> None:
        """Choose anew for another width."""
        if event.size.width != self._width:
            self.call_after_refresh(self.recompose)


def _cells(key: FooterKey) -> int:
    return cell_len(key.key_display) + cell_len(key.description) + AROUND
