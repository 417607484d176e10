"""Rows that a person turns and clicks: a number in a range, or one of a few words; and words that run actions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from spectui.knobs import Spec
from spectui.ui.widgets.lines import MUTED


class ActionLine(Widget):
    """`save alt+s   reset all alt+0`: a click on a word runs the screen's action of that name."""

    DEFAULT_CSS = """
    ActionLine { height: 1; pointer: pointer; }
    """

    auto_links = reactive(False)  # no underlining

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
            runs = f"@click=screen.{action}"
            pieces += [(word, f"{'$primary' if key else MUTED} {runs}"), (f" {key}  ", f"{MUTED} {runs}")]
        return Content.assemble(*pieces)

    def _key(self, action: str) -> str:
        bindings = self.screen.active_bindings.values()
        return next((self.app.get_key_display(each.binding) for each in bindings if each.binding.action == action), "")


LABEL, VALUE = 11, 5
"""Width of the name and of a number, equal for all rows so that they align."""


class KnobRow(Widget, can_focus=True):
    """A name and a value. Sends `Changed` when a person turns it, not when it is assigned."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"knob--label", "knob--track", "knob--mark", "knob--value"}
    DEFAULT_CSS = """
    KnobRow {
        height: 1;
        width: 1fr;
        pointer: pointer;
        & > .knob--label { color: $foreground 75%; }
        & > .knob--track { color: $foreground 35%; }
        & > .knob--mark { color: $primary; }
        & > .knob--value { color: $foreground; text-style: bold; }
        &:focus {
            background: $primary 15%;
            & > .knob--label { color: $foreground; text-style: bold; }
            & > .knob--track { color: $foreground 60%; }
        }
        &.-idle {
            & > .knob--label, & > .knob--mark, & > .knob--value { color: $foreground 45%; text-style: none; }
            & > .knob--track { color: $foreground 20%; }
        }
    }
    """

    value: reactive[Any] = reactive(None)
    """A slider's number, or the chosen word. An assignment sends no message."""

    @dataclass
    class Changed(Message):
        """A person has turned it."""

        key: str
        value: float | str

    def __init__(
        self, key: str, label: str, value: float | str, default: float | str, id: str | None = None, about: str = ""
    ) -> None:
        """`about`: a line that says what it is."""
        super().__init__(id=id)
        self.key, self.label, self.about = key, label, about
        self.default: Any = default
        self.set_reactive(KnobRow.value, value)

    def turn_to(self, value: float | str) -> None:
        """Set the value for a person, and send `Changed` if it is another."""
        before = self.value
        self.value = value
        if self.value != before:
            self.post_message(self.Changed(self.key, self.value))

    def action_reset(self) -> None:
        """Turn back to the default."""
        self.turn_to(self.default)

    def pieces(self, *pieces: tuple[str, str]) -> Content:
        """The name, and these texts in the styles of their component classes."""
        named = ((f"{self.label[:LABEL]:<{LABEL}} ", "label"), *pieces)
        return Content.assemble(*((text, self.get_visual_style(f"knob--{part}")) for text, part in named))


class ChoiceRow(KnobRow):
    """One of a few words. Keys and clicks go to the next and to the previous one."""

    HELP = """\
## Choices

Left and right, Enter or a click turn to another choice; {choice.default} goes back to the default.
"""
    BINDING_GROUP_TITLE = "choices"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "Previous", id="choice.previous"),
        Binding("right,enter", "turn(1)", "Next", id="choice.next"),
        Binding("delete", "reset", "Default", id="choice.default", tooltip="Turn it back to its default"),
    ]

    def __init__(self, key: str, label: str, value: str, *, choices: Sequence[str], default: str, **more: str) -> None:
        super().__init__(key, label, value, default, **more)
        self.choices = tuple(choices)

    def show_choices(self, choices: Sequence[str], value: str) -> None:
        """Offer these choices and show `value`, or the default if `value` is not among them. Sends no message."""
        self.choices = tuple(choices)
        self.value = value if value in self.choices else self.default

    def action_turn(self, steps: int) -> None:
        """Turn by a number of choices; after the last comes the first."""
        self.turn_to(next_choice(self.choices, self.value, steps))

    def on_click(self, event: events.Click) -> None:
        """Turn on; a click on the left arrow turns back."""
        event.stop()
        self.action_turn(-1 if event.x == LABEL + 1 else 1)

    def render(self) -> RenderResult:
        """The row."""
        return self.pieces(("‹ ", "mark"), (self.value, "value"), (" ›", "mark"))


def next_choice(choices: Sequence[str], value: str, steps: int = 1) -> str:
    """The choice so many steps after this one. The first follows the last."""
    return choices[(choices.index(value) + steps) % len(choices)]


