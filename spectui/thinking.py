"""Which parts of a reply's text are thinking.

The engine writes every model's thinking between `<think>` and `</think>` where marks are tokens of the vocabulary
(`llama.tokens.reply_text`). Other marks are ordinary text, or stand in conversations that an earlier spectui saved: a table
has them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

OPEN, CLOSE = "<think>", "</think>"
"""The marks that spectui writes."""

TAIL = 64
"""Last characters of the text that are searched again: a mark may span several tokens, and must begin its line."""


class _Form(NamedTuple):
    """Two marks, as regular expressions. `first`: the opening one counts only where nothing is said before it."""

    opens: str
    closes: str
    first: bool = False


_FORMS = (
    *(_Form(f"<{name}>", f"</{name}>") for name in ("think", "thinking", "seed:think", "mm:think")),
    # These are also the names of elements in XML that a model writes.
    *(_Form(f"<{name}>", f"</{name}>", first=True) for name in ("thought", "thoughts", "reason", "reasoning")),
    _Form(r"\[THINK\]", r"\[/THINK\]"),
    _Form("◁think▷", "◁/think▷"),
    _Form(r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    _Form(r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    _Form(r"<\|channel>thought", r"<channel\|>"),
    _Form(  # Harmony
        r"(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>",
        r"(?:<\|end\|>)?(?:<\|start\|>assistant)?<\|channel\|>(?:final|commentary)<\|message\|>",
    ),
    _Form("Here is my thought process:", "Here is my response:", first=True),  # Granite
    _Form("Here are my reasoning steps:", r"\[BEGIN FINAL RESPONSE\]", first=True),  # Apriel
)  # fmt: skip

MARK = re.compile(
    r"(?=[<\[◁H])(?:"
    + "|".join(f"(?P<o{n}>{form.opens})|(?P<c{n}>{form.closes})" for n, form in enumerate(_FORMS))
    + ")"
)


@dataclass(slots=True, eq=False)
class Section:
    """A stretch of a reply's text with the marks around it. `end` is None while it lasts.

    What was thought is from `begins` to `ends`, which leaves out the marks.
    """

    start: int
    begins: int
    end: int | None = None
    ends: int | None = None
    form: int | None = None
    """Which marks these are; None if the prompt has opened it."""


_SPOKEN = re.compile(r"\S")
_FENCE = re.compile(r"\s*(?:(?:[-+*]|\d{1,9}[.)])\s+)?(?P<run>`{3,}|~{3,})(?P<info>.*)")
"""Also in a list, and behind its marker."""
_NO_FENCE = re.compile(r"\s*[^\s`~\d+*-]|.{200}")
_CODE = 4
"""Spaces before a line of code that has no fence (CommonMark)."""

Kind = TypeVar("Kind", bound=Section)


class Thoughts(Generic[Kind]):
    """The sections of a text that grows.

    An opening mark at the start of a line begins a section, and the next closing mark of its kind ends it. A closing mark at
    the start of a line without an opening one ends a section that began before the text: some templates open it in the
    prompt. Marks elsewhere, and in an answer's code, are ordinary text about thinking.
    """

    __slots__ = ("_fence", "_kind", "_line", "_said", "_tail", "length", "sections")

    def __init__(self, kind: type[Kind]) -> None:
        self.sections: list[Kind] = []
        self.length = 0
        self._kind = kind
        self._tail = ""
        self._line = ""  # of the answer, the line so far
        self._fence = ""  # the run of characters that has opened the code block; "" outside of one
        self._said: int | None = None  # where the first character is that is neither thought nor space

    @property
    def open(self) -> Kind | None:
        """The section that is not closed yet."""
        return self.sections[-1] if self.sections and self.sections[-1].end is None else None

    def begin(self) -> None:
        """The prompt ended with an opening mark. Nothing happens if there is text already."""
        if not self.length and not self.sections:
            self.sections.append(self._kind(0, 0))

    def feed(self, text: str) -> list[Kind]:
        """More of the text. Returns the sections that it has closed."""
        window, seen = self._tail + text, len(self._tail)
        before = self.length - seen
        self.length += len(text)
        self._tail = window[-TAIL:]
        closed, at = [], seen
        for mark in MARK.finditer(window):
            if mark.end() > seen:
                self._hear(window[at : mark.start()], before + at)
                closed += self._pass(mark, before)
                at = mark.end()
        self._hear(window[at:], before + at)
        return closed

    def at(self, start: int, end: int) -> Kind | None:
        """The section that contains the text from `start` to `end`, or a part of it."""
        number = bisect_left(self.sections, max(end, start + 1), key=lambda section: section.start)
        section = self.sections[number - 1] if number else None
        return section if section is not None and (section.end is None or section.end > start) else None

    def _hear(self, text: str, start: int) -> None:
        if self.open is not None:
            return
        *lines, line = (self._line + text).split("\n")
        self._line = "-" if _NO_FENCE.match(line) else line
        for each in lines:
            self._pass_line(each)
        if self._said is None and (found := _SPOKEN.search(text)):
            self._said = start + found.start()

    def _pass_line(self, line: str) -> None:
        """Does this line of the answer begin or end a code block?"""
        if (fence := _FENCE.fullmatch(line)) is None:
            return
        run, info = fence["run"], fence["info"]
        if self._fence:
            ends = run.startswith(self._fence) and not info.strip()
            self._fence = "" if ends else self._fence
        elif run[0] == "~" or "`" not in info:
            self._fence = run

    def _pass(self, mark: re.Match[str], before: int) -> list[Kind]:
        """Pass a mark of the searched text, which begins behind `before` characters. Returns what it closes."""
        group = mark.lastgroup or ""
        form, closes = int(group[1:]), group[0] == "c"
        start, end, section = before + mark.start(), before + mark.end(), self.open
        indent = mark.string[: mark.start()].rpartition("\n")[2]
        if self._said is not None and self._said >= start:
            self._said = None  # it was heard in pieces
        unsaid = self._said is None
        begins_line = not indent.strip() and (unsaid or len(indent.expandtabs(_CODE)) < _CODE)
        if section is None and self._fence:
            self._line += mark[0]
            return []
        if closes and section is None and begins_line and not self.sections and not _FORMS[form].first:
            section = self._kind(0, 0)
            self.sections.append(section)
            self._said = None
        elif not closes and section is None and begins_line and (unsaid or not _FORMS[form].first):
            self.sections.append(self._kind(start, end, form=form))
        if section is None:
            self._line += mark[0]
        if not closes or section is None or section.form not in (form, None):
            return []
        self._line = ""
        section.end, section.ends = end, start
        return [section]


def opens_at_end(prompt: str) -> int | None:
    """The form of the opening mark that a prompt ends with; None if it ends otherwise."""
    end = prompt.rstrip()[-TAIL:]
    groups = [mark.lastgroup or "" for mark in MARK.finditer(end) if mark.end() == len(end)]
    return next((int(group[1:]) for group in groups if group[0] == "o"), None)


def closing(form: int) -> str:
    """The closing mark of this form."""
    return re.sub(r"\\(.)", r"\1", _FORMS[form].closes)


def divided(text: str, *, opened: bool) -> list[tuple[bool, str]]:
    """The parts of a reply in order, without the marks: whether it is thinking, and its text.

    `opened`: the prompt had opened it. An unclosed part lasts to the end.
    """
    thoughts, found, at = Thoughts(Section), [], 0
    if opened:
        thoughts.begin()
    thoughts.feed(text)
    for section in thoughts.sections:
        end = len(text) if section.end is None else section.end
        found += [(False, text[at : section.start]), (True, text[section.begins : section.ends])]
        at = end
    return [*found, (False, text[at:])]


def split(text: str, *, opened: bool = False) -> tuple[str, str]:
    """What a reply thinks, and what it answers. Without thinking the answer is the text as it is."""
    parts = divided(text, opened=opened)
    if len(parts) == 1:
        return "", text
    thought, said = ([each.strip() for thinks, each in parts if thinks is which] for which in (True, False))
    return "\n\n".join(filter(None, thought)), "\n\n".join(filter(None, said))
