"""The transcript of the chat, which a person reads: its keys and clicks, the branches; and the line for words to find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from spectui.ui.textual_patches.text_area import LineInput
from spectui.ui.transcript.document import Block
from spectui.ui.transcript.transcript import Transcript
from spectui.ui.transcript.wrap import ASIDE


class Reader(Transcript, can_focus=True):
    """A transcript in which a person moves."""

    HELP = """\
## Transcript

A double click on a token, or **{inspect}**, puts the cursor on it: the lines below say where it came from, and how probable
target and draft found it. **{token.before}**, **{token.after}**, **{token.above}** and **{token.below}** move it,
**{round.before}** and **{round.after}** go from round to round, **{stop}** leaves. Without that cursor **{branch.before}**
and **{branch.after}** turn to the other replies or prompts at **‹ 2/3 ›**, and so does a click there. A click on a heading
lists the messages, to edit one or branch from it; on “more lines” it unfolds a long prompt, and on “thinking” what the
model thought, as **{thinking}** does for all; at the head of code it copies that. Text is selected with the mouse and
copied with **Ctrl+C**, as it was written; rejected drafts are never in it.
"""

    BINDING_GROUP_TITLE = "inspector"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move('step', -1)", "Token before", id="token.before"),
        Binding("right", "move('step', 1)", "Token after", id="token.after"),
        Binding("left", "turn(-1)", "Branch before", id="branch.before"),
        Binding("right", "turn(1)", "Branch after", id="branch.after"),
        Binding("up", "move('step_row', -1)", "Token above", id="token.above", show=False),
        Binding("down", "move('step_row', 1)", "Token below", id="token.below", show=False),
        Binding("enter", "open_edit", "Open an edit", id="edit.open"),
        Binding("shift+left", "move('step_round', -1)", "Round before", id="round.before"),
        Binding("shift+right", "move('step_round', 1)", "Round after", id="round.after"),
    ]

    @dataclass
    class HeadingClicked(Message):
        """A person has clicked on the heading of the conversation's `index`th message, or turns its branch `by` so many."""

        index: int
        by: int = 0

    @dataclass
    class CodeClicked(Message):
        """A person has clicked on the head of this code."""

        code: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pressed: tuple[int, int] | None = None

    @property
    def last_seen(self) -> int:
        """The index of the last message that can be seen, or of the one above; -1 if there is none."""
        return self.document.last_above(self.scroll_offset.y + self.size.height)

    # Keys and clicks

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key acts on the cursor where there is one, and otherwise on a branch or an edit that there is."""
        inspects = self.inspected is not None
        if action == "move":
            return inspects or parameters[0] == "step_row"
        if action == "turn":
            return not inspects and self._painter.branched is not None
        return action != "open_edit" or self._edited is not None

    @property
    def _edited(self) -> Block | None:
        """The last reply with edits that fold."""
        drawn = (reply for reply in reversed(self.document.replies) if reply.is_drawn and reply.drawing.view.as_text)
        return next((reply for reply in drawn if reply.source.edits), None)

    def action_open_edit(self) -> None:
        """Open the edits of the last reply that has some, or fold them."""
        if (reply := self._edited) is not None:
            first = len(reply.source.folds)
            reply.turned ^= {*range(first, first + len(reply.source.edits))}
            self._redraw()

    def action_turn(self, by: int) -> None:
        """Turn to another of the branches at the marked heading."""
        if (heading := self._painter.branched) is not None:
            self.post_message(self.HeadingClicked(heading.message, by))

    def action_move(self, how: str, by: int) -> None:
        """Move the cursor by a token, a row or a round, as its method of this name does; without one, scroll."""
        if self._cursor.token is not None:
            self._move(lambda: getattr(self._cursor, how)(by))
        elif how == "step_row":
            self.scroll_relative(y=by)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Note the position: a mouse that moved since has selected text, and has not clicked."""
        self._pressed = event.screen_x, event.screen_y

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the token under the mouse at a double click, or at any while there is a cursor: the lines that tell
        of it take room from the text. A click beside the text removes it."""
        moved = self._pressed != (event.screen_x, event.screen_y)
        if moved or event.button != 1 or event.chain > 2:
            return
        row = event.y + self.scroll_offset.y
        block = self.document.block_at(row)
        if event.chain == 2:
            event.prevent_default()  # Textual would select the whole transcript
        if block is not None:
            if event.chain == 1 and (fold := block.fold_at(row, event.x)) is not None:
                block.turned ^= {fold}
                self._redraw()
                return
            if event.chain == 1 and (code := block.drawing.code_at(row - block.top)):
                self.post_message(self.CodeClicked(code))
                return
            token = block.token_at(row, event.x)
            inspects = token is not None and (event.chain == 2 or self.inspected is not None)
            if inspects and self._move(lambda: self._cursor.put(block, token or 0)):
                return
        if event.chain == 1:
            self._lose_cursor()
            if (heading := self.document.heading_at(row)) is not None:
                drawn, length = heading.drawing.at_cell(row - heading.top, event.x - heading.indent), len(heading.source.branch)
                to_end = heading.indent + sum(cell.width for cell in heading.drawing.cells(row - heading.top)) - event.x
                by = 0 if drawn is None or drawn.at != ASIDE else 1 if to_end * 2 < length else -1
                self.post_message(self.HeadingClicked(heading.message, by))

    # Branches and words

    def show_message(self, number: int) -> None:
        """Scroll to a message's heading, if it is not seen."""
        self._show_row(next((block.end - 1 for block in self.document.blocks if block.message == number), None))

    def rows(self, lines: range) -> Iterator[Strip]:
        """Mark the heading whose branch left and right turn: the last that can be seen, or else the one above."""
        end = self.scroll_offset.y + self.size.height
        branched = self.document.branched_above(end) if self.has_focus and self._cursor.token is None else None
        if branched is not self._painter.branched:
            self._painter.branched = branched
            self._draw_all()
            self.screen.refresh_bindings()
        return super().rows(lines)

    def find(self, words: str) -> str:
        """Mark these words wherever they were said, and scroll to the first place that is not above the window. Returns which
        of how many that is."""
        self._finder.look(words, self.scroll_offset.y)
        return self._show_found()

    def find_next(self, by: int) -> str:
        """Scroll to the next place (1) or to the one before (-1)."""
        self._finder.step(by)
        return self._show_found()

    def _show_found(self) -> str:
        if (place := self._finder.place) is not None:
            block, start = place
            if (fold := block.drawing.folded_at(start)) is not None:
                block.turned ^= {fold}
                self._redraw()
            self._show_row(block.row_of(start))
        self._draw_all()
        return self._finder.count

    def _draw_all(self) -> None:
        self._painter.forget(range(self.document.height))
        self.refresh()


