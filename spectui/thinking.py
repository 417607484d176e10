"""Which parts of a reply's text are thinking.

Models mark their thinking in many ways. Whoever reads a model's text first (`llama.tokens.reply_text`, `attach.reply`) writes
`OPEN` and `CLOSE` in place of these marks and notes for each token whether it was thought. All others read that note:
`divided`. A conversation that an earlier spectui saved has no notes and is parsed when it is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

OPEN, CLOSE = "<think>", "</think>"
"""The marks that spectui writes."""


class _Form(NamedTuple):
    """How some models write the two marks. `first`: the opening one counts only where nothing is said before it."""

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    first: bool = False


_TURN = "<|start|>assistant"
_FORMS = (
    *(_Form((f"<{name}>",), (f"</{name}>",)) for name in ("think", "thinking", "seed:think", "mm:think")),
    # These are also the names of elements in XML that a model writes.
    *(_Form((f"<{name}>",), (f"</{name}>",), first=True) for name in ("thought", "thoughts", "reason", "reasoning")),
    _Form(("[THINK]",), ("[/THINK]",)),
    _Form(("◁think▷",), ("◁/think▷",)),
    _Form(("<|START_THINKING|>",), ("<|END_THINKING|>",)),
    _Form(("<|begin_of_thought|>",), ("<|end_of_thought|>",)),
    _Form(("<|channel>thought",), ("<channel|>",)),
    _Form(  # Harmony
        tuple(f"{begins}<|channel|>analysis<|message|>" for begins in ("", _TURN)),
        tuple(
            f"{begins}<|channel|>{channel}<|message|>"
            for channel in ("final", "commentary")
            for begins in ("", _TURN, "<|end|>", f"<|end|>{_TURN}")
        ),
    ),
    _Form(("Here is my thought process:",), ("Here is my response:",), first=True),  # Granite
    _Form(("Here are my reasoning steps:",), ("[BEGIN FINAL RESPONSE]",), first=True),  # Apriel
)  # fmt: skip

OPENING = {mark: number for number, form in enumerate(_FORMS) for mark in form.opens}
CLOSING = {mark: number for number, form in enumerate(_FORMS) for mark in form.closes}
"""mark -> its form."""
_LONGEST = max(map(len, (*OPENING, *CLOSING)))
MARK = re.compile(
    "|".join(map(re.escape, sorted((*OPENING, *CLOSING), key=len, reverse=True))).join(("(?=[<\\[◁H])(?:", ")"))
)

_FENCE = re.compile(r"\s*(?:(?:[-+*]|\d{1,9}[.)])\s+)?(?P<run>`{3,}|~{3,})(?P<info>.*)")
"""Also in a list, and after its marker."""
_NO_FENCE = re.compile(r"\s*[^\s`~\d+*-]|.{200}")
_CODE = 4
"""Spaces before a line of code that has no fence (CommonMark)."""

Piece = tuple[bool, str]
"""Whether a text is thinking, and the text."""


class ThoughtStream:
    """Divides a text that grows, and writes `OPEN` and `CLOSE` in place of its marks.

    An opening mark at the start of a line begins a thought, and the next closing mark of its kind ends it. A closing mark
    without an opening one ends a thought that began before the text, as some templates open it in the prompt; a second one
    is left out. Marks in an answer's code, and marks that a line talks about, are ordinary text.

    A text that may be the beginning of a mark is held back until it is known.
    """

    def __init__(self, *, opened: bool = False) -> None:
        """`opened`: the prompt ended with an opening mark."""
        self.thinking = opened
        self._unmarked = opened  # the mark of the prompt is not written yet
        self._form: int | None = None  # of the mark that opened the thought; None: of any form
        self._thought = opened  # there was a thought
        self._spoken = False  # the answer has begun
        self._line = ""  # of the answer: its last line
        self._fence = ""  # the run of characters that has opened the code block
        self._gap: str | None = None  # what comes before the next text in place of its line feeds
        self._held = ""

    def push(self, text: str) -> list[Piece]:
        """The pieces that are certain with this text, which follows on the text before."""
        text, self._held = self._held + text, ""
        pieces, at = self._begun(text), 0
        for mark in MARK.finditer(text):
            pieces += self._pass(text[at : mark.start()])
            pieces += self._mark(mark[0])
            at = mark.end()
        text = text[at:]
        held = self._beginning(text)
        pieces += self._pass(text[: len(text) - held])
        self._held = text[len(text) - held :]
        return [piece for piece in pieces if piece[1]]

    def end(self) -> list[Piece]:
        """The piece that was held back, when no more text comes."""
        text, self._held = self._held, ""
        return [piece for piece in self._pass(text) if piece[1]]

    @property
    def closing(self) -> str:
        """A closing mark for the thought that a mark in the text has opened."""
        return CLOSE if self._form is None else _FORMS[self._form].closes[0]

    @property
    def complete(self) -> bool:
        """Whether no text is held back."""
        return not self._held

    def open(self) -> list[Piece]:
        """A mark that is no text opens a thought."""
        pieces = self.end()
        if not self.thinking:
            pieces += self._open(OPENING[OPEN])
        return pieces

    def close(self) -> list[Piece]:
        """A mark that is no text closes the thought, or one that began before the text."""
        pieces = self.end()
        if self.thinking or not self._thought:
            pieces += self._close()
        return pieces

    def part(self) -> None:
        """Another part of the answer begins: in a paragraph of its own."""
        if self._spoken and not self.thinking:
            self._gap = "\n\n"

    @property
    def spoken_line(self) -> bool:
        """Whether the last line has a word of the answer."""
        return not self.thinking and bool((self._line + self._held).strip())

    def _begun(self, text: str) -> list[Piece]:
        """The mark of the prompt, before the reply's first text."""
        if not self._unmarked or not text:
            return []
        self._unmarked = False
        return [(True, f"{OPEN}\n")]

    def _open(self, form: int | None) -> list[Piece]:
        begins = "\n" if self._line.strip() else ""
        self.thinking, self._thought, self._form, self._line = True, True, form, ""
        return [(True, begins + OPEN)]

    def _close(self) -> list[Piece]:
        begun = self._begun("any")
        begins = "" if self.thinking or not self._line.strip() else "\n"
        self.thinking, self._thought, self._gap, self._spoken, self._line = False, True, "", False, ""
        return [*begun, (True, f"{begins}{CLOSE}\n\n")]

    def _pass(self, text: str) -> list[Piece]:
        """Text without a mark."""
        if self.thinking:
            return [(True, text)]
        if self._gap is not None and (text := text.lstrip("\n")):
            text, self._gap = self._gap + text, None
        *lines, line = (self._line + text).split("\n")
        self._line = line
        for whole in lines:
            self._pass_line(whole)
        self._spoken = self._spoken or bool(text.strip())
        return [(False, text)]

    def _pass_line(self, line: str) -> None:
        """Does this line of the answer begin or end a code block?"""
        if _NO_FENCE.match(line) or (fence := _FENCE.fullmatch(line)) is None:
            return
        run, info = fence["run"], fence["info"]
        if self._fence:
            ends = run.startswith(self._fence) and not info.strip()
            self._fence = "" if ends else self._fence
        elif run[0] == "~" or "`" not in info:
            self._fence = run

    def _mark(self, mark: str) -> list[Piece]:
        """What stands in place of a mark of the text."""
        opens, closes = OPENING.get(mark), CLOSING.get(mark)
        if self.thinking:
            return self._close() if closes is not None and self._form in (closes, None) else self._pass(mark)
        if opens is not None and self._may_open(opens):
            return self._open(opens)
        if closes is not None and self._may_close(closes):
            return [] if self._thought else self._close()
        return self._pass(mark)

    def _may_open(self, form: int) -> bool:
        return self._begins_line and not (self._spoken and _FORMS[form].first)

    def _may_close(self, form: int) -> bool:
        """Does a closing mark of this form, here in the answer, belong to a thought?"""
        talked_about = self._line.count("`") % 2 or any(mark in self._line for mark in OPENING)
        return not (self._fence or _FORMS[form].first or talked_about or self._is_code)

    @property
    def _begins_line(self) -> bool:
        return not (self._fence or self._line.strip() or self._is_code)

    @property
    def _is_code(self) -> bool:
        """Whether the line is indented as code."""
        line = self._line.expandtabs(_CODE)
        return self._spoken and len(line) - len(line.lstrip(" ")) >= _CODE

    def _beginning(self, text: str) -> int:
        """How many characters at the text's end may be the beginning of a mark that counts there."""
        for size in range(min(len(text), _LONGEST - 1), 0, -1):
            begun = text[-size:]
            if begun[0] in "<[◁H" and any(mark.startswith(begun) for mark in self._awaited(text[: len(text) - size])):
                return size
        return 0

    def _awaited(self, before: str) -> Iterable[str]:
        """The marks that would count after this text."""
        if self.thinking:
            return [mark for mark, form in CLOSING.items() if self._form in (form, None)]
        line = (self._line + before).rpartition("\n")[2]
        spoken = self._spoken or bool(before.strip())
        opens = [mark for mark, form in OPENING.items() if not (spoken and _FORMS[form].first)]
        closes = [mark for mark, form in CLOSING.items() if not _FORMS[form].first]
        return [*([] if line.strip() else opens), *closes]


