"""Anthropic's messages, which Claude Code speaks: read as a chat completion, and written as blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from spectui.serve.answer import Part
from spectui.serve.dialects import Blocks
from spectui.serve.fields import BadRequestError, Body, read, rows, text_of

_BILLING = "x-anthropic-billing-header"
"""Claude Code's first block of the system prompt, whose number changes every turn: with it nothing would stay read."""

_REASONS = {"length": "max_tokens", "tool_calls": "tool_use"}
_DELTAS = {
    "text": ("text_delta", "text"),
    "thought": ("thinking_delta", "thinking"),
    "call": ("input_json_delta", "partial_json"),
}


class Messages(Blocks):
    """An answer of messages."""

    @staticmethod
    def as_chat(body: Body) -> dict[str, Any]:
        system = body.get("system")
        if isinstance(system, list):
            system = [block for block in rows(body, "system") if not str(block.get("text", "")).startswith(_BILLING)]
        talk = [{"role": "system", "content": system}] if system else []
        for row in rows(body, "messages"):
            talk += _messages(row)
        tools = [
            {"function": {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool["input_schema"]}}
            for tool in rows(body, "tools")
            if "input_schema" in tool
        ]
        choice = read(body, "tool_choice", dict, {})
        kind = choice.get("type", "auto")
        chat = {**body, "messages": talk, "tools": tools, "stop": body.get("stop_sequences")}
        chat["tool_choice"] = {"name": choice.get("name")} if kind == "tool" else kind
        thinking = read(body, "thinking", dict, {})
        if thinking.get("type") in ("enabled", "disabled"):
            chat["chat_template_kwargs"] = {"enable_thinking": thinking["type"] == "enabled"}
            chat["reasoning_budget_tokens"] = thinking.get("budget_tokens")
        form = read(read(body, "output_config", dict, {}), "format", dict, {}) or read(body, "output_format", dict, {})
        return {**chat, "response_format": {"type": form.get("type"), "json_schema": form}} if form else chat

    def _message(self, content: Sequence[dict[str, Any]], why: str | None) -> dict[str, Any]:
        return {
            "id": f"msg_{self.id}", "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": why, "stop_sequence": None, "usage": self._usage(),
        }  # fmt: skip

    def _usage(self) -> dict[str, int]:
        total, reused = self.answer.prompt.total, self.answer.prompt.reused
        written = len(self.answer.tokens)
        return {"input_tokens": total - reused, "cache_read_input_tokens": reused, "output_tokens": written}

    @property
    def _why(self) -> str:
        return "stop_sequence" if self.answer.stopped else _REASONS.get(self.answer.why, "end_turn")

    def begin(self) -> Sequence[dict[str, Any]]:
        return ({"type": "message_start", "message": self._message([], None)},)

    def progress(self, told: dict[str, Any]) -> dict[str, Any]:
        return {"type": "ping"}

    def opened(self, part: Part) -> Iterator[dict[str, Any]]:
        yield {"type": "content_block_start", "index": part.index, "content_block": _block(replace(part, text=""))}

    def added(self, part: Part, text: str) -> dict[str, Any]:
        kind, field = _DELTAS[part.kind]
        return {"type": "content_block_delta", "index": part.index, "delta": {"type": kind, field: text}}

    def closed(self, part: Part) -> Iterator[dict[str, Any]]:
        yield {"type": "content_block_stop", "index": part.index}

    def end(self) -> Iterator[dict[str, Any]]:
        yield from self.close()
        yield {"type": "message_delta", "delta": {"stop_reason": self._why, "stop_sequence": None}, "usage": self._usage()}
        yield {"type": "message_stop"}

    def whole(self) -> dict[str, Any]:
        return self._message([_block(part) for part in self.answer.parts or [Part("text")]], self._why)

    @staticmethod
    def refusal(error: BadRequestError) -> dict[str, Any]:
        kind = "invalid_request_error" if error.status == 400 else error.kind
        return {"type": "error", "error": {"type": kind, "message": str(error), **error.others}}


def _messages(row: Body) -> Iterator[dict[str, Any]]:
    """A message as those of a chat: results of tools are messages of their own, before what a person says with them."""
    if not isinstance(row.get("content"), list):
        yield {"role": row.get("role"), "content": row.get("content")}
        return
    blocks = rows(row, "content")
    kinds = {kind: [block for block in blocks if block.get("type") == kind] for kind in ("tool_result", "tool_use", "thinking")}
    for block in kinds["tool_result"]:
        yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": block.get("content")}
    others = [block for block in blocks if block.get("type") not in (*kinds, "redacted_thinking")]
    calls = [
        {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input") or {}}}
        for block in kinds["tool_use"]
    ]
    if others or calls or kinds["thinking"]:
        thought = text_of(kinds["thinking"])
        yield {"role": row.get("role"), "content": others, "tool_calls": calls, "reasoning_content": thought or None}


def _block(part: Part) -> dict[str, Any]:
    if part.kind == "thought":
        return {"type": "thinking", "thinking": part.text, "signature": ""}
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    try:
        arguments = json.loads(part.text or "{}")
    except ValueError:  # the reply ended within them
        arguments = {}
    return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}
