"""Windows with a list: the base of all, and F1, which lists what can be done now, and what the screen shows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar, NamedTuple, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option
from textual.worker import Worker, WorkerCancelled

from spectui.chat.commands import FIRST
from spectui.ui.keys import format_key, group_of, with_keys
from spectui.ui.textual_patches.screen import Dialog
from spectui.ui.textual_patches.text_area import LineInput
from spectui.ui.widgets.lines import MUTED
from spectui.ui.widgets.rows import ActionLine

Answer = TypeVar("Answer")

MOST_SHOWN = 500
"""Entries in a list at once; the filter finds the others."""


class ListWindow(Dialog[Answer]):
    """A box with an OptionList, and in most an Input above it that keeps the focus."""

    BINDING_GROUP_TITLE = "list"
    # Priority, because the box above the list would take most of them.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Close", id="list.close", priority=True, tooltip="Back to where you were"),
        Binding("up", "move('cursor_up')", "Up", id="list.up", show=False, priority=True),
        Binding("down", "move('cursor_down')", "Down", id="list.down", show=False, priority=True),
        Binding("pageup", "move('page_up')", "Page up", id="list.page-up", show=False, priority=True),
        Binding("pagedown", "move('page_down')", "Page down", id="list.page-down", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    ListWindow {
        & > Vertical {
            width: 80%; min-width: 100; height: 80%; min-height: 10; border-subtitle-color: $foreground 60%;
        }
        Input, Input:focus { margin: 0 0 1 0; }
        OptionList, OptionList:focus {
            height: 1fr; border: none; padding: 0; background: $surface; text-wrap: nowrap; text-overflow: ellipsis;
            scrollbar-size-vertical: 1; scrollbar-gutter: stable;
        }
        OptionList:focus { background-tint: $foreground 0%; }
        OptionList:focus > .option-list--option-highlighted {
            color: $block-cursor-blurred-foreground; background: $block-cursor-blurred-background;
            text-style: $block-cursor-blurred-text-style;
        }
        Label { width: 1fr; color: $foreground 70%; }
        ActionLine { margin-top: 1; }
        &.-tiny > Vertical { height: 100%; min-height: 1; }
        &.-tiny Input, &.-tiny ActionLine { margin: 0; }
    }
    """

    PLACEHOLDER: ClassVar[str] = ""
    """The filter's placeholder; "": there is no filter."""

    ACTIONS: ClassVar[Sequence[tuple[str, str]]] = ()
    """The actions below the list, for ActionLine."""

    words = ""
    """The words that the list was last filtered by."""

    search: Worker[None] | None = None
    """Fills the list for the words, where that takes a while."""

    def __init__(self) -> None:
        super().__init__()
        # Not looked up in the window: what goes on when it is left would find nothing.
        self.frame = Vertical()
        self.box = LineInput(placeholder=self.PLACEHOLDER)
        """The words to filter by."""
        self.listed = OptionList(markup=False)
        self.listed.can_focus = not self.PLACEHOLDER  # a click must not take the focus from the filter
        self.about = Label("", markup=False)
        """A line about the highlighted entry."""

    def compose(self) -> ComposeResult:
        """The filter, if there is one, and the list; a line about the highlighted entry, and actions."""
        with self.frame:
            self.frame.border_title = self.TITLE or ""
            if self.PLACEHOLDER:
                yield self.box
            yield self.listed
            if self.PLACEHOLDER:
                yield self.about
            yield ActionLine(self.ACTIONS)

    def fill(self, options: Sequence[Option], at: int = 0) -> None:
        """List these, with the highlight on the one at this index, or else on the nearest."""
        self.listed.clear_options()
        self.listed.add_options(options)
        if options:
            self.listed.highlighted = max(0, min(at, len(options) - 1))

    @property
    def chosen_id(self) -> str:
        """The id of the highlighted entry; "" if none has the highlight, or that has no id."""
        option = self.listed.highlighted_option
        return (option.id or "") if option is not None else ""

    def action_back(self) -> None:
        """Close without an answer."""
        self.dismiss(None)

    def action_move(self, action: str) -> None:
        """Move the highlight, whatever has the focus, unless the list is not laid out yet or has no height."""
        if self.listed.scrollable_content_region.height:
            getattr(self.listed, f"action_{action}")()

    @on(Input.Changed)
    def follow(self) -> None:
        """Filter the list if the words in the box have changed."""
        if self.box.value != self.words:
            self.words = self.box.value
            self.filter()

    def filter(self) -> None:
        """Show the entries that contain the words."""

    @on(OptionList.OptionSelected)
    def _click(self) -> None:
        self.choose()

    def action_choose(self) -> None:
        """Choose the highlighted entry, by key or by a click on the action."""
        (self.focused or self).call_later(self.filter_and_choose)  # behind the letters that wait in the box's queue

    def filter_and_choose(self) -> None:
        """Filter by the words that were typed last; once the list is for them, choose the highlighted entry."""
        self.follow()
        if self.search is not None:
            self.run_worker(self._choose_after(self.search))
        else:
            self.choose()

    async def _choose_after(self, search: Worker[None]) -> None:
        with suppress(WorkerCancelled):  # by a letter behind Enter
            await search.wait()
            self.choose()

    def choose(self) -> None:
        """Choose the highlighted entry."""
        raise NotImplementedError


KEYS, NAME = 12, 13
"""Width of the keys and of an action's name, in cells."""

MOST_USED, KEYLESS, OTHERS = "most used", "without a key", "moving and editing"
"""Groups: of what is done most, until there are words; of what is no key's; and of Textual's own keys, the last one."""


