"""Replies read as they are meant to be: a key for the Markdown, one for thinking, one for code."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from spectui.text import printable
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.transcript.transcript import Transcript


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
        Binding("pageup", "scroll(-1)", "Page up", id="page-up", show=False, priority=True, tooltip="Read back"),
        Binding("pagedown", "scroll(1)", "Page down", id="page-down", show=False, priority=True, tooltip="Read on"),
    ]  # fmt: skip

    def action_read(self) -> None:
        """See the last finished reply as Markdown."""
        # Imported when it is asked for: what reads Markdown and colours code takes a tenth of the time that a window needs.
        from spectui.ui.dialogs.markdown_screen import MarkdownScreen

        if any(each.role == "assistant" for each in self.session.messages):
            self.app.push_screen(MarkdownScreen(tuple(self.session.messages)))
        else:
            self.notify("There is no finished reply to read yet.", severity="warning", markup=False)

    def action_thinking(self) -> None:
        """Unfold what was thought in all replies, or fold it."""
        shown = not self.transcript.show_thinking
        for transcript in self.query(Transcript):
            transcript.show_thinking = shown

    def action_copy_code(self) -> None:
        """Copy the last code block of the last reply that is finished."""
        from spectui.chat.prose import code_blocks
        from spectui.ui.dialogs.markdown_screen import copy_block

        replies = [each.content for each in self.session.messages if each.role == "assistant"]
        blocks = code_blocks(printable(replies[-1])) if replies else []
        copy_block(self, blocks, len(blocks) - 1)

    def action_scroll(self, pages: int) -> None:
        """Read back or on without leaving the prompt."""
        if pages < 0:
            self.transcript.scroll_page_up()
        else:
            self.transcript.scroll_page_down()
