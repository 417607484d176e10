"""A line of words that run actions when they are clicked. Each action has a key too."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.widget import Widget

from spectui.ui.figures import MUTED


class ActionLine(Widget):
    """`save alt+s   reset all alt+0`: a click on a word runs the screen's action of that name."""

    DEFAULT_CSS = """
    ActionLine { height: 1; pointer: pointer; }
    """

    def __init__(self, actions: Sequence[tuple[str, str]], *, id: str | None = None) -> None:
        """`actions`: (the word, the action) in order."""
        super().__init__(id=id)
        self.actions = tuple(actions)
        """What can be clicked."""

    def render(self) -> Content:
        """The words, each with its present key. One without a key can do nothing now, and is dim."""
        pieces: list[tuple[str, str]] = []
        for word, action in self.actions:
            key = self._key(action)
            pieces += [(word, "$primary" if key else MUTED), (f" {key}  ", MUTED)]
        return Content.assemble(*pieces)

    async def on_click(self, event: events.Click) -> None:
        """Run the action of the word under the mouse."""
        at = 0
        for word, action in self.actions:
            at += len(f"{word} {self._key(action)}  ")
            if event.x < at:
                await self.screen.run_action(action)
                return

    def _key(self, action: str) -> str:
        bindings = self.screen.active_bindings.values()
        return next((self.app.get_key_display(each.binding) for each in bindings if each.binding.action == action), "")