class Slider(KnobRow):
    """A number between the ends of its spec: an int if those and the step are, and a float otherwise.

    Keys and the mouse change it in steps. A typed or assigned number is kept as it is, also between two steps.
    """

    HELP = """\
## Sliders

Turn with left and right (shift: ten steps), Home and End, or the mouse; or type the number and Enter. {slider.default} goes
back to the default. Other text that is typed goes to the prompt.
"""
    BINDING_GROUP_TITLE = "sliders"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "Less", id="slider.less"),
        Binding("right", "turn(1)", "More", id="slider.more"),
        Binding("shift+left", "turn(-10)", "Much less", id="slider.much-less", show=False),
        Binding("shift+right", "turn(10)", "Much more", id="slider.much-more", show=False),
        Binding("home", "go(0)", "Least", id="slider.least", show=False),
        Binding("end", "go(1)", "Most", id="slider.most", show=False),
        Binding("delete", "reset", "Default", id="slider.default", tooltip="Turn it back to its default"),
    ]

    @dataclass
    class Entered(Message):
        """A person has pressed Enter, and was not typing a number."""

        key: str

    def __init__(self, key: str, label: str, value: float, spec: Spec, *, default: float, id: str | None = None) -> None:
        assert spec.low is not None and spec.high is not None and spec.step is not None
        self.low, self.high, self.step, self._words = spec.low, spec.high, spec.step, spec.words
        self._whole = all(isinstance(number, int) for number in (self.low, self.high, self.step))
        self._typed = ""
        super().__init__(key, label, self.validate_value(value), self.validate_value(default), id, spec.help)

    def validate_value(self, value: float) -> float:
        """Clamp."""
        value = min(max(value, self.low), self.high)
        return round(value) if self._whole else round(value, 6)

    def _turn_to_step(self, value: float) -> None:
        # Steps are counted from the bottom: adding 0.05 twenty times would not give 1.0.
        self.turn_to(self.low + round((value - self.low) / self.step) * self.step)

    def action_turn(self, steps: int) -> None:
        """Turn by a number of steps."""
        self._turn_to_step(self.value + steps * self.step)

    def action_go(self, share: float) -> None:
        """Turn to a share of the range, 0..1."""
        self._turn_to_step(self.low + share * (self.high - self.low))

    def on_key(self, event: events.Key) -> None:
        """Collect a typed number: Enter sets it, Escape drops it."""
        if not self.type(event.character or ""):
            if not self._typed or event.key not in ("backspace", "enter", "escape"):
                if event.key == "enter":
                    self.post_message(self.Entered(self.key))
                return
            if event.key == "backspace":
                self._typed = self._typed[:-1]
            else:
                typed = self.forget()
                with suppress(ValueError):
                    if event.key == "enter":
                        self.turn_to(float(typed))
        event.stop()
        event.prevent_default()
        self.refresh()

    @property
    def is_typing(self) -> bool:
        """A number is being typed."""
        return bool(self._typed)

    def type(self, character: str) -> bool:
        """Add a character to the number that is being typed. False if it is none of a number's."""
        if not character or not (character.isdecimal() or character in "-."):
            return False
        self._typed += character
        self.refresh()
        return True

    def forget(self) -> str:
        """Drop the number that is being typed, and return it; "" if there is none."""
        typed, self._typed = self._typed, ""
        self.refresh()
        return typed

    def on_blur(self) -> None:
        """Drop an unfinished number."""
        self._typed = ""

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Set the value under the mouse, and follow the mouse until it is released."""
        event.stop()
        self.capture_mouse()
        self._follow(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow a drag, also outside the slider."""
        if self.app.mouse_captured is self:
            event.stop()
            self._follow(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End a drag."""
        self.release_mouse()

    def _follow(self, event: events.MouseEvent) -> None:
        cell = event.x - self.gutter.left - LABEL - 1
        self.action_go(min(1.0, max(0.0, cell / max(1, self._cells - 1))))

    @property
    def _cells(self) -> int:
        # A long number, such as a seed, or a word shortens the track.
        return max(1, self.size.width - LABEL - max(VALUE, len(self._figure)) - 2)

    @property
    def _figure(self) -> str:
        return self._typed + "_" if self._typed else self._words.get(self.value) or shown(self.value)

    def _cell_of(self, value: float) -> int:
        return round((value - self.low) / (self.high - self.low) * (self._cells - 1)) if self.high > self.low else 0

    def render(self) -> RenderResult:
        """The row."""
        line = ["─"] * self._cells
        line[self._cell_of(self.default)] = "┼"
        at = self._cell_of(self.value)
        before, after = "".join(line[:at]), "".join(line[at + 1 :])
        return self.pieces((before, "track"), ("●", "mark"), (after, "track"), (f" {self._figure:>{VALUE}}", "value"))


def shown(value: float) -> str:
    """A number as a slider shows it, with all its digits: 16, 0, .55, .9995, 1.0, -1."""
    if value == int(value) and (value == 0 or isinstance(value, int)):
        return str(int(value))
    text = f"{value:.6f}".rstrip("0")
    text += "0" if text.endswith(".") else ""
    return text.replace("0.", ".", 1) if abs(value) < 1 else text
