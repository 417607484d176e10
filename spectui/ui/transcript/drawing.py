"""Draws a source, as its tokens or as text: a function of what was written and of a view. No widgets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from spectui.chat.text.code_blocks import code_at, finished
from spectui.ui.transcript.source import CHANGES, FENCE, FOLD, REJECTED, TEXT, THOUGHT, Fold, Source
from spectui.ui.transcript.wrap import ASIDE, Flow, Piece

_ABOVE = {FOLD, CHANGES["+"], CHANGES["-"]}
"""Kinds of what is drawn in place of folded text: what follows begins another row."""


_MAY_END = re.compile(r"^[^\S\n>]*(?:>[^\S\n]*)*(?:`{3,}|~{3,})?[^\S\n]*\n(?=\S)", re.MULTILINE)
"""An empty line or a closing fence, and another line: a block ends nowhere else."""


class View(NamedTuple):
    """How a source is drawn. `turned`: numbers of the folds that a person has folded where `unfolds`, else unfolded. `closed`:
    how many folds have an end; the others stay open. `grows`: the reply is being written: its last block is drawn as tokens."""

    width: int
    as_text: bool = False
    rejected: bool = False
    unfolds: bool = False
    turned: frozenset[int] = frozenset()
    closed: int = 0
    grows: bool = False

    def of(self, source: Source) -> View:
        """The view without what makes no difference to this source."""
        return self._replace(
            as_text=self.as_text and source.is_reply,
            grows=self.grows and self.as_text,
            rejected=self.rejected and bool(source.rejected),
            unfolds=self.unfolds and any(fold.is_thought for fold in source.folds),
            closed=source.closed,
        )

    def folds(self, number: int, fold: Fold) -> bool:
        """Whether a fold is folded: this one, of this number. An edit has an end where it is one."""
        return (number < self.closed or bool(fold.lines)) and (self.unfolds and not fold.lines) == (number in self.turned)


class Drawing(Flow):
    """The rows of a source in a view, as far as it was written when it was drawn. They grow with the reply."""

    __slots__ = ("_rejected", "_tail", "hidden", "source", "view")

    def __init__(self, source: Source, view: View) -> None:
        """Draw it. A reply that was not read yet is read."""
        super().__init__(view.width)
        if not source.read:
            source.grow()
        self.source = source
        self.view = view.of(source)
        self.hidden: list[tuple[int, int]] = []
        """Where thoughts that are folded start and end in the source."""
        self._rejected = 0  # how many rejected tokens were drawn
        self._tail: tuple[int, int] | None = None  # where the block that is drawn as tokens begins: place and row
        self.grow()
        if source.branch:
            self.append([Piece(f"  {source.branch}", source.kind, self.size, ASIDE)])

    def finish(self) -> int | None:
        """Draw the last block too as it will stay. Returns as `grow` does; None where all has to be drawn again."""
        if self._tail is None or self.source.edits:
            return None
        self.view = self.view._replace(grows=False)
        return self.grow()

    def grow(self, *, settles: bool = True) -> int:
        """Draw what was written since. Returns the first row that may look different now. Where nothing `settles`, what is
        drawn as tokens stays so, although its block has ended."""
        text, row = self.source.text, self.height - 1
        if settles and self._tail is not None and self._has_ended(text, self._tail[0]):
            begin, row = self._tail
            self.cut(row, begin)
            self._tail = None
        for start, end, number, fold in self._parts(self.size, len(text)):
            if fold is None:
                self._draw(text, start, end, shade=0)
                continue
            folded = self.view.folds(number, fold)
            if (number < self.view.closed or fold.lines) and start == fold.start:
                self._head(fold, folded)
            if not folded:
                self._draw(text, start, end, shade=THOUGHT if fold.is_thought else 0)
                continue
            for line in fold.lines:
                self.append([Piece(f"\n{line}", CHANGES[line[0]], fold.start, ASIDE)])
            if fold.is_thought:
                self.hidden.append((start, end))
            self._strike(end - 1)
        if rejected := self._strike(len(text)):
            self.append(rejected)
        self.size = len(text)
        return row

    def _has_ended(self, text: str, begin: int) -> bool:
        """Whether the block that begins there, or one behind it, is now to be drawn as it will stay."""
        if not self.view.grows or next(self._parts(begin, len(text)))[1] < len(text):
            return True
        last = max(begin, text.rfind("\n", begin, self.size - 1) + 1)
        # First a look at what is new: a block of 10,000 lines would be read once a frame.
        return _MAY_END.search(text, last) is not None and finished(text[begin:]) > 0

    # What stands where

    def copied(self, start: int = 0, end: int | None = None) -> str:
        """What is drawn between two places of the source as it was written, without thoughts that are folded."""
        end, parts = self.size if end is None else end, []
        for first, last in [*self.hidden, (end, end)]:
            parts.append(self.source.text[start : max(start, min(first, end))])
            start = max(start, min(last, end))
        return "".join(parts)

    def hides(self, token: int) -> bool:
        """Whether a token is folded."""
        start, end = self.source.span(token)
        return any(first <= start and max(end, start + 1) <= last for first, last in self.hidden)

    def token_at(self, row: int, cell: int) -> int | None:
        """The number of the token that is drawn at a cell; None if there is none."""
        drawn = self.at_cell(row, cell)
        return None if drawn is None or drawn.at == ASIDE else self.source.token_at(drawn.place)

    def fold_at(self, row: int, cell: int) -> int | None:
        """The number of the fold whose line is at a cell; None if there is none."""
        drawn = self.at_cell(row, cell)
        if drawn is None or drawn.kind != FOLD:
            return None
        return next((number for number, fold in self._folds if fold.start == drawn.start), None)

    def code_at(self, row: int) -> str:
        """The code whose head is in a row; "" if there is none."""
        head = next(self.rows[row].pieces, None)
        return code_at(self.source.text, head.start) if head is not None and head.kind == FENCE else ""

    def folded_at(self, at: int) -> int | None:
        """The number of the fold that hides this place of the source; None if it is seen."""
        hiding = (
            number
            for number, fold in self._folds
            if fold.start <= at < (len(self.source.text) if fold.end is None else fold.end) and self.view.folds(number, fold)
        )
        return next(hiding, None)

    # How it is drawn

    @property
    def _folds(self) -> list[tuple[int, Fold]]:
        """The folds in order, with their numbers."""
        folds = [*self.source.folds, *(self.source.edits if self.view.as_text and not self.view.grows else ())]
        return sorted(enumerate(folds), key=lambda numbered: numbered[1].start)

    def _parts(self, start: int, end: int) -> Iterator[tuple[int, int, int, Fold | None]]:
        """The parts of the source between two places, each with its fold and that one's number; None: what never folds."""
        for number, fold in self._folds:
            is_open = number >= self.view.closed and not fold.lines
            stop = end if fold.end is None or is_open else min(fold.end, end)
            if fold.start < end and stop > start:
                if start < fold.start:
                    yield start, fold.start, number, None
                yield max(start, fold.start), stop, number, fold
                start = stop
        if start < end:
            yield start, end, 0, None

    def _head(self, fold: Fold, folded: bool) -> None:
        """Draw the line above a fold: `▸ thinking: 312 tokens, 4.1 s`."""
        before = "" if self.last_kind is None else "\n"
        head = f"{before}{'▸' if folded else '▾'} {fold.says}"
        self.append([Piece(head if folded else f"{head}\n", FOLD, fold.start, ASIDE)])

    def _draw(self, text: str, start: int, end: int, *, shade: int) -> None:
        if self.last_kind in _ABOVE and text[start] != "\n":
            self.append([Piece("\n", FOLD, start, ASIDE)])
        grows = self.view.grows and end == len(text)
        if not self.source.is_reply:
            self.append([Piece(text[start:end], self.source.kind, start, start)])
        elif not self.view.as_text or (shade and grows):
            self.append(self._tokens(text, start, end, shade))
        elif shade:
            self.append([Piece(text[start:end], TEXT | shade, start, start)])
        else:
            self._draw_text(text, start, end, grows)

    def _draw_text(self, text: str, start: int, end: int, grows: bool) -> None:
        """Draw Markdown; of what `grows`, the blocks that have ended, and the last one as tokens."""
        settled = end if not grows else start if self._tail is not None else start + finished(text[start:end])
        if start < settled:
            # Its libraries take a twentieth of the window's start.
            from spectui.ui.transcript.markdown.layout import lines_of

            self.extend(lines_of(text[start:settled], start, self.width))
        if settled < end:
            self._tail = self._tail or (settled, self.height - 1)
            self.append(self._tokens(text, settled, end, 0))

    def _tokens(self, text: str, start: int, end: int, shade: int) -> Iterator[Piece]:
        """The pieces of the tokens, each rejected draft before the correction."""
        token = bisect_right(self.source.ends, start)
        while start < end:
            yield from self._strike(start)
            stop = min(self.source.ends[token], end)
            yield Piece(text[start:stop], self.source.kinds[token] | shade, start, start)
            start, token = stop, token + 1

    def _strike(self, until: int) -> list[Piece]:
        """The rejected tokens up to this place of the source."""
        first, self._rejected = self._rejected, bisect_right(self.source.rejected_at, until)
        if not self.view.rejected:
            return []
        return [
            Piece(self.source.rejected[number], REJECTED, self.source.rejected_at[number], ASIDE)
            for number in range(first, self._rejected)
        ]
