"""How a reply is written to a client: as a body, or as a stream of server-sent events. OpenAI's and llama-server's forms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import log
from secrets import token_hex
from time import time
from typing import Any

from spectui import __version__
from spectui.engine.events import Event, Prompt
from spectui.serve.answer import Answer, Part, Step
from spectui.serve.fields import BadRequestError, Body, likeliest, read

Added = Sequence[tuple[int, str]]
"""Texts with the index of the part that each belongs to."""


def event(data: dict[str, Any], name: str = "") -> str:
    """A server-sent event."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


class Dialect:
    """A form of answers. Each answer has one of its own."""

    done = ""
    """What ends a stream."""
    hears_comments = True
    """Whether its clients take comments for a sign of life."""

    def __init__(self, body: Body, model: str, answer: Answer) -> None:
        self.body, self.model, self.answer, self.created, self.id = body, model, answer, int(time()), token_hex(12)
        self.timed = read(body, "timings_per_token", bool, False)
        """Whether each event has the figures so far."""
        self.likeliest = likeliest(body)
        """How many of the likeliest tokens are told beside each; 0: no probabilities at all."""
        self._begun = False

    def stream(self, news: Event) -> Iterator[str]:
        """What an event of the engine adds to a stream. A failure adds nothing."""
        steps = [step for step in self.answer.take(news) if step.added or step.tokens]
        if isinstance(news, Prompt):
            if not self._begun:
                yield from self.begin()
            self._begun = True
            yield self.progress(news)
        elif self.timed or self.likeliest:  # each token has an event of its own
            for step in steps:
                yield from self.piece(step.tokens, step.added)
        elif added := _joined(steps):
            yield from self.piece(range(steps[0].tokens.start, steps[-1].tokens.stop), added)

    def begin(self) -> Iterator[str]:
        """The first events."""
        yield from ()

    def progress(self, prompt: Prompt) -> str:
        """What keeps the client waiting while a prompt is read."""
        if self.hears_comments and not read(self.body, "return_progress", bool, False):
            return f": {prompt.done} of {prompt.total} tokens read\n\n"
        told = {"total": prompt.total, "cache": prompt.reused, "processed": prompt.done, "time_ms": 1000 * prompt.seconds}
        return self.progressed({"prompt_progress": told, **self.answer.figures()})

    def progressed(self, told: dict[str, Any]) -> str:
        """The event for what is read of the prompt."""
        raise NotImplementedError

    def piece(self, tokens: range, added: Added) -> Iterator[str]:
        """The events for what these tokens add."""
        raise NotImplementedError

    def end(self) -> Iterator[str]:
        """The last events."""
        raise NotImplementedError

    def whole(self) -> dict[str, Any]:
        """The answer in one body."""
        raise NotImplementedError

    def error(self, error: BadRequestError) -> str:
        """The event for an error within the stream."""
        return event(error.body())

    def probabilities(self, tokens: range) -> list[dict[str, Any]]:
        """These tokens with the model's probabilities, and the likeliest ones."""

        def row(id: int, text: str, p: float) -> dict[str, Any]:
            return {"id": id, "token": text, "bytes": list(text.encode()), "logprob": log(max(p, 1e-30))}

        answer = self.answer
        return [
            row(token.id, token.text, token.p_target or 0.0)
            | {"top_logprobs": [row(*other) for other in answer.likeliest[at][: self.likeliest]]}
            for at, token in ((at, answer.tokens[at]) for at in tokens)
        ]


def _joined(steps: Sequence[Step]) -> list[tuple[int, str]]:
    """What these steps add, texts of one part that follow each other as one. Where a call begins stays apart."""
    added: list[tuple[int, str]] = []
    for index, text in (one for step in steps for one in step.added):
        if added and added[-1][0] == index and added[-1][1]:
            text = added.pop()[1] + text
        added.append((index, text))
    return added


class Blocks(Dialect):
    """A form that opens and closes each part of the answer in a stream."""

    def __init__(self, body: Body, model: str, answer: Answer) -> None:
        super().__init__(body, model, answer)
        self._open = -1

    def piece(self, tokens: range, added: Added) -> Iterator[str]:
        for index, text in added:
            if index != self._open:
                yield from self.close()
                self._open = index
                yield from self.opened(index, self.answer.parts[index])
            if text:
                yield self.added(index, self.answer.parts[index], text)

    def close(self) -> Iterator[str]:
        """The open part ends, if there is one."""
        if self._open >= 0:
            yield from self.closed(self._open, self.answer.parts[self._open])

    def opened(self, index: int, part: Part) -> Iterator[str]:
        """A part begins."""
        raise NotImplementedError

    def added(self, index: int, part: Part, text: str) -> str:
        """The text is added to the part."""
        raise NotImplementedError

    def closed(self, index: int, part: Part) -> Iterator[str]:
        """The part ends."""
        raise NotImplementedError


