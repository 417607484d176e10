"""Makes a page of a reply's text: markdown-it finds the blocks, and each line of the source becomes a line of the page.

A line whose marks cannot be told from its text is drawn as it is written, so no letter is ever lost: not of a list that is
nested deeper than markdown-it reads, nor of a table with more cells than its head.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markdown_it.token import Token

from spectui.ui.transcript.blocks import FOLD, KINDS, ORIGINS, TEXT, THOUGHT
from spectui.ui.transcript.markdown.code import highlighted
from spectui.ui.transcript.markdown.inline import MARKDOWN, SIGN, shown
from spectui.ui.transcript.markdown.page import NOWHERE, Line, Page, Piece, Prefix, Runs
from spectui.ui.transcript.markdown.table import Cell, Row, cells_of, table
from spectui.ui.transcript.wrap import Flow

TITLE, SUBTITLE = KINDS.index("title"), KINDS.index("subtitle")
BAR, FENCE_BEGINS, FENCE_WITH_LABEL, FENCE_ENDS = ("│ ", SIGN), ("╭", SIGN), ("╭ ", SIGN), ("╰", SIGN)
QUOTE = ("▎ ", SIGN)
LONGEST_RULE = 40

_MARKS = re.compile(r"[\s*_`~#>|+\-=:\\]*")
"""What may be left out of a line."""

_FIRST_MARKS = re.compile(r"[\s*_`~#>|+\-=:\\0-9.)]*")
"""The same at its beginning, where an item's number is drawn instead."""

_SPOKEN = {TEXT, *ORIGINS}


def page_of(flow: Flow, width: int) -> Page:
    """A page of a reply's tokens without rejected ones. Thinking, and the headings of its sections, stay as they are."""
    text = flow.text  # as it is now: a reply may go on while a thread lays it out
    page, fitted = Page(width, len(text)), False
    lines: list[Line] = []
    for start, end, kind in _stretches(flow, len(text)):
        if kind == TEXT:
            answer = _Answer(text[start:end], start, page.width)
            lines += answer.lines()
            fitted |= answer.fitted
        else:
            lines.append(Line(Prefix(), [Piece(text[start:end], kind, start, start)]))
    page.fill(lines, fitted=fitted)
    return page


def pages_of(flows: Iterable[Flow], width: int) -> list[Page]:
    """A page of each, for a worker thread."""
    return [page_of(flow, width) for flow in flows]


def _stretches(flow: Flow, size: int) -> Iterator[tuple[int, int, int]]:
    """Start, end and kind of what is drawn in one way, up to `size`. `TEXT` is what the model says."""
    begin, last = 0, TEXT
    for start, end, kind in flow.stretches():
        drawn = TEXT if kind in _SPOKEN else FOLD if kind == FOLD else TEXT | THOUGHT
        if drawn != last and start < min(end, size):
            if start > begin:
                yield begin, start, last
            begin, last = start, drawn
    if size > begin:
        yield begin, size, last


@dataclass
class _Container:
    """A quote or an item of a list. `first` is drawn before its `line`, and `rest` before the others."""

    line: int
    first: str
    rest: str


