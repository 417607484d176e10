"""Anthropic's messages, which Claude Code speaks: read as a chat completion, and written as blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from spectui.engine.events import Prompt
from spectui.serve.answer import Answer
from spectui.serve.dialects import Blocks, event, joined
from spectui.serve.fields import BadRequestError, Body, read, rows, text_of
from spectui.serve.tools import Delta

_BILLING = "x-anthropic-billing-header"
"""Claude Code's first block of the system prompt, whose number changes every turn: with it nothing would stay read."""

_SAME = ("temperature", "top_p", "top_k", "stream", "drafter", "policy", "speculative")


def as_chat(body: Body) -> dict[str, Any]:
    """The body of a chat completion that asks for the same. Raises BadRequestError."""
    chat: dict[str, Any] = {name: body[name] for name in _SAME if name in body}
    chat |= {"max_tokens": body.get("max_tokens"), "stop": body.get("stop_sequences")}
    system = body.get("system")
    if isinstance(system, list):
        kept = [block for block in rows(body, "system") if not str(block.get("text", "")).startswith(_BILLING)]
        system = "\n".join(read(block, "text", str, "") for block in kept)
    talk = [{"role": "system", "content": system}] if system else []
    for row in rows(body, "messages"):
        talk += _messages(row)
    chat["messages"] = talk
    chat["tools"] = [
        {"function": {"name": t.get("name"), "description": t.get("description"), "parameters": t.get("input_schema")}}
        for t in rows(body, "tools")
        if "input_schema" in t
    ]
    choice = read(body, "tool_choice", dict, {})
    kind = choice.get("type", "auto")
    chat["tool_choice"] = {"name": choice.get("name")} if kind == "tool" else {"any": "required"}.get(kind, kind)
    thinking = read(body, "thinking", dict, {})
    if thinking.get("type") in ("enabled", "disabled"):
        chat["chat_template_kwargs"] = {"enable_thinking": thinking["type"] == "enabled"}
        chat["reasoning_budget_tokens"] = thinking.get("budget_tokens")
    form = read(read(body, "output_config", dict, {}), "format", dict, {}) or read(body, "output_format", dict, {})
    if form:
        chat["response_format"] = {"type": form.get("type"), "json_schema": form}
    return chat


def _messages(row: Body) -> Iterator[dict[str, Any]]:
    """A message as those of a chat: results of tools are messages of their own, before what a person says with them."""
    content = row.get("content")
    if not isinstance(content, list):
        yield {"role": row.get("role"), "content": content}
        return
    blocks = rows(row, "content")
    kinds = {kind: [block for block in blocks if block.get("type") == kind] for kind in ("tool_result", "tool_use", "thinking")}
    for block in kinds["tool_result"]:
        yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text_of(block.get("content"))}
    others = [block for block in blocks if block.get("type") not in (*kinds, "redacted_thinking")]
    calls = [
        {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input") or {}}}
        for block in kinds["tool_use"]
    ]
    if others or calls or kinds["thinking"]:
        thought = "\n".join(read(block, "thinking", str, "") for block in kinds["thinking"])
        yield {"role": row.get("role"), "content": text_of(others), "tool_calls": calls, "reasoning_content": thought or None}


def error(refused: BadRequestError) -> dict[str, Any]:
    """The body of an error."""
    kind = "invalid_request_error" if refused.status == 400 else refused.kind
    return {"type": "error", "error": {"type": kind, "message": str(refused), **refused.others}}


class Messages(Blocks):
    """An answer of messages."""

    def _usage(self, answer: Answer) -> dict[str, int]:
        total, reused = answer.read
        return {"input_tokens": total - reused, "cache_read_input_tokens": reused, "output_tokens": len(answer.tokens)}

    def _message(self, answer: Answer, content: Sequence[dict[str, Any]], why: str | None) -> dict[str, Any]:
        return {
            "id": f"msg_{self.id}", "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": why, "stop_sequence": None, "usage": self._usage(answer),
        }  # fmt: skip

    def _why(self, answer: Answer) -> str:
        reasons = {"length": "max_tokens", "tool_calls": "tool_use"}
        return "stop_sequence" if answer.stopped else reasons.get(answer.why, "end_turn")

    def _event(self, kind: str, **fields: Any) -> str:
        return event({"type": kind, **fields}, kind)

    def begin(self, answer: Answer) -> Iterator[str]:
        yield self._event("message_start", message=self._message(answer, [], None))

    def progress(self, answer: Answer, prompt: Prompt) -> str:
        return self._event("ping")

    def opened(self, index: int, first: Delta) -> Iterator[str]:
        yield self._event("content_block_start", index=index, content_block=_block([first], {}))

    def added(self, answer: Answer, index: int, delta: Delta) -> Iterator[str]:
        kind, field = {"text": ("text_delta", "text"), "thought": ("thinking_delta", "thinking")}.get(
            delta.kind, ("input_json_delta", "partial_json")
        )
        yield self._event("content_block_delta", index=index, delta={"type": kind, field: delta.text})

    def closed(self) -> Iterator[str]:
        if self.blocks:
            yield self._event("content_block_stop", index=len(self.blocks) - 1)

    def end(self, answer: Answer) -> Iterator[str]:
        yield from self.closed()
        told = {"stop_reason": self._why(answer), "stop_sequence": None}
        yield self._event("message_delta", delta=told, usage=self._usage(answer))
        yield self._event("message_stop")

    def whole(self, answer: Answer) -> dict[str, Any]:
        blocks = [_block(block, _arguments(joined(block))) for block in self._all(answer)]
        return self._message(answer, blocks, self._why(answer))

    def error(self, error: dict[str, Any]) -> str:
        return self._event("error", error=error)


def _block(block: Sequence[Delta], arguments: Any) -> dict[str, Any]:
    first, text = block[0], joined(block)
    if first.kind == "call":
        return {"type": "tool_use", "id": first.id, "name": first.text, "input": arguments}
    if first.kind == "thought":
        return {"type": "thinking", "thinking": text, "signature": ""}
    return {"type": "text", "text": text}


def _arguments(text: str) -> Any:
    """The arguments of a call; {} where the reply ended within them."""
    try:
        return json.loads(text)
    except ValueError:
        return {}
