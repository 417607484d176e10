"""The keys on the window's last line: the most important first, and only keys that fit whole."""

from __future__ import annotations

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey as FooterKey  # tests look for the keys

AROUND = 3
"""Blanks of an entry: before the key, behind it, and behind the description."""

PALETTE_EDGE = 2
"""Further cells of the palette's entry: a line and a blank."""


class KeyLine(Footer):
    """Textual's footer, without keys that do not fit whole. Textual cuts the last one."""

    _width = 0  # the width that the keys were chosen for
    _chosen_from: list[tuple[Binding, bool]] | None = None

    def compose(self) -> ComposeResult:
        """The keys that fit; the palette's at the right, unless it leaves no room for another."""
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
            key.set_reactive(FooterKey.compact, self.compact)  # a later assignment would style each key twice more
            yield key
        if palette is not None:
            yield palette

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Choose the keys again if the shown bindings have changed. Textual does so each time, at the cost of ten frames."""
        if not self.settled:
            super().bindings_changed(screen)

    @property
    def settled(self) -> bool:
        """Whether its keys are those of now."""
        return self._chosen_from == self._to_choose_from()

    def _to_choose_from(self) -> list[tuple[Binding, bool]]:
        return [(each.binding, each.enabled) for each in self.screen.active_bindings.values() if each.binding.show]

    def on_resize(self, event: events.Resize) -> None:
        """Choose the keys again for another width."""
        if event.size.width != self._width:
            self.call_after_refresh(self.recompose)


def _cells(key: FooterKey) -> int:
    return cell_len(key.key_display) + cell_len(key.description) + AROUND
