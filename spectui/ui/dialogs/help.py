"""F1: a list of all keys that do something now, and of what the screen shows. Typing filters it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import ClassVar

from textual import on
from textual.binding import ActiveBinding, Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from spectui.ui.dialogs.list_window import ListWindow
from spectui.ui.figures import MUTED
from spectui.ui.keys import format_key, group_of, with_keys

KEYS, NAME = 12, 13
"""Width of the keys and of an action's name, in cells."""


class HelpScreen(ListWindow[ActiveBinding]):
    """Answers with the chosen binding, or None."""

    TITLE = "keys"
    PLACEHOLDER = "Filter by key, name or what it does"
    ACTIONS = (("do it", "choose"), ("close", "back"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Do it", id="help.choose", priority=True, tooltip="Do what the bar is on")
    ]
    DEFAULT_CSS = """
    HelpScreen {
        &.-short > Vertical, &.-tiny > Vertical { height: 100%; }
        ActionLine { margin-top: 0; }
        OptionList > .option-list--option-disabled { color: $accent; text-style: bold; }
    }
    """

    def __init__(self, about: Screen[object]) -> None:
        """`about`: the screen whose keys are listed, with those of its focused widget."""
        super().__init__()
        self.actions: dict[str, list[ActiveBinding]] = {}
        """The listed keys, by the option that lists them: keys of one action are in one list."""
        for active in about.active_bindings.values():
            if active.enabled and not active.binding.system:
                self.actions.setdefault(f"{type(active.node).__name__} {active.binding.action}", []).append(active)
        for same in self.actions.values():
            same.sort(key=lambda each: each.binding.key.startswith("super+"))  # few keyboards have it
        shown = [part for part in about.query("*") if part.HELP and part.is_on_screen]
        self._texts = dict.fromkeys(with_keys(about.app, inspect.cleandoc(part.HELP or "")) for part in shown)

    def on_resize(self) -> None:
        """Wrap the sentences to the new width."""
        self.call_after_refresh(self.filter)

    def filter(self) -> None:
        """Show the entries that contain the words."""
        words, width = self.words.casefold().split(), self.listed.scrollable_content_region.width
        groups: dict[str, list[Option]] = {}
        for group, line, identity in self._lines():
            if all(word in f"{group} {line}".casefold() for word in words):
                groups.setdefault(group, [Option(group, disabled=True)]).append(Option(_fitted(line, width), identity))
        self.fill([option for options in groups.values() for option in options], at=1)  # the first below its title

    def _lines(self) -> Iterator[tuple[str, Content, str | None]]:
        """(group, line, action) of spectui's keys, of Textual's, and of the texts about what the screen shows."""
        for identity, same in sorted(self.actions.items(), key=lambda item: _group(item[1][0]) == OTHERS):
            first = same[0].binding
            keys = " ".join(dict.fromkeys(format_key(each.binding.key) for each in same))
            keys = keys if len(keys) <= KEYS else keys[: KEYS + 1].rpartition(" ")[0] or keys.partition(" ")[0]
            yield _group(same[0]), Content.assemble(
                (f"  {keys:<{KEYS}} ", "bold"), f"{first.description:<{NAME}} ", (first.tooltip, MUTED)
            ), identity  # fmt: skip
        for text in self._texts:
            title, _, body = text.partition("\n\n")
            pieces = re.sub(r"(?<!\n)\n(?!\n)", " ", body).replace("\n\n", "\n").split("**")
            content = Content.assemble(*((piece, "bold" if index % 2 else "") for index, piece in enumerate(pieces)))
            yield f"about: {title.lstrip('# ').lower()}", content, None

    @on(OptionList.OptionHighlighted)
    def _point(self, event: OptionList.OptionHighlighted) -> None:
        same = self.actions.get(event.option.id or "")
        name = same[0].binding.id if same else None
        self.frame.border_subtitle = f"in \\[ui.keys]: {name}" if name else ""
        cut = str(event.option.prompt).endswith("…")
        self.about.update(same[0].binding.tooltip if same and cut else "")

    def choose(self) -> None:
        """Answer with the highlighted key's binding."""
        if same := self.actions.get(self.chosen_id):
            self.dismiss(same[0])


OTHERS = "moving and editing"


def _group(active: ActiveBinding) -> str:
    """The group of a binding: its class's subject; Textual's are one group."""
    for kind in type(active.node).__mro__:
        actions = {each.action for each in kind.__dict__.get("BINDINGS", ()) if isinstance(each, Binding)}
        if active.binding.action in actions and not kind.__module__.startswith("textual."):
            return group_of(kind, active.binding) or type(active.node).__name__
    return OTHERS


def _fitted(line: Content, width: int) -> Content:
    """A key's line cut to this width, or sentences wrapped to it."""
    if line.plain.startswith("  "):
        return line.truncate(width, ellipsis=True)
    return Content("\n").join(Content("  ") + each for each in line.wrap(max(10, width - 3)))