class Chat(Dialect):
    """OpenAI's chat completions, with llama-server's additions."""

    done = "data: [DONE]\n\n"

    def _head(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.id}", "object": kind, "created": self.created, "model": self.model,
            "system_fingerprint": f"b-spectui-{__version__}", "choices": choices,
        }  # fmt: skip

    def _chunk(self, delta: dict[str, Any], tokens: range = range(0), finish: str | None = None, **others: Any) -> str:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish}
        if tokens and self.likeliest:
            choice["logprobs"] = {"content": self.probabilities(tokens)}
        return event({**self._head("chat.completion.chunk", [choice]), **others})

    def begin(self) -> Iterator[str]:
        yield self._chunk({"role": "assistant", "content": None})

    def progressed(self, told: dict[str, Any]) -> str:
        return self._chunk({}, **told)

    def piece(self, tokens: range, added: Added) -> Iterator[str]:
        figures = self.answer.figures(tokens.stop) if tokens and self.timed else {}
        for delta in [self._delta(index, text) for index, text in added] or [{"content": ""}]:
            yield self._chunk(delta, tokens, **figures)
            tokens = range(0)

    def _delta(self, index: int, text: str) -> dict[str, Any]:
        part = self.answer.parts[index]
        if part.kind != "call":
            return {"content" if part.kind == "text" else "reasoning_content": text}
        call: dict[str, Any] = {"index": sum(before.kind == "call" for before in self.answer.parts[:index])}
        if not text:  # it begins
            return {"tool_calls": [call | _call(part, "")]}
        return {"tool_calls": [call | {"function": {"arguments": text}}]}

    def end(self) -> Iterator[str]:
        yield self._chunk({}, finish=self.answer.why, **self.answer.figures())
        if read(read(self.body, "stream_options", dict, {}), "include_usage", bool, False):
            yield event({**self._head("chat.completion.chunk", []), "usage": self.answer.usage(), **self.answer.figures()})

    def whole(self) -> dict[str, Any]:
        answer = self.answer
        message: dict[str, Any] = {"role": "assistant", "content": answer.text()}
        if thought := answer.text("thought"):
            message["reasoning_content"] = thought
        if calls := [part for part in answer.parts if part.kind == "call"]:
            message["content"] = message["content"] or None
            message["tool_calls"] = [_call(call, call.text) for call in calls]
        choice = {"index": 0, "message": message, "finish_reason": answer.why}
        if self.likeliest:
            choice["logprobs"] = {"content": self.probabilities(range(len(answer.tokens)))}
        return {**self._head("chat.completion", [choice]), "usage": answer.usage(), **answer.figures()}


def _call(part: Part, arguments: str) -> dict[str, Any]:
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": arguments}}


class Completion(Dialect):
    """OpenAI's completions: a text that goes on."""

    done = "data: [DONE]\n\n"

    def _body(self, text: str, tokens: range = range(0), finish: str | None = None, **others: Any) -> dict[str, Any]:
        logprobs = {"content": self.probabilities(tokens)} if self.likeliest and tokens else None
        return {
            "id": f"cmpl-{self.id}", "object": "text_completion", "created": self.created, "model": self.model,
            "system_fingerprint": f"b-spectui-{__version__}",
            "choices": [{"index": 0, "text": text, "logprobs": logprobs, "finish_reason": finish}], **others,
        }  # fmt: skip

    def progressed(self, told: dict[str, Any]) -> str:
        return event(self._body("", **told))

    def piece(self, tokens: range, added: Added) -> Iterator[str]:
        figures = self.answer.figures(tokens.stop) if self.timed else {}
        yield event(self._body("".join(text for _, text in added), tokens, **figures))

    def end(self) -> Iterator[str]:
        yield event(self._ended("", range(0)))

    def whole(self) -> dict[str, Any]:
        return self._ended(self.answer.text(), range(len(self.answer.tokens)))

    def _ended(self, text: str, tokens: range) -> dict[str, Any]:
        return self._body(text, tokens, self.answer.why, usage=self.answer.usage(), **self.answer.figures())


class LlamaCompletion(Completion):
    """llama-server's own `/completion`, and `/infill`."""

    done = ""

    def _body(self, text: str, tokens: range = range(0), finish: str | None = None, **others: Any) -> dict[str, Any]:
        answer = self.answer
        body = {
            "index": 0, "content": text, "tokens": [token.id for token in answer.tokens[tokens.start : tokens.stop]],
            "stop": finish is not None, "id_slot": 0, "tokens_predicted": tokens.stop, "tokens_evaluated": answer.prompt.total,
        }  # fmt: skip
        if self.likeliest and tokens:
            body["completion_probabilities"] = self.probabilities(tokens)
        return body | others

    def _ended(self, text: str, tokens: range) -> dict[str, Any]:
        answer = self.answer
        listed: dict[str, Any] = {} if read(self.body, "return_tokens", bool, False) else {"tokens": []}
        why = {"length": "limit", "stop": "word" if answer.stopped else "eos"}.get(answer.why, "none")
        return self._body(text, tokens, why, **answer.figures()) | listed | {
            "model": self.model, "stop_type": why, "truncated": False, "has_new_line": "\n" in answer.text(),
            "tokens_predicted": len(answer.tokens), "tokens_cached": answer.prompt.total + len(answer.tokens) - 1,
        }  # fmt: skip
