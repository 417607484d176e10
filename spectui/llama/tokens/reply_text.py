"""A reply's tokens as text, with every model's thinking between the marks `<think>` and `</think>`.

Many models mark their thinking with control tokens, which have no text, or name a channel before each part of the reply
(Harmony). What these say about the text is in the marks that spectui writes, and they themselves are not shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from spectui.knobs import Knobs
from spectui.llama.model import Model
from spectui.text import TextStream
from spectui.thinking import KNOWN_PAIRS, MARK, Piece, ThoughtStream, closing, opens_at_end

_BRACKETED = r"[<\[◁][^\s<>\[\]◁▷'\"{}]*%s[^\s<>\[\]◁▷'\"{}]*[>\]▷]"
_NAMED = re.compile(_BRACKETED % "(?:think|thought|reason|inner_prefix)", re.IGNORECASE)
_WORDS = (("START", "END"), ("start", "end"), ("begin", "end"), ("prefix", "suffix"))

_PAIRS = (
    *KNOWN_PAIRS, ("<|inner_prefix|>", "<|inner_suffix|>"), ("<unused94>", "<unused95>"),
    ("<think:opensource>", "</think:opensource>"),
)  # fmt: skip
"""Marks of known models, which a template need not name."""

_LONGEST_HEAD = 64
"""Characters of a head: a channel, a recipient and a type of content."""

_TAIL = 64
"""Tokens of a prompt's end in which a mark, and what a template writes after it, fit in any vocabulary."""


class _Channels(NamedTuple):
    """Names of tokens that divide a reply into channels. A head, such as `<|channel|>analysis<|message|>`, names one."""

    heads: tuple[str, ...]
    bodies: tuple[str, ...]
    """They end a head. A line feed does too where there are none."""
    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    """They end the part of a channel."""
    answer: str = ""
    """What stands between a part that is thinking and the answer."""


_CHANNELS = (
    _Channels(  # Harmony
        heads=("<|start|>", "<|channel|>"),
        bodies=("<|message|>",),
        closes=("<|end|>",),
        answer="<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    _Channels(  # Solar
        heads=("<|begin|>",),
        bodies=("<|content|>",),
        opens=("<|think|>",),
        closes=("<|end|>",),
        answer="<|end|><|begin|>assistant<|content|>",
    ),
    _Channels(  # Kimi K3, where a head stands behind the end too
        heads=("<|open|>", "<|close|>"),
        bodies=("<|sep|>",),
        closes=("<|close|>",),
        answer="<|close|>think<|sep|><|open|>response<|sep|>",
    ),
    _Channels(heads=("<|channel>",), bodies=(), closes=("<channel|>",), answer="<channel|>"),  # Gemma 4
)
_THINKING = frozenset(("analysis", "think", "thinking", "thought"))
"""Words of a head whose part a reader need not see."""


class ReplyMarks:
    """The tokens by which a model marks its thinking: from its template and its vocabulary, else from a table."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.opens: set[int] = set()
        self.closes: set[int] = set()
        self.heads: set[int] = set()
        self.bodies: set[int] = set()
        self.line_ends_head = False
        self._closing: dict[int, str] = {}  # for each opening mark
        self._answer = ""
        for channel in _CHANNELS:
            tokens = [[self._token(name) for name in names] for names in channel[:4]]
            if all(None not in names for names in tokens):
                heads, bodies, opens, closes = ({id for id in names if id is not None} for names in tokens)
                self.heads |= heads
                self.bodies |= bodies
                self.opens |= opens
                self.closes |= closes
                self.line_ends_head = self.line_ends_head or not bodies
                self._answer = channel.answer
        if not self.heads:
            for opens_with, closes_with in (*_named(model.template or ""), *_PAIRS):
                opener, closer = self._token(opens_with), self._token(closes_with)
                if opener is not None and closer is not None:
                    self.opens.add(opener)
                    self.closes.add(closer)
                    self._closing.setdefault(opener, closes_with)

    def _token(self, name: str) -> int | None:
        """The token of this name; None if there is none."""
        tokens = self._model.tokenize(name, special=True)
        return tokens[0] if len(tokens) == 1 else None

    def open_at(self, prompt: Sequence[int]) -> str | None:
        """The mark that closes the thinking within which the prompt ends; None if it ends elsewhere."""
        text = ReplyText(self)
        mark = opens_at_end("".join(map(text.push, prompt[-_TAIL:])))
        return None if mark is None else self.closing(text) if text.thinking else closing(mark)

    def closing(self, text: ReplyText) -> str:
        """The mark that closes the thinking in this text."""
        return self._answer or self._closing.get(-1 if text.opened is None else text.opened) or text.closing

    def tokens(self, mark: str) -> list[int]:
        """The tokens of a mark."""
        return self._model.tokenize(mark, special=True)

    def piece(self, token: int) -> bytes:
        """The token's bytes; empty for control tokens."""
        return self._model.piece(token)