class Entry(NamedTuple):
    """Something that can be done. `id`: its name in `[ui.keys]`, if it has one. `searched`: it is listed for words alone."""

    group: str
    title: str
    help: str
    act: Callable[[], object]
    keys: str = ""
    id: str = ""
    searched: bool = False


class HelpScreen(ListWindow[Callable[[], object]]):
    """Answers with what does the chosen entry, or None."""

    TITLE = "commands and keys"
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

    def __init__(self, about: Screen[object], words: str = "") -> None:
        """`about`: the screen whose keys are listed, with those of its focused widget. `words`: the first in the filter."""
        super().__init__()
        self.words = self.box.value = words
        self.box.select_on_focus = False  # the next letters go on with them
        usual = {identity: place for place, identity in enumerate(FIRST)}
        self.entries = sorted(
            [*_of_keys(about), *_without_key(about)], key=lambda entry: (usual.get(entry.id, len(FIRST)), entry.group == OTHERS)
        )
        shown = [part for part in about.query("*") if part.HELP and part.is_on_screen]
        self._texts = dict.fromkeys(with_keys(about.app, inspect.cleandoc(part.HELP or "")) for part in shown)

    def on_resize(self) -> None:
        """Wrap the sentences to the new width."""
        self.call_after_refresh(self.filter)

    def filter(self) -> None:
        """Show the entries that contain the words, with the bar on the one that they name, or else on the first."""
        words, width = self.words.casefold().split(), self.listed.scrollable_content_region.width
        groups: dict[str, list[Option]] = {}
        for group, line, identity in self._lines(searches=bool(words)):
            if all(word in f"{group} {line}".casefold() for word in words):
                groups.setdefault(group, [Option(group, disabled=True)]).append(Option(_fitted(line, width), identity))
        options = [option for options in groups.values() for option in options]
        below_title = range(1, len(options))
        self.fill(options, min(below_title, key=lambda at: self._distance(options[at]), default=0))

    def _distance(self, option: Option) -> int:
        """0 if the words are this entry's title, 1 if they begin it, 3 for what is no entry."""
        if (entry := self._entry(option)) is None:
            return 3
        title, typed = entry.title.casefold(), self.words.strip().casefold()
        return (title != typed) + (not title.startswith(typed))

    def _entry(self, option: Option | None) -> Entry | None:
        return self.entries[int(option.id)] if option is not None and option.id else None

    def _lines(self, *, searches: bool) -> Iterator[tuple[str, Content, str | None]]:
        """(group, line, number) of the entries, and of the texts about what the screen shows."""
        for number, entry in enumerate(self.entries):
            if searches or not entry.searched:
                group = MOST_USED if entry.id in FIRST and not searches else entry.group
                keys = f"{entry.keys:<{KEYS}} " if entry.keys else ""
                title = f"{entry.title:<{KEYS + 1 + NAME - len(keys)}} "
                yield group, Content.assemble((f"  {keys}", "bold"), title, (entry.help, MUTED)), str(number)
        for text in self._texts:
            title, _, body = text.partition("\n\n")
            pieces = re.sub(r"(?<!\n)\n(?!\n)", " ", body).replace("\n\n", "\n").split("**")
            content = Content.assemble(*((piece, "bold" if index % 2 else "") for index, piece in enumerate(pieces)))
            yield f"about: {title.lstrip('# ').lower()}", content, None

    @on(OptionList.OptionHighlighted)
    def _point(self, event: OptionList.OptionHighlighted) -> None:
        entry = self._entry(event.option)
        self.frame.border_subtitle = f"in \\[ui.keys]: {entry.id}" if entry is not None and entry.id else ""
        cut = str(event.option.prompt).endswith("…")
        self.about.update(entry.help if entry is not None and cut else "")

    def choose(self) -> None:
        """Answer with what does the highlighted entry."""
        if (entry := self._entry(self.listed.highlighted_option)) is not None:
            self.dismiss(entry.act)


def _of_keys(about: Screen[object]) -> Iterator[Entry]:
    """What the keys do that act on this screen now. Keys of one action are in one entry."""
    actions: dict[str, list[ActiveBinding]] = {}
    for active in about.active_bindings.values():
        if active.enabled and not active.binding.system:
            actions.setdefault(f"{type(active.node).__name__} {active.binding.action}", []).append(active)
    for same in actions.values():
        same.sort(key=lambda active: active.binding.key.startswith("super+"))  # few keyboards have it
        keys = " ".join(dict.fromkeys(format_key(active.binding.key) for active in same))
        keys = keys if len(keys) <= KEYS else keys[: KEYS + 1].rpartition(" ")[0] or keys.partition(" ")[0]
        node, binding = same[0].node, same[0].binding
        act = partial(about.app.run_action, binding.action, node)
        yield Entry(_group(same[0]), binding.description, binding.tooltip, act, keys, binding.id or "")


def _without_key(about: Screen[object]) -> Iterator[Entry]:
    for command in about.app.get_system_commands(about):
        yield Entry(KEYLESS, command.title, command.help, command.callback, searched=not command.discover)


def _group(active: ActiveBinding) -> str:
    """The group of a binding: its class's subject; Textual's are one group."""
    for kind in type(active.node).__mro__:
        actions = {each.action for each in kind.__dict__.get("BINDINGS", ()) if isinstance(each, Binding)}
        if active.binding.action in actions and not kind.__module__.startswith("textual."):
            return group_of(kind, active.binding) or type(active.node).__name__
    return OTHERS


def _fitted(line: Content, width: int) -> Content:
    """An entry's line cut to this width, or sentences wrapped to it."""
    if line.plain.startswith("  "):
        return line.truncate(width, ellipsis=True)
    return Content("\n").join(Content("  ") + each for each in line.wrap(max(10, width - 3)))
