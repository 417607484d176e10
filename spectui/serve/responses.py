"""OpenAI's responses, which Codex speaks: read as a chat completion, and written as items. Nothing is kept between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from spectui.serve.answer import Part
from spectui.serve.dialects import Blocks
from spectui.serve.fields import BadRequestError, Body, read, rows

_ITEMS = {"text": ("message", "msg_"), "thought": ("reasoning", "rs_"), "call": ("function_call", "fc_")}
"""Kind of a part -> the type of its item, and how its id begins."""

_DELTAS = {"text": "output_text", "thought": "reasoning_text", "call": "function_call_arguments"}


class Responses(Blocks):
    """An answer of responses."""

    _number = -1  # of the last event

    @staticmethod
    def as_chat(body: Body) -> dict[str, Any]:
        if body.get("previous_response_id"):
            raise BadRequestError("previous_response_id is not known: nothing is kept, so send the whole conversation.")
        talk: list[dict[str, Any]] = []
        if instructions := read(body, "instructions", str, ""):
            talk.append({"role": "system", "content": instructions})
        given = body.get("input")
        thought = ""
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else rows(body, "input"):
            kind = item.get("type", "message")
            if kind == "reasoning":
                parts = rows(item, "content") or rows(item, "summary")
                thought = "\n".join(str(part.get("text", "")) for part in parts)
            elif kind == "function_call":
                call = {"id": item.get("call_id"), "function": {"name": item.get("name"), "arguments": item.get("arguments")}}
                if not talk or talk[-1]["role"] != "assistant":
                    talk.append({"role": "assistant", "content": "", "reasoning_content": thought})
                    thought = ""
                talk[-1].setdefault("tool_calls", []).append(call)
            elif kind == "function_call_output":
                talk.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
            elif kind == "message":
                talk.append({"role": item.get("role"), "content": item.get("content"), "reasoning_content": thought})
                thought = ""
            else:
                raise BadRequestError(f"An item of the input is of the type {str(kind)[:40]!r}, which is not known here.")
        tools = [{"function": tool} for tool in rows(body, "tools") if tool.get("type") == "function"]
        form = read(read(body, "text", dict, {}), "format", dict, {})
        wanted = {"type": form.get("type", "text"), "json_schema": form}
        return {**body, "messages": talk, "tools": tools, "response_format": wanted}

    def _response(self, status: str, **others: Any) -> dict[str, Any]:
        return {
            "id": f"resp_{self.id}", "object": "response", "created_at": self.created, "model": self.model, "output": [],
            "status": status, "error": None, "incomplete_details": None, "parallel_tool_calls": True, "tool_choice": "auto",
            "tools": [], "usage": None, **others,
        }  # fmt: skip

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": f"response.{kind}", "sequence_number": self._number, **fields}

    def begin(self) -> Sequence[dict[str, Any]]:
        return [self._event(kind, response=self._response("in_progress")) for kind in ("created", "in_progress")]

    def progress(self, told: dict[str, Any]) -> dict[str, Any]:
        # Codex gives up after five minutes of comments.
        return self._event("in_progress", response=self._response("in_progress"), **told)

    def _item(self, part: Part, status: str) -> dict[str, Any]:
        kind, prefix = _ITEMS[part.kind]
        item: dict[str, Any] = {"id": f"{prefix}{self.id}{part.index}", "type": kind, "status": status}
        if part.kind == "call":
            return item | {"call_id": part.id, "name": part.name, "arguments": part.text}
        if part.kind == "thought":
            return item | {"summary": [], "content": [{"type": "reasoning_text", "text": part.text}]}
        return item | {"role": "assistant", "content": [_content(part.text)] if status == "completed" else []}

    def _in_item(self, kind: str, part: Part, /, **fields: Any) -> dict[str, Any]:
        """An event within an item."""
        item, place = f"{_ITEMS[part.kind][1]}{self.id}{part.index}", {} if part.kind == "call" else {"content_index": 0}
        return self._event(kind, item_id=item, output_index=part.index, **place, **fields)

    def opened(self, part: Part) -> Iterator[dict[str, Any]]:
        begun = self._item(replace(part, text=""), "in_progress")
        yield self._event("output_item.added", output_index=part.index, item=begun)
        if part.kind == "text":
            yield self._in_item("content_part.added", part, part=_content(""))

    def added(self, part: Part, text: str) -> dict[str, Any]:
        return self._in_item(f"{_DELTAS[part.kind]}.delta", part, delta=text)

    def closed(self, part: Part) -> Iterator[dict[str, Any]]:
        if part.kind == "text":
            yield self._in_item("output_text.done", part, text=part.text)
            yield self._in_item("content_part.done", part, part=_content(part.text))
        elif part.kind == "call":
            yield self._in_item("function_call_arguments.done", part, name=part.name, arguments=part.text)
        yield self._event("output_item.done", output_index=part.index, item=self._item(part, "completed"))

    def end(self) -> Iterator[dict[str, Any]]:
        yield from self.close()
        yield self._event("completed", response=self.whole())

    def whole(self) -> dict[str, Any]:
        counts, cut = self.answer.usage(), self.answer.why == "length"
        usage = {
            "input_tokens": counts["prompt_tokens"], "output_tokens": counts["completion_tokens"],
            "total_tokens": counts["total_tokens"], "input_tokens_details": counts["prompt_tokens_details"],
            "output_tokens_details": {"reasoning_tokens": sum(bool(token.thought) for token, _ in self.answer.tokens)},
        }  # fmt: skip
        return self._response(
            "incomplete" if cut else "completed",
            incomplete_details={"reason": "max_output_tokens"} if cut else None,
            output=[self._item(part, "completed") for part in self.answer.parts],
            usage=usage,
        )

    @staticmethod
    def refusal(error: BadRequestError) -> dict[str, Any]:
        return {"type": "error", "code": error.kind, "message": str(error)}


def _content(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}
