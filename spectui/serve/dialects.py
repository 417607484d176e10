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
from spectui.serve.fields import Body, likeliest, read, settings
from spectui.serve.tools import Delta

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
    hears_comments = True
    """Whether its clients take comments for a sign of life."""

    def __init__(self, body: Body, model: str) -> None:
        self.body, self.model, self.created, self.id = body, model, int(time()), token_hex(12)
        self.timed = read(body, "timings_per_token", bool, False)
        """Whether each event has the figures so far."""
        self.likeliest = likeliest(body)
        """How many of the likeliest tokens are told beside each; 0: no probabilities at all."""
        self.by_token = self.timed or self.likeliest > 0
        """Whether each token is to have an event of its own."""

    def begin(self, answer: Answer) -> Iterator[str]:
        """The first events, when the prompt is read or the first token is there."""
        yield from ()

    def progress(self, answer: Answer, prompt: Prompt) -> str:
        """What keeps the client waiting while a prompt is read."""
        if self.hears_comments and not read(self.body, "return_progress", bool, False):
            return f": {prompt.done} of {prompt.total} tokens read\n\n"
        told = {"total": prompt.total, "cache": prompt.reused, "processed": prompt.done, "time_ms": 1000 * prompt.seconds}
        return self.progressed(answer, {"prompt_progress": told, **answer.figures()})

    def progressed(self, answer: Answer, told: dict[str, Any]) -> str:
        """The event for what is read of the prompt."""
        raise NotImplementedError

    def piece(self, answer: Answer, at: range, deltas: Sequence[Delta]) -> Iterator[str]:
        """The events for what is new. `at`: the tokens that it is of."""
        raise NotImplementedError

    def end(self, answer: Answer) -> Iterator[str]:
        """The last events."""
        raise NotImplementedError

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The answer in one body."""
        raise NotImplementedError

    def probabilities(self, answer: Answer, at: range) -> list[dict[str, Any]]:
        """Tokens with their probabilities and the likeliest ones: the model's, or those of sampling."""
        of_sampling = read(self.body, "post_sampling_probs", bool, False)
        rows = []
        for token, index in ((answer.tokens[index], index) for index in at):
            likeliest = answer.sampled(index) if of_sampling else answer.likeliest[index]
            own = {id: p for id, _, p in likeliest}.get(token.id, 0.0) if of_sampling else token.p_target or 0.0
            best = [_probability(*one, of_sampling) for one in likeliest[: self.likeliest]]
            rows.append(
                {**_probability(token.id, token.text, own, of_sampling), f"top_{'' if of_sampling else 'log'}probs": best}
            )
        return rows

    def several(self, answers: Sequence[Answer]) -> Any:
        """The answers to several prompts, or several to one, in one body."""
        bodies = list(map(self.whole, answers))
        choices = [body["choices"][0] | {"index": index} for index, body in enumerate(bodies)]
        usage = {
            name: sum(body["usage"][name] for body in bodies) for name in ("completion_tokens", "prompt_tokens", "total_tokens")
        }
        return {**bodies[0], "choices": choices, "usage": bodies[0]["usage"] | usage}

    def error(self, error: dict[str, Any]) -> str:
        """The event for an error within the stream."""
        return event({"error": error})


class Blocks(Dialect):
    """A form whose answers are blocks: a thought, a text, a call. A stream opens and closes each."""

    def __init__(self, body: Body, model: str) -> None:
        super().__init__(body, model)
        self.blocks: list[list[Delta]] = []

    def piece(self, answer: Answer, at: range, deltas: Sequence[Delta]) -> Iterator[str]:
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
        for _ in self.piece(answer, range(0), [*answer.deltas]):
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

    def progressed(self, answer: Answer, told: dict[str, Any]) -> str:
        return self._chunk({}, **told)

    def piece(self, answer: Answer, at: range, deltas: Sequence[Delta]) -> Iterator[str]:
        others = answer.figures(at.stop) if at and self.timed else {}
        if at and self.likeliest:
            others["logprobs"] = {"content": self.probabilities(answer, at)}
        for delta in merged(deltas) if deltas or not at else [Delta("text", "")]:
            yield self._chunk(_delta(delta), **others)
            others.pop("logprobs", None)

    def end(self, answer: Answer) -> Iterator[str]:
        yield self._chunk({}, answer.why, **answer.figures())
        if read(read(self.body, "stream_options", dict, {}), "include_usage", bool, False):
            yield event({**self._head("chat.completion.chunk"), "choices": [], "usage": answer.usage(), **answer.figures()})

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
        if self.likeliest:
            choice["logprobs"] = {"content": self.probabilities(answer, range(len(answer.tokens)))}
        return {**self._head("chat.completion"), "choices": [choice], "usage": answer.usage(), **answer.figures()}


