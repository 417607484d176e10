"""How a reply is written to a client: as a body, or as a stream of server-sent events. OpenAI's and llama-server's forms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import log
from secrets import token_hex
from time import time
from typing import Any

from spectui import __version__
from spectui.engine.events import Event, Failed, Finished, Prompt
from spectui.serve.answer import Added, Answer, Part, Written
from spectui.serve.fields import BadRequestError, Body, likeliest, read

Object = dict[str, Any]


class Dialect:
    """A form of answers. Each answer has one of its own. In a stream an object that has a `type` is an event of that name."""

    raw = False
    """Whether the model continues a text without a chat template."""
    done = ""
    """What ends a stream."""

    def __init__(self, body: Body, model: str, answer: Answer) -> None:
        self.model, self.answer, self.created, self.id = model, answer, int(time()), token_hex(12)
        # All that is asked of the form is read here: what is wrong is refused before the reply begins.
        self.timed, self.tells_progress, self.lists_tokens = (
            read(body, name, bool, False) for name in ("timings_per_token", "return_progress", "return_tokens")
        )
        self.counts = read(read(body, "stream_options", dict, {}), "include_usage", bool, False)
        self.likeliest = likeliest(body)
        """How many of the likeliest tokens are told beside each; 0: no probabilities at all."""
        self._begun = False

    @staticmethod
    def as_chat(body: Body) -> Object:
        """The body of a chat completion that asks for the same. Raises BadRequestError."""
        return dict(body)

    def stream(self, news: Event) -> Iterator[str]:
        """What an event of the engine adds to a stream. The last one ends it."""
        for written, added in self.answer.take(news):
            if added or (written and (self.timed or self.likeliest)):
                yield from map(_sent, self.piece(written, added))
        if isinstance(news, Prompt):
            yield from map(_sent, () if self._begun else self.begin())
            self._begun = True
            yield self._reading(news)
        elif isinstance(news, Failed):
            yield _sent(self.refusal(BadRequestError.of(news)))
        elif isinstance(news, Finished):
            yield from map(_sent, self.end())
            yield self.done

    def _reading(self, prompt: Prompt) -> str:
        """What keeps the client waiting while a prompt is read: an event, or a comment."""
        told = {"total": prompt.total, "cache": prompt.reused, "processed": prompt.done, "time_ms": 1000 * prompt.seconds}
        said = self.progress({"prompt_progress": told, **self.answer.figures()})
        return _sent(said) if said is not None else f": {prompt.done} of {prompt.total} tokens read\n\n"

    def begin(self) -> Sequence[Object]:
        """The first events."""
        return ()

    def progress(self, told: Object) -> Object | None:
        """The event for what is read of the prompt; None where a comment will do."""
        raise NotImplementedError

    def piece(self, written: Sequence[Written], added: Added) -> Iterator[Object]:
        """The events for what a token adds."""
        raise NotImplementedError

    def end(self) -> Iterator[Object]:
        """The last events."""
        raise NotImplementedError

    def whole(self) -> Object:
        """The answer in one body."""
        raise NotImplementedError

    @staticmethod
    def refusal(error: BadRequestError) -> Object:
        """The body of an error, and the event for one within a stream."""
        return error.body()

    def openai(self, prefix: str, kind: str, choices: list[Object], **others: Any) -> Object:
        """An object of OpenAI's, whose id begins so."""
        return {
            "id": f"{prefix}-{self.id}", "object": kind, "created": self.created, "model": self.model,
            "system_fingerprint": f"b-spectui-{__version__}", "choices": choices, **others,
        }  # fmt: skip

    def probabilities(self, tokens: Sequence[Written]) -> list[Object]:
        """These tokens with the model's probabilities, and the likeliest ones."""

        def row(id: int, text: str, p: float) -> Object:
            return {"id": id, "token": text, "bytes": list(text.encode()), "logprob": log(max(p, 1e-30))}

        return [
            row(token.id, token.text, token.p_target or 0.0)
            | {"top_logprobs": [row(*other) for other in likeliest[: self.likeliest]]}
            for token, likeliest in tokens
        ]


def _sent(data: Object) -> str:
    """A server-sent event."""
    named = f"event: {data['type']}\n" if "type" in data else ""
    return f"{named}data: {json.dumps(data, ensure_ascii=False)}\n\n"


class Blocks(Dialect):
    """A form that opens and closes each part of the answer in a stream."""

    _open: Part | None = None

    def piece(self, written: Sequence[Written], added: Added) -> Iterator[Object]:
        for part, text in added:
            if part is not self._open:
                yield from self.close()
                self._open = part
                yield from self.opened(part)
            if text:
                yield self.added(part, text)

    def close(self) -> Iterator[Object]:
        """The open part ends, if there is one."""
        if self._open is not None:
            yield from self.closed(self._open)

    def opened(self, part: Part) -> Iterator[Object]:
        """A part begins."""
        raise NotImplementedError

    def added(self, part: Part, text: str) -> Object:
        """The text is added to the part."""
        raise NotImplementedError

    def closed(self, part: Part) -> Iterator[Object]:
        """The part ends."""
        raise NotImplementedError


