"""A finished reply as Markdown: headings, lists, highlighted code, and folded thinking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Collapsible, Label, Markdown, Static
from textual.widgets.markdown import MarkdownFence

from spectui.chat.text.prose import code_blocks, parts
from spectui.engine.events import Message
from spectui.text import printable
from spectui.ui.textual_patches.screen import Dialog
from spectui.ui.widgets.actions import ActionLine

if TYPE_CHECKING:
    from spectui.ui.textual_patches.app import TerminalApp

LONGEST = 200_000
"""Longest text that is laid out, in characters. The token view has all."""


class MarkdownScreen(Dialog[None]):
    """Shows one prompt and its reply at a time: the layout of a whole conversation would take seconds."""

    BINDING_GROUP_TITLE = "reading"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,alt+v", "dismiss(None)", "Tokens", id="reading.close", priority=True, tooltip="Back to the tokens"),
        Binding("c", "copy_code", "Copy code", id="reading.copy", tooltip="Copy the last code block; again: the one before"),
        Binding("t", "thinking", "Thinking", id="reading.thinking", tooltip="Unfold or fold what the model thought"),
        Binding("left", "turn(-1)", "Before", id="reading.before", priority=True, tooltip="The reply before"),
        Binding("right", "turn(1)", "After", id="reading.after", priority=True, tooltip="The reply after"),
    ]  # fmt: skip
    AUTO_FOCUS = "VerticalScroll"
    DEFAULT_CSS = """
    MarkdownScreen { background: $background; }
    MarkdownScreen #which { width: 1fr; height: 1; padding: 0 1; background: $panel; color: $foreground 70%; }
    MarkdownScreen VerticalScroll { height: 1fr; padding: 1 2 0 2; scrollbar-size-vertical: 1; }
    MarkdownScreen Markdown { padding: 0; margin: 0; background: $background; }
    MarkdownScreen #asked { color: $foreground 60%; margin: 0 0 1 0; height: auto; max-height: 6; }
    MarkdownScreen Collapsible { background: $background; border: none; padding: 0; }
    MarkdownScreen Collapsible Static { color: $foreground 60%; }
    MarkdownScreen ActionLine { padding: 0 1; }
    MarkdownScreen MarkdownFence { pointer: pointer; }
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        """`messages` of the conversation, at least one of them a reply; the last is shown first."""
        super().__init__()
        self._messages = messages
        self._replies = [index for index, each in enumerate(messages) if each.role == "assistant"]
        self._at = len(self._replies) - 1
        self._copied = 0  # code blocks, from the last one on

    def compose(self) -> ComposeResult:
        """The reply's number, the reply, and actions."""
        yield Label("", id="which", markup=False)
        yield VerticalScroll()
        yield ActionLine([("tokens", "dismiss(None)"), ("copy code", "copy_code"), ("thinking", "thinking"),
                          ("before", "turn(-1)"), ("after", "turn(1)")])  # fmt: skip

    async def on_mount(self) -> None:
        """Show the last reply."""
        await self._show()

    @property
    def _text(self) -> str:
        return printable(self._messages[self._replies[self._at]].content)

    async def _show(self) -> None:
        index = self._replies[self._at]
        self._copied = 0
        self.query_one("#which", Label).update(f"reply {self._at + 1} of {len(self._replies)}")
        page = self.query_one(VerticalScroll)
        await page.remove_children()
        asked = printable(self._messages[index - 1].content) if index else ""
        await page.mount(Static(asked.strip(), id="asked", markup=False))
        for part in parts(self._text[:LONGEST]):
            if part.thinking:
                lines = part.text.count("\n") + 1
                await page.mount(Collapsible(Static(part.text, markup=False), title=f"thinking, {lines} lines"))
            else:
                await page.mount(Markdown(part.text, open_links=False))
        page.scroll_home(animate=False)

    async def action_turn(self, by: int) -> None:
        """Show another reply."""
        at = min(max(self._at + by, 0), len(self._replies) - 1)
        if at != self._at:
            self._at = at
            await self._show()

    def action_thinking(self) -> None:
        """Unfold or fold the thinking."""
        sections = self.query(Collapsible)
        folded = any(section.collapsed for section in sections)
        for section in sections:
            section.collapsed = not folded

    def action_copy_code(self) -> None:
        """Copy the last code block; again: the one before it."""
        blocks = code_blocks(self._text)
        self._copied = self._copied % len(blocks) + 1 if blocks else 0
        copy_block(self, blocks, len(blocks) - self._copied)

    def on_click(self, event: events.Click) -> None:
        """Copy the code block under the mouse."""
        for node in event.widget.ancestors_with_self if event.widget is not None else ():
            if isinstance(node, MarkdownFence):
                fences = list(self.query(MarkdownFence))
                copy_block(self, code_blocks(self._text), fences.index(node))
                return


def copy_block(screen: Screen[None], blocks: Sequence[str], at: int) -> None:
    """Copy one of the code blocks, and say so."""
    if not 0 <= at < len(blocks):
        screen.notify("There is no code block in the reply.", severity="warning", markup=False)
        return
    if not blocks[at].strip():
        screen.notify("This code block is empty.", severity="warning", markup=False)
        return
    lines = blocks[at].count("\n") + 1
    what = f"code block {at + 1} of {len(blocks)}, {lines} line{'' if lines == 1 else 's'}"
    cast("TerminalApp", screen.app).copy_to_clipboard(blocks[at], what)
