"""How a reply is written to a client: as a body, or as a stream of server-sent events. OpenAI's and llama-server's forms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import log
from secrets import token_hex
from time import time
from typing import Any

from spectui import __version__
from spectui.engine.events import Prompt
from spectui.serve.answer import Answer
from spectui.serve.fields import Body, read
from spectui.serve.tools import Delta
from spectui.speculation.records import Token

FINGERPRINT = f"b-spectui-{__version__}"


def event(data: dict[str, Any], name: str = "") -> str:
    """A server-sent event."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def merged(deltas: Sequence[Delta]) -> Iterator[Delta]:
    """The deltas, texts of one kind that follow each other as one."""
    last: Delta | None = None
    for delta in deltas:
        if last is not None and (last.kind, last.number) == (delta.kind, delta.number) and delta.kind != "call":
            last = last._replace(text=last.text + delta.text)
            continue
        if last is not None:
            yield last
        last = delta
    if last is not None:
        yield last


class Dialect:
    """A form of answers. Each answer has one of its own."""

    done = ""
    """What ends a stream."""

    def __init__(self, body: Body, model: str) -> None:
        self.body, self.model, self.created, self.id = body, model, int(time()), token_hex(12)
        self.by_token = read(body, "timings_per_token", bool, False)
        """Whether each token is to have an event of its own, with the figures so far."""

    def begin(self, answer: Answer) -> Iterator[str]:
        """The first events, when the prompt is read or the first token is there."""
        yield from ()

    def progress(self, answer: Answer, prompt: Prompt) -> str:
        """What keeps the client waiting while a prompt is read."""
        return f": {prompt.done} of {prompt.total} tokens read\n\n"

    def piece(self, answer: Answer, token: Token | None, deltas: Sequence[Delta]) -> Iterator[str]:
        """The events for what is new. `token`: it is of this token alone."""
        raise NotImplementedError

    def end(self, answer: Answer) -> Iterator[str]:
        """The last events."""
        raise NotImplementedError

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The answer in one body."""
        raise NotImplementedError

    def error(self, error: dict[str, Any]) -> str:
        """The event for an error within the stream."""
        return event({"error": error})


class Blocks(Dialect):
    """A form whose answers are blocks: a thought, a text, a call. A stream opens and closes each."""

    def __init__(self, body: Body, model: str) -> None:
        super().__init__(body, model)
        self.blocks: list[list[Delta]] = []

    def piece(self, answer: Answer, token: Token | None, deltas: Sequence[Delta]) -> Iterator[str]:
        for delta in merged(deltas):
            kind = "call" if delta.kind == "arguments" else delta.kind
            if delta.kind == "call" or not self.blocks or self.blocks[-1][0].kind != kind:
                yield from self.closed()
                self.blocks.append([delta if delta.kind == "call" else Delta(kind, "")])
                yield from self.opened(len(self.blocks) - 1, self.blocks[-1][0])
            if delta.kind != "call":
                self.blocks[-1].append(delta)
                yield from self.added(answer, len(self.blocks) - 1, delta)

    def opened(self, index: int, first: Delta) -> Iterator[str]:
        """A block begins. `first`: its kind, and the name and id of a call."""
        raise NotImplementedError

    def added(self, answer: Answer, index: int, delta: Delta) -> Iterator[str]:
        """Something is added to the last block."""
        raise NotImplementedError

    def closed(self) -> Iterator[str]:
        """The last block ends, if there is one."""
        raise NotImplementedError

    def _all(self, answer: Answer) -> list[list[Delta]]:
        """The blocks of a whole answer, at least one."""
        self.blocks.clear()
        for _ in self.piece(answer, None, [*answer.deltas]):
            pass
        return self.blocks or [[Delta("text", "")]]


def joined(block: Sequence[Delta]) -> str:
    """The text of a block, or the arguments of a call."""
    return "".join(delta.text for delta in block[1:])


class Chat(Dialect):
    """OpenAI's chat completions, with llama-server's additions."""

    done = "data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **others: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        if "logprobs" in others:
            choice["logprobs"] = others.pop("logprobs")
        return event({**self._head("chat.completion.chunk"), "choices": [choice], **others})

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.id}", "object": kind, "created": self.created, "model": self.model,
            "system_fingerprint": FINGERPRINT,
        }  # fmt: skip

    def begin(self, answer: Answer) -> Iterator[str]:
        yield self._chunk({"role": "assistant", "content": None})

    def progress(self, answer: Answer, prompt: Prompt) -> str:
        if not read(self.body, "return_progress", bool, False):
            return super().progress(answer, prompt)
        told = {"total": prompt.total, "cache": prompt.reused, "processed": prompt.done, "time_ms": 1000 * prompt.seconds}
        return self._chunk({}, prompt_progress=told)

    def piece(self, answer: Answer, token: Token | None, deltas: Sequence[Delta]) -> Iterator[str]:
        others: dict[str, Any] = {}
        if token is not None and self.by_token:
            others["timings"] = answer.timings(len(answer.tokens))
        if token is not None and self._probabilities:
            others["logprobs"] = {"content": [row(answer, len(answer.tokens) - 1, self._probabilities)]}
        for delta in merged(deltas) if deltas or not others else [Delta("text", "")]:
            yield self._chunk(_delta(delta), **others)

    @property
    def _probabilities(self) -> int:
        """How many likeliest tokens the client asks for, with the chosen one; 0: none."""
        wanted = read(self.body, "logprobs", bool, False)
        return min(5, 1 + read(self.body, "top_logprobs", int, 0)) if wanted else 0

    def end(self, answer: Answer) -> Iterator[str]:
        yield self._chunk({}, answer.why, timings=answer.timings())
        if read(read(self.body, "stream_options", dict, {}), "include_usage", bool, False):
            figures = {"usage": answer.usage(), "timings": answer.timings()}
            yield event({**self._head("chat.completion.chunk"), "choices": [], **figures})

    def whole(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text()}
        if thought := answer.text("thought"):
            message["reasoning_content"] = thought
        if calls := answer.calls():
            message["content"] = message["content"] or None
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": given}} for id, name, given in calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": answer.why}
        if number := self._probabilities:
            choice["logprobs"] = {"content": [row(answer, at, number) for at in range(len(answer.tokens))]}
        figures = {"usage": answer.usage(), "timings": answer.timings()}
        return {**self._head("chat.completion"), "choices": [choice], **figures}


def _delta(delta: Delta) -> dict[str, Any]:
    if delta.kind in ("text", "thought"):
        return {"content" if delta.kind == "text" else "reasoning_content": delta.text}
    call: dict[str, Any] = {"index": delta.number, "function": {"arguments": delta.text}}
    if delta.kind == "call":
        call |= {"id": delta.id, "type": "function", "function": {"name": delta.text, "arguments": ""}}
    return {"tool_calls": [call]}


def row(answer: Answer, at: int, number: int) -> dict[str, Any]:
    """A token with its probability and the likeliest ones."""

    def one(id: int, text: str, p: float) -> dict[str, Any]:
        return {"id": id, "token": text, "bytes": list(text.encode()), "logprob": log(max(p, 1e-30))}

    token = answer.tokens[at]
    likeliest = [one(*each) for each in answer.likeliest[at][:number]]
    return {**one(token.id, token.text, token.p_target or 0.0), "top_logprobs": likeliest}


class Completion(Dialect):
    """OpenAI's completions: a text that goes on."""

    done = "data: [DONE]\n\n"

    def _head(self, text: str, finish: str | None) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
        return {
            "id": f"cmpl-{self.id}", "object": "text_completion", "created": self.created, "model": self.model,
            "system_fingerprint": FINGERPRINT, "choices": [choice],
        }  # fmt: skip

    def piece(self, answer: Answer, token: Token | None, deltas: Sequence[Delta]) -> Iterator[str]:
        if text := "".join(delta.text for delta in deltas):
            yield event(self._head(text, None))

    def end(self, answer: Answer) -> Iterator[str]:
        yield event(self._head("", answer.why) | {"usage": answer.usage(), "timings": answer.timings()})

    def whole(self, answer: Answer) -> dict[str, Any]:
        figures = {"usage": answer.usage(), "timings": answer.timings()}
        return self._head(answer.text(), answer.why) | figures


