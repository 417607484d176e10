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
    """How some models write the two marks. `common`: answers may have them too, so that they count only around a thought."""

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    common: bool = False


_TURN = "<|start|>assistant"
_FORMS = (
    *(_Form((f"<{name}>",), (f"</{name}>",)) for name in ("think", "thinking", "seed:think", "mm:think")),
    # These are also the names of elements in XML that a model writes.
    *(_Form((f"<{name}>",), (f"</{name}>",), common=True) for name in ("thought", "thoughts", "reason", "reasoning")),
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
    _Form(("Here is my thought process:",), ("Here is my response:",), common=True),  # Granite
    _Form(("Here are my reasoning steps:",), ("[BEGIN FINAL RESPONSE]",), common=True),  # Apriel
)

KNOWN_PAIRS = [(form.opens[0], form.closes[0]) for form in _FORMS]
"""(opening mark, closing mark)."""
OPENING = {mark: number for number, form in enumerate(_FORMS) for mark in form.opens}
CLOSING = {mark: number for number, form in enumerate(_FORMS) for mark in form.closes}
"""mark -> its form."""
_ALONE = frozenset(mark for marks in (OPENING, CLOSING) for mark, form in marks.items() if not _FORMS[form].common)
"""Those that also count within an answer: a closing one may end a thought that began before the text."""
_LONGEST = max(map(len, (*OPENING, *CLOSING)))
MARK = re.compile("|".join(map(re.escape, sorted((*OPENING, *CLOSING), key=len, reverse=True))).join(("(?=[<\\[◁H])(?:", ")")))

_FENCE = re.compile(r"\s*(?:(?:[-+*]|\d{1,9}[.)])\s+)?(?:```|~~~)[^`]*")
"""Also in a list, and after its marker."""

Piece = tuple[bool, str]
"""Whether a text is thinking, and the text."""


class ThoughtStream:
    """Divides a text that grows, and writes `OPEN` and `CLOSE` in place of its marks.

    An opening mark begins a thought where no answer has begun, and the next closing mark of its kind ends it. A closing mark
    without an opening one ends a thought that began before the text, as some templates open it in the prompt; a second one
    is left out. Marks in code, between backquotes, or behind an opening mark in an answer are ordinary text.

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
        self._code = False  # the last line is in a code block
        self._named = False  # the answer talks about marks
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
            self._code ^= _FENCE.fullmatch(whole) is not None
        self._spoken = self._spoken or bool(text.strip())
        return [(False, text)]

    def _mark(self, mark: str) -> list[Piece]:
        """What stands in place of a mark of the text."""
        opens, closes = OPENING.get(mark), CLOSING.get(mark)
        if self.thinking:
            return self._close() if closes is not None and self._form in (closes, None) else self._pass(mark)
        if opens is not None and not self._spoken:
            return self._open(opens)
        if closes is not None and mark in _ALONE and not (self._named or self._code or self._line.count("`") % 2):
            return [] if self._thought else self._close()
        self._named = self._named or (opens is not None and mark in _ALONE)
        return self._pass(mark)

    def _beginning(self, text: str) -> int:
        """How many characters at the text's end may be the beginning of a mark that counts there."""
        for size in range(min(len(text), _LONGEST - 1), 0, -1):
            begun = text[-size:]
            if begun[0] in "<[◁H" and any(mark.startswith(begun) for mark in self._awaited):
                return size
        return 0

    @property
    def _awaited(self) -> Iterable[str]:
        """The marks that may count behind the text."""
        if self.thinking:
            return [mark for mark, form in CLOSING.items() if self._form in (form, None)]
        return _ALONE if self._spoken else {*OPENING, *_ALONE}


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