class _Answer:
    """The lines of a stretch of the source."""

    def __init__(self, text: str, base: int, width: int) -> None:
        """`base`: where the source has it."""
        self.fitted = False
        self._base = base
        self._width = width
        self._text = text
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._laid: list[list[Line] | None] = [None] * len(self._lines)
        self._quoted: dict[int, Prefix] = {}
        self._containers: list[_Container] = []

    def lines(self) -> Iterator[Line]:
        """All lines with their ends."""
        tokens: list[Token] = []
        MARKDOWN.block.parse(self._text, MARKDOWN, {}, tokens)
        self._walk(tokens)
        for number, laid in enumerate(self._laid):
            end = self._base + self._starts[number + 1] - 1
            newline = [Piece("\n", TEXT, end, end)] if number + 1 < len(self._laid) else []
            *before, last = laid or [self._as_it_is(number)]
            yield from before
            if newline and last.pieces:
                newline[0] = newline[0]._replace(kind=last.pieces[-1].kind)
            yield Line(last.prefix, last.pieces + newline)

    def _as_it_is(self, number: int) -> Line:
        text, start = self._lines[number], self._base + self._starts[number]
        if number in self._quoted and not text.strip("> \t"):
            return Line(self._quoted[number], [])
        return Line(Prefix(), [Piece(text, TEXT, start, start)] if text else [])

    def _walk(self, tokens: Sequence[Token]) -> None:
        kind, rows, aligned = TEXT, list[Row](), list[str]()
        for token in tokens:
            begin, end = token.map or (0, 0)
            if token.type == "blockquote_open":
                self._containers.append(_Container(NOWHERE, QUOTE[0], QUOTE[0]))
                self._quoted.update((number, self._prefix(number)) for number in range(begin, end))
            elif token.type == "list_item_open":
                mark = f"{token.info}{token.markup} " if token.info else "• "
                self._containers.append(_Container(begin, mark, " " * len(mark)))
            elif token.type in ("blockquote_close", "list_item_close"):
                self._containers.pop()
            elif token.type == "heading_open":
                kind = TITLE if token.tag == "h1" else SUBTITLE
                if token.markup in "=-":
                    self._lay_rule(end - 1)
            elif token.type == "heading_close":
                kind = TEXT
            elif token.type == "table_open":
                rows, aligned = [], []
            elif token.type == "tr_open":
                rows.append(Row(begin, [], head=not rows))
            elif token.type in ("th_open", "td_open"):
                aligned += [str(token.attrs.get("style", ""))[len("text-align:") :]] if rows[0] is rows[-1] else []
            elif token.type == "table_close":
                self._lay_table(rows, aligned)
                rows = []
            elif token.type == "inline" and rows:
                rows[-1].cells.append(token.content)
            elif token.type == "inline":
                self._lay_text(begin, token.content, kind)
            elif token.type == "fence":
                self._lay_fence(begin, end, token)
            elif token.type == "code_block":
                self._lay_code(begin, token.content, "")
            elif token.type == "hr":
                self._lay_rule(begin)

    # Kinds of blocks

    def _lay_text(self, first: int, content: str, kind: int) -> None:
        """A paragraph, or a heading."""
        starts = []  # where the text has the content's lines
        contents = content.split("\n")
        for number, line in enumerate(contents, first):
            whole = self._lines[number]
            at = len(whole.rstrip()) - len(line.rstrip())
            if kind != TEXT and len(contents) == 1:
                at = whole.find(line)  # there may be marks behind it
            if at < 0 or not whole.startswith(line.rstrip(), at):
                return
            starts.append(self._starts[number] + at)
        pieces: list[list[Piece]] = [[] for _ in contents]
        row = passed = 0  # of the content
        for start, at, end, own in shown(content, kind):
            while at < end:
                newline = content.find("\n", at, end)
                stop = end if newline < 0 else newline
                shift = self._base + starts[row] - passed
                if stop > at:
                    begins = start + shift if pieces[row] else self._base + self._starts[first + row]
                    pieces[row].append(Piece(content[at:stop], own, begins, at + shift))
                if newline >= 0:
                    stop = passed = newline + 1
                    row += 1
                start = at = stop
        for number, each in enumerate(pieces, first):
            self._lay(number, each)

    def _lay_rule(self, number: int) -> None:
        self._lay(number, [self._made("─" * min(LONGEST_RULE, self._room(number)), number)])
        self.fitted = True

    def _lay_fence(self, first: int, end: int, token: Token) -> None:
        line, begin = self._lines[first], self._base + self._starts[first]
        behind = line.find(token.markup) + len(token.markup)
        info = line[behind:].strip()
        at = line.find(info, behind)
        label = Piece(info, SIGN, begin, begin + at) if info else self._made("─", first)
        self._lay(first, [label], FENCE_WITH_LABEL if info else FENCE_BEGINS, BAR)
        language = info.split(maxsplit=1)[0] if info else ""
        if (behind := self._lay_code(first + 1, token.content, language)) < end:
            self._lay(behind, [self._made("─", behind)], FENCE_ENDS)

    def _lay_code(self, first: int, code: str, language: str) -> int:
        """The lines of a code. Returns the one behind them."""
        parts = iter(highlighted(code, language))
        start, end, kind = next(parts, (len(code), len(code), TEXT))
        passed = 0
        lines = code.split("\n")[: None if code[-1:] not in ("\n", "") else -1]
        for number, line in enumerate(lines, first):
            whole = self._lines[number]
            at = len(whole) - len(line)
            begin = self._base + self._starts[number]
            if not whole.endswith(line):  # a tab that is partly indentation
                line, at = whole, 0
            pieces: list[Piece] = []
            done, stop = passed, passed + len(line)
            while done < stop:
                while end <= done:
                    start, end, kind = next(parts, (len(code), len(code) + 1, TEXT))
                own = kind if start <= done else TEXT
                until = min(stop, end if start <= done else max(start, done))
                place = begin + at + done - passed
                text = line[done - passed : until - passed]
                pieces.append(Piece(text, own, place if pieces else begin, place))
                done = until
            passed += len(lines[number - first]) + 1
            self._lay(number, pieces, BAR, BAR)
        return first + len(lines)

    def _lay_table(self, rows: Sequence[Row], aligned: Sequence[str]) -> None:
        found = [(row, cells_of(self._lines[row.line], row.cells)) for row in rows]
        drawn = [(row, cells) for row, cells in found if cells is not None and self._leaves_marks(row.line, cells)]
        if not drawn or drawn[0][0] is not rows[0]:
            return
        made = table(drawn, aligned, self._lines, self._room(rows[0].line))
        self.fitted = True
        for number, lines in made:
            begin = self._base + self._starts[number]
            self._laid[number] = [
                Line(self._prefix(number), [piece.moved(begin) for piece in pieces]) for pieces in lines
            ]

    def _leaves_marks(self, number: int, cells: Sequence[Cell]) -> bool:
        return self._only_marks(number, [(at, end) for cell in cells for _, at, end, _ in cell.parts])

    # Lines

    def _lay(
        self,
        number: int,
        pieces: list[Piece],
        first: tuple[str, int] | None = None,
        rest: tuple[str, int] | None = None,
    ) -> None:
        """Draw a line in this way, unless that left a letter out."""
        begin = self._base + self._starts[number]
        drawn = [(piece.at - begin, piece.at - begin + len(piece.text)) for piece in pieces if piece.at != NOWHERE]
        prefix = self._prefix(number, first, rest)
        if self._only_marks(number, drawn) and sum(len(text) for text, _ in prefix.first) <= self._width // 2:
            self._laid[number] = [Line(prefix, pieces)]

    def _only_marks(self, number: int, drawn: Sequence[tuple[int, int]]) -> bool:
        """Whether there are only marks between these parts of a line."""
        line, done = self._lines[number], 0
        for at, end in [*drawn, (len(line), len(line))]:
            if not (_MARKS if done else _FIRST_MARKS).fullmatch(line, done, at):
                return False
            done = end
        return True

    def _prefix(self, number: int, first: tuple[str, int] | None = None, rest: tuple[str, int] | None = None) -> Prefix:
        before = tuple((each.first if each.line == number else each.rest, SIGN) for each in self._containers)
        after = tuple((each.rest, SIGN) for each in self._containers)
        return Prefix(_joined(before, first), _joined(after, rest))

    def _room(self, number: int) -> int:
        """Cells beside what is drawn before a line."""
        return self._width - sum(len(text) for text, _ in self._prefix(number).first)

    def _made(self, text: str, number: int) -> Piece:
        """A text that stands for a whole line."""
        return Piece(text, SIGN, self._base + self._starts[number], NOWHERE)


def _joined(runs: Runs, more: tuple[str, int] | None) -> Runs:
    return (*runs, more) if more else runs