def _delta(delta: Delta) -> dict[str, Any]:
    if delta.kind in ("text", "thought"):
        return {"content" if delta.kind == "text" else "reasoning_content": delta.text}
    call: dict[str, Any] = {"index": delta.number, "function": {"arguments": delta.text}}
    if delta.kind == "call":
        call |= {"id": delta.id, "type": "function", "function": {"name": delta.text, "arguments": ""}}
    return {"tool_calls": [call]}


def _probability(id: int, text: str, p: float, of_sampling: bool) -> dict[str, Any]:
    probability = {"prob": p} if of_sampling else {"logprob": log(max(p, 1e-30))}
    return {"id": id, "token": text, "bytes": list(text.encode()), **probability}


class Completion(Dialect):
    """OpenAI's completions: a text that goes on."""

    done = "data: [DONE]\n\n"

    def _head(self, answer: Answer, text: str, at: range = range(0), finish: str | None = None) -> dict[str, Any]:
        logprobs = {"content": self.probabilities(answer, at)} if self.likeliest and at else None
        choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": finish}
        return {
            "id": f"cmpl-{self.id}", "object": "text_completion", "created": self.created, "model": self.model,
            "system_fingerprint": FINGERPRINT, "choices": [choice],
        }  # fmt: skip

    def progressed(self, answer: Answer, told: dict[str, Any]) -> str:
        return event(self._head(answer, "") | told)

    def piece(self, answer: Answer, at: range, deltas: Sequence[Delta]) -> Iterator[str]:
        figures = answer.figures(at.stop) if self.timed else {}
        yield event(self._head(answer, "".join(delta.text for delta in deltas), at) | figures)

    def end(self, answer: Answer) -> Iterator[str]:
        yield event({**self._head(answer, "", finish=answer.why), "usage": answer.usage(), **answer.figures()})

    def whole(self, answer: Answer) -> dict[str, Any]:
        head = self._head(answer, answer.text(), range(len(answer.tokens)), answer.why)
        return {**head, "usage": answer.usage(), **answer.figures()}


class LlamaCompletion(Dialect):
    """llama-server's own `/completion`, and `/infill`."""

    def _fields(self, answer: Answer, text: str, at: range, stop: bool) -> dict[str, Any]:
        total, _ = answer.read
        fields: dict[str, Any] = {
            "index": 0, "content": text, "tokens": [token.id for token in answer.tokens[at.start : at.stop]], "stop": stop,
            "id_slot": 0, "tokens_predicted": len(answer.tokens) if stop else at.stop, "tokens_evaluated": total,
        }  # fmt: skip
        if self.likeliest and at:
            fields["completion_probabilities"] = self.probabilities(answer, at)
        if stop:
            why = {"length": "limit", "stop": "word" if answer.stopped else "eos"}.get(answer.why, "none")
            fields |= {
                "model": self.model, "stop_type": why, "truncated": False, "tokens_cached": total + len(answer.tokens) - 1,
                "has_new_line": "\n" in answer.text(), "generation_settings": settings(self.body, answer.knobs),
            }  # fmt: skip
        return fields | (answer.figures(None if stop else at.stop) if stop or self.timed else {})

    def progressed(self, answer: Answer, told: dict[str, Any]) -> str:
        return event(self._fields(answer, "", range(0), False) | told)

    def piece(self, answer: Answer, at: range, deltas: Sequence[Delta]) -> Iterator[str]:
        yield event(self._fields(answer, "".join(delta.text for delta in deltas), at, False))

    def end(self, answer: Answer) -> Iterator[str]:
        yield event(self._fields(answer, "", range(0), True))

    def whole(self, answer: Answer) -> dict[str, Any]:
        fields = self._fields(answer, answer.text(), range(len(answer.tokens)), True)
        return fields if read(self.body, "return_tokens", bool, False) else fields | {"tokens": []}

    def several(self, answers: Sequence[Answer]) -> Any:
        return [self.whole(answer) | {"index": index} for index, answer in enumerate(answers)]