class ReplyText:
    """Turns the tokens of a reply, in order, into its text."""

    def __init__(self, marks: ReplyMarks, *, thinking: bool = False) -> None:
        """`thinking`: the prompt has opened it."""
        self.opened: int | None = None
        """The token that opened the thinking last."""
        self.thought = thinking
        """Whether the last token is part of what is thought, or of a mark."""
        self._marks = marks
        self._characters = TextStream()
        self._thoughts = ThoughtStream(opened=thinking)
        self._head: str | None = None

    @property
    def thinking(self) -> bool:
        """Whether the text so far ends within thinking."""
        return self._thoughts.thinking

    @property
    def closing(self) -> str:
        """A mark that closes the thinking which a mark in the text has opened."""
        return self._thoughts.closing

    @property
    def complete(self) -> bool:
        """Whether no character and no mark is begun."""
        return self._characters.complete and self._thoughts.complete

    def push(self, token: int) -> str:
        """The text of one more token, maybe ""."""
        pieces = self._pieces(token)
        self.thought = any(thought for thought, _ in pieces) if pieces else self.thinking
        return "".join(text for _, text in pieces)

    def _pieces(self, token: int) -> list[Piece]:
        marks = self._marks
        piece = marks.piece(token)
        text = self._characters.push(piece)
        if token in marks.closes:
            self._head = "/" if token in marks.heads else None  # a head that begins so opens nothing
            return self._close(text)
        if token in marks.heads:
            self._head = ""
            return []
        if token in marks.bodies:
            return self._begin_body()
        if token in marks.opens:
            self._head = None
            return self._open(text, token)
        if self._head is None:
            return self._thoughts.push(text) if piece else self._thoughts.end()
        self._head += text
        if marks.line_ends_head and "\n" in self._head:
            return self._begin_body()
        if len(self._head) > _LONGEST_HEAD or "\n" in self._head:
            text, self._head = self._head, None  # it was none
            return self._thoughts.push(text)
        return []

    def _begin_body(self) -> list[Piece]:
        words, self._head = (self._head or "").split(), None
        if not _THINKING.isdisjoint(words):
            return self._thoughts.open()
        if self.thinking:
            return self._thoughts.close()
        self._thoughts.part()
        return []

    def _open(self, text: str, token: int) -> list[Piece]:
        """`text`: the mark's own, "" if it is a control token."""
        if text and (self.thinking or self._thoughts.spoken_line):  # where it can be read, it may be talked about
            return self._thoughts.push(text)
        self.opened = token
        return self._thoughts.open()

    def _close(self, text: str) -> list[Piece]:
        """`text`: as above."""
        if self.thinking:
            return self._thoughts.close()
        if self._marks.heads:
            return []
        return self._thoughts.push(text) if text else self._thoughts.close()


class ThoughtLimit:
    """Ends a model's thinking after a number of tokens, as llama.cpp's --reasoning-budget: says which token must come next,
    those of the closing mark once the budget is used up.

    That follows from the tokens before it and the budget alone, so no draft changes it.
    """

    def __init__(self, marks: ReplyMarks, prompt: Sequence[int]) -> None:
        """`prompt`: the tokens before the reply."""
        self._marks = marks
        self._read = len(prompt)
        self._closing = marks.open_at(prompt)  # the mark that closes what the prompt has opened
        self.opened = self._closing is not None
        """Whether the prompt ends within thinking, so that the reply begins there."""
        self._text = ReplyText(marks, thinking=self.opened)
        self._thought = 0
        self._forced: list[int] = []
        self._tried = False

    def forced(self, knobs: Knobs, tokens: Sequence[int]) -> int | None:
        """The token that must come behind these, of prompt and reply; None if the target chooses it."""
        if knobs.reasoning_budget < 0:
            return None
        for token in tokens[self._read :]:
            self._push(token)
        self._read = len(tokens)
        used_up = self._text.thinking and self._thought >= knobs.reasoning_budget and self._text.complete
        # A mark is tried once: what it does not close goes on.
        if used_up and not self._tried and not self._forced:
            self._tried, self._forced = True, self._marks.tokens(self._closing or self._marks.closing(self._text))
        return self._forced[0] if self._forced else None

    def _push(self, token: int) -> None:
        self._forced = self._forced[1:] if self._forced[:1] == [token] else []
        before = self._text.thinking
        self._text.push(token)
        if before and self._text.thinking:
            self._thought += 1
        else:
            self._thought, self._tried = 0, False
        if not self._text.thinking:
            self._closing = None


def marks_in(template: str) -> set[str]:
    """All marks of thinking that a template names."""
    known = {name for channels in _CHANNELS for names in channels[:4] for name in names}
    return {*_NAMED.findall(template), *(mark[0] for mark in MARK.finditer(template)), *filter(template.__contains__, known)}


def _named(template: str) -> list[tuple[str, str]]:
    """The marks that a template names, with what would close them."""
    return [(name, other) for name in dict.fromkeys(_NAMED.findall(template)) for other in _partners(name)]


def _partners(name: str) -> list[str]:
    """How a mark that closes this one can be written."""
    slashed = re.sub(r"^([<\[◁]\|?)", r"\1/", name)
    turned = [f"<{name[2:-1]}|>"] if name.startswith("<|") and not name.endswith("|>") else []
    return [slashed, *turned, *(name.replace(begins, ends) for begins, ends in _WORDS if begins in name)]
