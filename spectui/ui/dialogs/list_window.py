"""The base of windows with a list: conversations, messages, models, keys."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option
from textual.worker import Worker, WorkerCancelled

from spectui.ui.textual_patches.screen import Dialog
from spectui.ui.textual_patches.text_area import LineInput
from spectui.ui.widgets.actions import ActionLine

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