class LlamaCompletion(Dialect):
    """llama-server's own `/completion`, and `/infill`."""

    def _fields(self, answer: Answer, text: str, tokens: Sequence[Token], stop: bool) -> dict[str, Any]:
        total, _ = answer.read
        fields: dict[str, Any] = {
            "index": 0, "content": text, "tokens": [token.id for token in tokens], "stop": stop, "id_slot": 0,
            "tokens_predicted": len(answer.tokens), "tokens_evaluated": total,
        }  # fmt: skip
        if stop:
            why = {"length": "limit", "stop": "word" if answer.stopped else "eos"}.get(answer.why, "none")
            fields |= {
                "model": self.model, "stop_type": why, "truncated": False, "tokens_cached": total + len(answer.tokens) - 1,
                "timings": answer.timings(),
            }  # fmt: skip
        return fields

    def piece(self, answer: Answer, token: Token | None, deltas: Sequence[Delta]) -> Iterator[str]:
        if deltas:
            yield event(self._fields(answer, "".join(delta.text for delta in deltas), [token] if token else [], False))

    def end(self, answer: Answer) -> Iterator[str]:
        yield event(self._fields(answer, "", [], True))

    def whole(self, answer: Answer) -> dict[str, Any]:
        given = answer.tokens if read(self.body, "return_tokens", bool, False) else []
        fields = self._fields(answer, answer.text(), given, True)
        if number := read(self.body, "n_probs", int, 0):
            fields["completion_probabilities"] = [row(answer, at, min(5, number)) for at in range(len(answer.tokens))]
        return fields