class Chat(Dialect):
    """OpenAI's chat completions, with llama-server's additions."""

    done = "data: [DONE]\n\n"

    def _choice(self, written: Sequence[Written], finish: str | None, **said: Object) -> Object:
        logprobs = {"logprobs": {"content": self.probabilities(written)}} if written and self.likeliest else {}
        return {"index": 0, **said, "finish_reason": finish, **logprobs}

    def _chunk(self, delta: Object, written: Sequence[Written] = (), finish: str | None = None, **others: Any) -> Object:
        return self.openai("chatcmpl", "chat.completion.chunk", [self._choice(written, finish, delta=delta)], **others)

    def begin(self) -> Sequence[Object]:
        return (self._chunk({"role": "assistant", "content": None}),)

    def progress(self, told: Object) -> Object | None:
        return self._chunk({}, **told) if self.tells_progress else None

    def piece(self, written: Sequence[Written], added: Added) -> Iterator[Object]:
        figures = self.answer.figures() if written and self.timed else {}
        for delta in [self._delta(part, text) for part, text in added] or [{"content": ""}]:
            yield self._chunk(delta, written, **figures)
            written = ()

    def _delta(self, part: Part, text: str) -> Object:
        if part.kind != "call":
            return {"content" if part.kind == "text" else "reasoning_content": text}
        before = sum(other.kind == "call" for other in self.answer.parts[: part.index])
        said = {"function": {"arguments": text}} if text else _call(part, "")  # it begins
        return {"tool_calls": [{"index": before, **said}]}

    def end(self) -> Iterator[Object]:
        figures = self.answer.figures()
        yield self._chunk({}, finish=self.answer.why, **figures)
        if self.counts:
            yield self.openai("chatcmpl", "chat.completion.chunk", [], usage=self.answer.usage(), **figures)

    def whole(self) -> Object:
        answer = self.answer
        message: Object = {"role": "assistant", "content": answer.text()}
        if thought := answer.text("thought"):
            message["reasoning_content"] = thought
        if calls := [part for part in answer.parts if part.kind == "call"]:
            message["content"] = message["content"] or None
            message["tool_calls"] = [_call(call, call.text) for call in calls]
        choice = self._choice(answer.tokens, answer.why, message=message)
        return self.openai("chatcmpl", "chat.completion", [choice], usage=answer.usage(), **answer.figures())


def _call(part: Part, arguments: str) -> Object:
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": arguments}}


class Completion(Dialect):
    """A text that goes on: OpenAI's completions, with the fields of llama-server's own beside theirs."""

    raw = True
    done = "data: [DONE]\n\n"

    def _body(self, text: str, written: Sequence[Written], finish: str | None = None, **others: Any) -> Object:
        answer, rows = self.answer, self.probabilities(written) if self.likeliest else []
        choice = {"index": 0, "text": text, "logprobs": {"content": rows} if rows else None, "finish_reason": finish}
        return self.openai("cmpl", "text_completion", [choice]) | {
            "index": 0, "content": text, "tokens": [token.id for token, _ in written], "stop": finish is not None, "id_slot": 0,
            "tokens_predicted": len(answer.tokens), "tokens_evaluated": answer.prompt.total,
            **({"completion_probabilities": rows} if rows else {}), **others,
        }  # fmt: skip

    def progress(self, told: Object) -> Object | None:
        return self._body("", (), **told) if self.tells_progress else None

    def piece(self, written: Sequence[Written], added: Added) -> Iterator[Object]:
        yield self._body("".join(text for _, text in added), written, **(self.answer.figures() if self.timed else {}))

    def end(self) -> Iterator[Object]:
        yield self._last("", ())

    def whole(self) -> Object:
        return self._last(self.answer.text(), self.answer.tokens)

    def _last(self, text: str, written: Sequence[Written]) -> Object:
        answer = self.answer
        why = {"length": "limit", "stop": "word" if answer.stopped else "eos"}.get(answer.why, "none")
        body = self._body(text, written, answer.why, usage=answer.usage(), **answer.figures()) | {
            "stop_type": why, "truncated": False, "has_new_line": "\n" in answer.text(),
            "tokens_cached": answer.prompt.total + len(answer.tokens) - 1,
        }  # fmt: skip
        return body if self.lists_tokens else {**body, "tokens": []}


class LlamaCompletion(Completion):
    """The same as `/completion` and `/infill`, whose streams end without a mark."""

    done = ""
