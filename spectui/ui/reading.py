"""A finished reply as it is meant to be read: headings, lists, highlighted code, and what was thought folded away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Collapsible, Label, Markdown, Static
from textual.widgets.markdown import MarkdownFence

from spectui.engine.events import Message
from spectui.ui.actions import ActionLine
from spectui.ui.chat import ChatScreen
from spectui.ui.figures import printable
from spectui.ui.prose import code_blocks, parts
from spectui.ui.transcript import Transcript

LONGEST = 200_000
"""Characters of a reply that are laid out; the token view has all."""


class ReadingScreen(ModalScreen[None]):
    """One prompt and its reply at a time: to lay a whole conversation out would take seconds."""

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
    ReadingScreen { background: $background; }
    ReadingScreen #which { width: 1fr; height: 1; padding: 0 1; background: $panel; color: $foreground 70%; }
    ReadingScreen VerticalScroll { height: 1fr; padding: 1 2 0 2; scrollbar-size-vertical: 1; }
    ReadingScreen Markdown { padding: 0; margin: 0; background: $background; }
    ReadingScreen #asked { color: $foreground 60%; margin: 0 0 1 0; height: auto; max-height: 6; }
    ReadingScreen Collapsible { background: $background; border: none; padding: 0; }
    ReadingScreen Collapsible Static { color: $foreground 60%; }
    ReadingScreen ActionLine { padding: 0 1; }
    ReadingScreen MarkdownFence { pointer: pointer; }
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        """`messages` of the conversation, at least one of them a reply; the last is shown first."""
        super().__init__()
        self._messages = messages
        self._replies = [place for place, each in enumerate(messages) if each.role == "assistant"]
        self._at = len(self._replies) - 1
        self._copied = 0  # code blocks, from the last one on

    def compose(self) -> ComposeResult:
        """Which reply it is, the reply, and what can be done."""
        yield Label("", id="which", markup=False)
        yield VerticalScroll()
        yield ActionLine([("tokens", "dismiss(None)"), ("copy code", "copy_code"), ("thinking", "thinking"),
                          ("before", "turn(-1)"), ("after", "turn(1)")])  # fmt: skip

    async def on_mount(self) -> None:
        """Lay the last reply out."""
        await self._show()

    @property
    def _text(self) -> str:
        return printable(self._messages[self._replies[self._at]].content)

    async def _show(self) -> None:
        place = self._replies[self._at]
        self._copied = 0
        self.query_one("#which", Label).update(f"reply {self._at + 1} of {len(self._replies)}")
        page = self.query_one(VerticalScroll)
        await page.remove_children()
        asked = printable(self._messages[place - 1].content) if place else ""
        await page.mount(Static(asked.strip(), id="asked", markup=False))
        for part in parts(self._text[:LONGEST]):
            if part.thinking:
                lines = part.text.count("\n") + 1
                await page.mount(Collapsible(Static(part.text, markup=False), title=f"thinking, {lines} lines"))
            else:
                await page.mount(Markdown(part.text, open_links=False))
        page.scroll_home(animate=False)

    async def action_turn(self, by: int) -> None:
        """Read another reply."""
        at = min(max(self._at + by, 0), len(self._replies) - 1)
        if at != self._at:
            self._at = at
            await self._show()

    def action_thinking(self) -> None:
        """Unfold what was thought, or fold it."""
        sections = self.query(Collapsible)
        folded = any(section.collapsed for section in sections)
        for section in sections:
            section.collapsed = not folded

    def action_copy_code(self) -> None:
        """Copy the last code block; pressed again, the one before it."""
        blocks = code_blocks(self._text)
        self._copied = self._copied % len(blocks) + 1 if blocks else 0
        _copy(self, blocks, len(blocks) - self._copied)

    def on_click(self, event: events.Click) -> None:
        """Copy the code block under the mouse."""
        for node in event.widget.ancestors_with_self if event.widget is not None else ():
            if isinstance(node, MarkdownFence):
                fences = list(self.query(MarkdownFence))
                _copy(self, code_blocks(self._text), fences.index(node))
                return


class Reading(ChatScreen):
    """A chat screen whose replies can be read as they are meant, and their code taken along."""

    BINDING_GROUP_TITLE = "reading"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+v", "read", "Read", id="read", show=False, priority=True,
                tooltip="See the reply as Markdown, with code highlighted and thinking folded"),
        Binding("alt+t", "thinking", "Thinking", id="thinking", show=False, priority=True,
                tooltip="Unfold what the model thought, or fold it"),
        Binding("alt+k", "copy_code", "Copy code", id="copy-code", show=False, priority=True,
                tooltip="Copy the last reply's last code block"),
    ]  # fmt: skip

    def action_read(self) -> None:
        """See the last finished reply as Markdown."""
        if any(each.role == "assistant" for each in self.session.messages):
            self.app.push_screen(ReadingScreen(tuple(self.session.messages)))
        else:
            self.notify("There is no finished reply to read yet.", severity="warning", markup=False)

    def action_thinking(self) -> None:
        """Unfold what was thought in all replies, or fold it."""
        shown = not self.transcript.show_thinking
        for transcript in self.query(Transcript):
            transcript.show_thinking = shown

    def action_copy_code(self) -> None:
        """Copy the last code block of the last reply that is finished."""
        replies = [each.content for each in self.session.messages if each.role == "assistant"]
        blocks = code_blocks(printable(replies[-1])) if replies else []
        _copy(self, blocks, len(blocks) - 1)


def _copy(screen: Screen[None], blocks: Sequence[str], at: int) -> None:
    if not 0 <= at < len(blocks):
        screen.notify("There is no code block in the reply.", severity="warning", markup=False)
        return
    screen.app.copy_to_clipboard(blocks[at])
    lines = blocks[at].count("\n") + 1
    screen.notify(f"Copied code block {at + 1} of {len(blocks)}: {lines} lines.", timeout=3, markup=False)