def opens_at_end(prompt: str) -> str | None:
    """The opening mark that a prompt ends with; None if it ends otherwise."""
    end = prompt.rstrip()[-_LONGEST:]
    return next((mark[0] for mark in MARK.finditer(end) if mark.end() == len(end) and mark[0] in OPENING), None)


def closing(mark: str) -> str:
    """The closing mark for this opening one."""
    return _FORMS[OPENING[mark]].closes[0]


def divided(pieces: Iterable[Piece]) -> list[Piece]:
    """The parts of a reply in order, without the marks: whether each is thinking, and its text."""
    parts: list[Piece] = []
    for thought, run in groupby(filter(itemgetter(1), pieces), key=itemgetter(0)):
        text = "".join(part for _, part in run)
        if not thought:
            parts.append((False, text))
            continue
        said, opens, inside = text.partition(OPEN)
        if not opens:  # it began before the text, and so did all that was taken for an answer
            inside, parts, said = "".join(part for _, part in parts) + text, [], ""
        inside, _, answer = inside.rpartition(CLOSE) if CLOSE in inside else (inside, "", "")
        inside = re.sub(rf"{CLOSE}\s*{OPEN}", "\n\n", inside)
        parts += [part for part in ((False, said), (True, inside), (False, answer)) if part[0] or part[1]]
    return [(thinks, "".join(text for _, text in run)) for thinks, run in groupby(parts, key=itemgetter(0))]


def parsed(text: str, *, opened: bool = False) -> list[Piece]:
    """The pieces of a text whose tokens have no notes. `opened`: the prompt had opened a thought."""
    stream = ThoughtStream(opened=opened)
    return stream.push(text) + stream.end()


def thought_and_answer(parts: Iterable[Piece]) -> tuple[str, str]:
    """What the parts of a reply think, and what they answer. Without thinking the answer is the text as it is."""
    parts = list(parts)
    if not any(thinks for thinks, _ in parts):
        return "", "".join(text for _, text in parts)
    thought, said = ([text.strip() for thinks, text in parts if thinks is which] for which in (True, False))
    return "\n\n".join(filter(None, thought)), "\n\n".join(filter(None, said))
