"""One of a few words on one row, with its name. Keys and clicks go to the next and to the previous one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from spectui.ui.widgets.slider import LABEL


class ChoiceRow(Widget, can_focus=True):
    """One of a few words. Sends `Changed` when a person turns it, not when it is assigned."""

    HELP = """\
## Choices

Left and right, Enter or a click turn to another choice; {choice.default} goes back to the default.
"""
    BINDING_GROUP_TITLE = "choices"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "Previous", id="choice.previous", show=False),
        Binding("right,enter", "turn(1)", "Next", id="choice.next", show=False),
        Binding("delete", "reset", "Default", id="choice.default", show=False, tooltip="Turn it back to its default"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"choice--label", "choice--arrow", "choice--value"}
    DEFAULT_CSS = """
    ChoiceRow {
        height: 1;
        width: 1fr;
        pointer: pointer;
        & > .choice--label { color: $foreground 75%; }
        & > .choice--arrow { color: $primary; }
        & > .choice--value { color: $foreground; text-style: bold; }
        &:focus {
            background: $primary 15%;
            & > .choice--label { color: $foreground; text-style: bold; }
        }
        &.-idle > .choice--value { color: $foreground 45%; text-style: none; }
    }
    """

    value: reactive[str] = reactive("")
    """The chosen word."""

    @dataclass
    class Changed(Message):
        """A person has chosen another word."""

        key: str
        value: str

    def __init__(
        self, key: str, label: str, value: str, *, choices: Sequence[str], default: str, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.key = key
        self.label = label
        self.choices = tuple(choices)
        self.default = default
        self.set_reactive(ChoiceRow.value, value)

    def show_choices(self, choices: Sequence[str], value: str) -> None:
        """Offer these choices and show `value`, or the default if `value` is not among them. Sends no message."""
        self.choices = tuple(choices)
        self.value = value if value in self.choices else self.default

    def action_turn(self, steps: int) -> None:
        """Turn by a number of choices; after the last comes the first."""
        self._turn_to(next_choice(self.choices, self.value, steps))

    def action_reset(self) -> None:
        """Turn back to the default."""
        self._turn_to(self.default)

    def on_click(self, event: events.Click) -> None:
        """Turn on; a click on the left arrow turns back."""
        event.stop()
        self.action_turn(-1 if event.x == LABEL + 1 else 1)

    def _turn_to(self, value: str) -> None:
        if value != self.value:
            self.value = value
            self.post_message(self.Changed(self.key, value))

    def render(self) -> RenderResult:
        """The row."""
        label, arrow, word = (self.get_visual_style(f"choice--{part}") for part in ("label", "arrow", "value"))
        return Content.assemble(
            (f"{self.label[:LABEL]:<{LABEL}} ", label), ("‹ ", arrow), (self.value, word), (" ›", arrow)
        )


def next_choice(choices: Sequence[str], value: str, steps: int = 1) -> str:
    """The choice so many steps after this one. The first follows the last."""
    return choices[(choices.index(value) + steps) % len(choices)]
