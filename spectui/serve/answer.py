"""A reply on its way to a client: from the engine's events to what is new, and to the figures that go with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from spectui.chat.figures.reasons import worded
from spectui.engine.events import Event, Failed, Finished, Prompt, RoundDone
from spectui.knobs import Knobs
from spectui.serve.tools import Calls, Delta, Form
from spectui.speculation.records import Round, StopReason, Token
from spectui.speculation.sampling import chain
from spectui.speculation.statistics import Statistics
from spectui.thinking import CLOSE, OPEN


class Answer:
    """Collects one reply."""

    def __init__(self, form: Form | None, tools: Collection[str], marks: Mapping[int, str]) -> None:
        """`form`: how it may call these tools. `marks`: the texts of tokens that have none."""
        self._calls = Calls(form, tools) if form is not None and tools else None
        self._marks = marks if tools else {}
        self._inside = self._blank = False  # in a thought; nothing but white space has come in this part of the reply
        self._space = ""  # of a thought, which counts only if more comes
        self.deltas: list[Delta] = []
        self.tokens: list[Token] = []
        self.likeliest: list[list[tuple[int, str, float]]] = []
        """Of each token: id, text and probability of those that were likeliest there."""
        self.last: Round | None = None
        self.statistics = Statistics()
        self.prompt: Prompt | None = None
        """What was read of the prompt last."""
        self.ended: Finished | Failed | None = None

    def take(self, event: Event) -> Iterator[tuple[range, list[Delta]]]:
        """What an event brings: the index of each new token with what it makes visible. The end has no token."""
        if isinstance(event, Prompt):
            self.prompt = event
        elif isinstance(event, RoundDone):
            self.last = event.round
            self.statistics.add(event.round)
            for at, token in enumerate(event.round.tokens):
                self.tokens.append(token)
                self.likeliest.append(event.round.likeliest.at(at) if event.round.likeliest is not None else [])
                yield range(len(self.tokens) - 1, len(self.tokens)), self._kept(self._divided(token))
        elif isinstance(event, Finished | Failed):
            self.ended = event
            yield range(0), self._kept(self._calls.end() if self._calls is not None else ())

    def _kept(self, new: Any) -> list[Delta]:
        found = list(new)
        self.deltas += found
        return found

    def _divided(self, token: Token) -> Iterator[Delta]:
        text = token.text or self._marks.get(token.id, "")
        if token.thought and OPEN in text:
            text, self._inside, self._blank = text.replace(OPEN, ""), True, True
        inside, closes, after = text.partition(CLOSE) if token.thought else (text, "", "")
        if self._inside or token.thought:
            yield from self._thought(inside)
            if closes:
                self._inside, self._blank, self._space = False, True, ""
                text = after
            else:
                return
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

    def sampled(self, index: int) -> list[tuple[int, str, float]]:
        """The likeliest tokens there with the probabilities that top-k, top-p, min-p and the temperature leave them."""
        likeliest, knobs = self.likeliest[index][: self.knobs.top_k or None], self.knobs
        if knobs.temperature <= 0.0 or not likeliest:
            return [(id, text, 1.0) for id, text, _ in likeliest[:1]]
        scores = chain(np.log(np.array([[p for _, _, p in likeliest]], np.float32)), knobs)[0]
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        return [(id, text, p) for (id, text, _), p in zip(likeliest, shares.tolist(), strict=True) if p > 0.0]

    def text(self, kind: str = "text") -> str:
        """All that was said, or thought."""
        return "".join(delta.text for delta in self.deltas if delta.kind == kind)

    def calls(self) -> list[tuple[str, str, str]]:
        """Id, name and arguments of each call."""
        begun = [delta for delta in self.deltas if delta.kind == "call"]
        return [
            (call.id, call.text, "".join(d.text for d in self.deltas if d.kind == "arguments" and d.number == call.number))
            for call in begun
        ]

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
        if self._calls is not None and self._calls.number:
            return "tool_calls"
        return "cancelled" if reason is StopReason.CANCELLED else "stop"

    @property
    def knobs(self) -> Knobs:
        """Those of the last round, or of the end without one."""
        if self.last is not None:
            return self.last.knobs
        return self.ended.knobs if isinstance(self.ended, Finished) else Knobs()

    @property
    def read(self) -> tuple[int, int]:
        """Tokens of the prompt, and how many of them were reused."""
        return (self.prompt.total, self.prompt.reused) if self.prompt is not None else (0, 0)

    def figures(self, tokens: int | None = None) -> dict[str, Any]:
        """llama-server's `timings` after so many tokens of the reply, None for all, and why the last round drafted so."""
        figures, shown = self.statistics, len(self.tokens) if tokens is None else tokens
        read = max(0, self.prompt.done - self.read[1]) if self.prompt is not None else 0
        last, reason = self.last, self.last.reason if self.last is not None else None
        timings = {
            "cache_n": self.read[1],
            **_speed("prompt", read, self.prompt.seconds if self.prompt is not None else 0.0),
            **_speed("predicted", shown, figures.decode_s),
            "draft_n": figures.drafted,
            "draft_n_accepted": figures.accepted,
        }
        why = worded(reason, last.knobs) if last is not None and reason is not None else ""
        return {"timings": timings, "spectui": {"reason": why}}

    def usage(self) -> dict[str, Any]:
        """OpenAI's counts of tokens."""
        total, reused = self.read
        return {
            "prompt_tokens": total,
            "completion_tokens": len(self.tokens),
            "total_tokens": total + len(self.tokens),
            "prompt_tokens_details": {"cached_tokens": reused},
        }


def _speed(name: str, tokens: int, seconds: float) -> dict[str, Any]:
    """llama-server's figures of so many tokens."""
    return {
        f"{name}_n": tokens,
        f"{name}_ms": 1000 * seconds,
        f"{name}_per_second": tokens / seconds if seconds else 0.0,
        f"{name}_per_token_ms": 1000 * seconds / tokens if tokens else 0.0,
    }
