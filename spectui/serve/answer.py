"""A reply on its way to a client: from the engine's events to the parts of an answer, and to the figures that go with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, NamedTuple

from spectui.chat.figures.reasons import worded
from spectui.engine.events import Event, Failed, Finished, Prompt, RoundDone
from spectui.serve.tools import Calls, Delta, Form
from spectui.speculation.records import Round, StopReason, Token
from spectui.speculation.statistics import Statistics
from spectui.thinking import CLOSE, OPEN


@dataclass(eq=False)
class Part:
    """A part of an answer. `kind`: thought, text or call. `text`: what it is so far; of a call, its arguments."""

    kind: str
    index: int = 0
    text: str = ""
    name: str = ""
    id: str = ""


Added = list[tuple[Part, str]]
"""Texts with the part that each belongs to. A call begins with an empty one."""


class Written(NamedTuple):
    """A token of the reply. `likeliest`: id, text and probability of those that were likeliest there."""

    token: Token
    likeliest: list[tuple[int, str, float]]


class Answer:
    """Collects one reply."""

    def __init__(self, form: Form | None, tools: Collection[str], marks: Mapping[int, str]) -> None:
        """`form`: how it may call these tools. `marks`: the texts of tokens that have none."""
        self._calls = Calls(form, tools) if form is not None and tools else None
        self._marks = marks if tools else {}
        self._blank = False  # nothing but white space has come in this part of the reply
        self._space = ""  # of a thought, which counts only if more comes
        self.parts: list[Part] = []
        self.tokens: list[Written] = []
        self.last: Round | None = None
        self.statistics = Statistics()
        self.prompt = Prompt(0, 0, 0, 0.0)
        """The latest news of how much of the prompt is read."""
        self.ended: Finished | Failed | None = None

    def take(self, event: Event) -> Iterator[tuple[list[Written], Added]]:
        """Take an event: each of its tokens, with what that adds. The end of a reply may add a text without a token."""
        if isinstance(event, Prompt):
            self.prompt = event
        elif isinstance(event, RoundDone):
            self.last, likeliest = event.round, event.round.likeliest
            self.statistics.add(event.round)
            for at, token in enumerate(event.round.tokens):
                written = Written(token, likeliest.at(at) if likeliest is not None else [])
                self.tokens.append(written)
                yield [written], self._added(self._divided(token))
        elif isinstance(event, Finished | Failed):
            self.ended = event
            yield [], self._added(self._calls.end() if self._calls is not None else ())

    def _added(self, deltas: Iterable[Delta]) -> Added:
        """Add the deltas to the parts."""
        added: Added = []
        for kind, text in deltas:
            if kind == "name":
                self.parts.append(Part("call", len(self.parts), name=text, id=token_hex(5)[:9]))
                text = ""
            elif not self.parts or self.parts[-1].kind != kind:
                self.parts.append(Part(kind, len(self.parts)))
            self.parts[-1].text += text
            added.append((self.parts[-1], text))
        return added

    def _divided(self, token: Token) -> Iterator[Delta]:
        text = token.text or self._marks.get(token.id, "")
        if token.thought:
            self._blank = self._blank or OPEN in text
            inside, closes, text = text.replace(OPEN, "").partition(CLOSE)
            yield from self._thought(inside)
            if closes:
                self._blank, self._space = True, ""
        if self._blank:
            text = text.lstrip()
            self._blank = not text
        if text:
            yield from self._calls.push(text) if self._calls is not None else [Delta("text", text)]

    def _thought(self, text: str) -> Iterator[Delta]:
        text = (self._space + text).lstrip() if self._blank else self._space + text
        said = text.rstrip()
        self._space = text[len(said) :]
        if said:
            self._blank = False
            yield Delta("thought", said)

    def text(self, kind: str = "text") -> str:
        """All that was said, or thought."""
        return "".join(part.text for part in self.parts if part.kind == kind)

    @property
    def stopped(self) -> bool:
        """Whether a stop text ended it."""
        return isinstance(self.ended, Finished) and self.ended.reason is StopReason.STOP

    @property
    def why(self) -> str:
        """stop, length, tool_calls or cancelled."""
        reason = self.ended.reason if isinstance(self.ended, Finished) else StopReason.CANCELLED
        if reason in (StopReason.LIMIT, StopReason.CONTEXT, StopReason.SERVER_LIMIT):
            return "length"
        if any(part.kind == "call" for part in self.parts):
            return "tool_calls"
        return "cancelled" if reason is StopReason.CANCELLED else "stop"

    def figures(self) -> dict[str, Any]:
        """llama-server's `timings` so far, and why the last round drafted so."""
        figures, prompt, last = self.statistics, self.prompt, self.last
        timings = {
            "cache_n": prompt.reused,
            **_speed("prompt", max(0, prompt.done - prompt.reused), prompt.seconds),
            **_speed("predicted", len(self.tokens), figures.decode_s),
            "draft_n": figures.drafted,
            "draft_n_accepted": figures.accepted,
        }
        why = worded(last.reason, last.knobs) if last is not None and last.reason is not None else ""
        return {"timings": timings, "spectui": {"reason": why}}

    def usage(self) -> dict[str, Any]:
        """OpenAI's counts of tokens."""
        return {
            "prompt_tokens": self.prompt.total,
            "completion_tokens": len(self.tokens),
            "total_tokens": self.prompt.total + len(self.tokens),
            "prompt_tokens_details": {"cached_tokens": self.prompt.reused},
        }


def _speed(name: str, tokens: int, seconds: float) -> dict[str, Any]:
    """llama-server's figures of so many tokens."""
    return {
        f"{name}_n": tokens,
        f"{name}_ms": 1000 * seconds,
        f"{name}_per_second": tokens / seconds if seconds else 0.0,
        f"{name}_per_token_ms": 1000 * seconds / tokens if tokens else 0.0,
    }