class FindLine(LineInput):
    """A line for words to find in the transcript. Hidden until it is opened."""

    BINDING_GROUP_TITLE = "find"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,down", "step(1)", "Next", id="find.next", tooltip="Go to the next place with these words"),
        Binding("up,shift+enter", "step(-1)", "Before", id="find.before", tooltip="Go to the place before"),
    ]
    DEFAULT_CSS = """
    FindLine, FindLine:focus {
        display: none; height: 2; border: none; border-top: solid $accent; border-title-color: $text-muted; padding: 0 1;
        background: $background;
    }
    """

    def __init__(self, reader: Reader, *, id: str | None = None) -> None:
        """`reader` finds the words."""
        super().__init__(id=id, placeholder="Words in this conversation")
        self._reader = reader

    def open(self) -> None:
        """Show it, with the words that were looked for last, and take the keys at once: letters may wait behind this one."""
        self.display = True
        self.screen.set_focus(self)
        self.find()

    def close(self) -> None:
        """Hide it, and the marks."""
        self.display = False
        self._reader.find("")

    @on(LineInput.Changed)
    def find(self) -> None:
        """Find the words."""
        self._tell(self._reader.find(self.value))

    def action_step(self, by: int) -> None:
        """Go to the next place (1), or to the one before (-1)."""
        self._tell(self._reader.find_next(by))

    def _tell(self, count: str) -> None:
        self.border_title = f"find {count}".rstrip()
