"""OpenAI's responses, which Codex speaks: read as a chat completion, and written as items. Nothing is kept between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spectui.serve.answer import Answer
from spectui.serve.dialects import Blocks, event, joined
from spectui.serve.fields import BadRequestError, Body, read, rows, text_of
from spectui.serve.tools import Delta

_SAME = ("temperature", "top_p", "top_k", "stream", "seed", "max_output_tokens", "drafter", "policy", "speculative")
_ITEMS = {"text": "message", "thought": "reasoning", "call": "function_call"}
_IDS = {"text": "msg_", "thought": "rs_", "call": "fc_"}


def as_chat(body: Body) -> dict[str, Any]:
    """The body of a chat completion that asks for the same. Raises BadRequestError."""
    if body.get("previous_response_id"):
        raise BadRequestError("previous_response_id is not known: nothing is kept, so send the whole conversation.")
    chat: dict[str, Any] = {name: body[name] for name in _SAME if name in body}
    talk: list[dict[str, Any]] = []
    if instructions := read(body, "instructions", str, ""):
        talk.append({"role": "system", "content": instructions})
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else rows(body, "input")
    thought = ""
    for item in items:
        kind = item.get("type", "message")
        if kind == "reasoning":
            parts = read(item, "content", list, []) or read(item, "summary", list, [])
            thought = "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
        elif kind == "function_call":
            call = {"id": item.get("call_id"), "function": {"name": item.get("name"), "arguments": item.get("arguments")}}
            if not talk or talk[-1]["role"] != "assistant":
                talk.append({"role": "assistant", "content": "", "reasoning_content": thought})
                thought = ""
            talk[-1].setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            output = item.get("output")
            said = output if isinstance(output, str) else text_of(output)
            talk.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": said})
        elif kind == "message":
            own = {"reasoning_content": thought} if item.get("role") == "assistant" else {}
            talk.append({"role": item.get("role"), "content": text_of(item.get("content")), **own})
            thought = ""
        else:
            raise BadRequestError(f"An item of the input is of the type {str(kind)[:40]!r}, which this server does not have.")
    chat["messages"] = talk
    chat["tools"] = [{"function": tool} for tool in rows(body, "tools") if tool.get("type") == "function"]
    chat["tool_choice"] = body.get("tool_choice", "auto")
    form = read(read(body, "text", dict, {}), "format", dict, {})
    if form.get("type", "text") != "text":
        chat["response_format"] = {"type": form["type"], "json_schema": {"schema": form.get("schema")}}
    return chat


class Responses(Blocks):
    """An answer of responses."""

    hears_comments = False  # Codex does not, and gives up after five minutes

    def __init__(self, body: Body, model: str) -> None:
        super().__init__(body, model)
        self._number = -1

    def _event(self, kind: str, **fields: Any) -> str:
        self._number += 1
        return event({"type": kind, "sequence_number": self._number, **fields}, kind)

    def _response(self, answer: Answer, status: str, output: Sequence[dict[str, Any]]) -> dict[str, Any]:
        counts = answer.usage()
        usage = {
            "input_tokens": counts["prompt_tokens"], "output_tokens": counts["completion_tokens"],
            "total_tokens": counts["total_tokens"], "input_tokens_details": counts["prompt_tokens_details"],
            "output_tokens_details": {"reasoning_tokens": sum(bool(token.thought) for token in answer.tokens)},
        }  # fmt: skip
        whole = answer.why == "length"
        return {
            "id": f"resp_{self.id}", "object": "response", "created_at": self.created, "model": self.model, "output": output,
            "status": "incomplete" if status == "completed" and whole else status, "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "completed" and whole else None,
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage if status == "completed" else None,
        }  # fmt: skip

    def begin(self, answer: Answer) -> Iterator[str]:
        for kind in ("created", "in_progress"):
            yield self._event(f"response.{kind}", response=self._response(answer, "in_progress", []))

    def progressed(self, answer: Answer, told: dict[str, Any]) -> str:
        return self._event("response.in_progress", response=self._response(answer, "in_progress", []), **told)

    def _item(self, block: Sequence[Delta], index: int, status: str) -> dict[str, Any]:
        first, text = block[0], joined(block)
        item: dict[str, Any] = {"id": self._id(index), "type": _ITEMS[first.kind], "status": status}
        if first.kind == "call":
            return item | {"call_id": first.id, "name": first.text, "arguments": text}
        if first.kind == "thought":
            return item | {"summary": [], "content": [{"type": "reasoning_text", "text": text}]}
        return item | {"role": "assistant", "content": [_part(text)] if status == "completed" else []}

    def _id(self, index: int) -> str:
        kind = self.blocks[index][0].kind if self.blocks else "text"
        return f"{_IDS[kind]}{self.id}{index}"

    def _place(self, index: int) -> dict[str, Any]:
        return {"item_id": self._id(index), "output_index": index}

    def opened(self, index: int, first: Delta) -> Iterator[str]:
        item = self._item([first], index, "in_progress")
        yield self._event("response.output_item.added", output_index=index, item=item)
        if first.kind == "text":
            yield self._event("response.content_part.added", **self._place(index), content_index=0, part=_part(""))

    def added(self, answer: Answer, index: int, delta: Delta) -> Iterator[str]:
        kind = {"text": "output_text", "thought": "reasoning_text"}.get(delta.kind, "function_call_arguments")
        place = self._place(index) | ({} if delta.kind == "arguments" else {"content_index": 0})
        figures = answer.figures() if self.timed else {}
        yield self._event(f"response.{kind}.delta", **place, delta=delta.text, **figures)

    def closed(self) -> Iterator[str]:
        if not self.blocks:
            return
        index, block = len(self.blocks) - 1, self.blocks[-1]
        text, place = joined(block), self._place(index)
        if block[0].kind == "text":
            yield self._event("response.output_text.done", **place, content_index=0, text=text)
            yield self._event("response.content_part.done", **place, content_index=0, part=_part(text))
        elif block[0].kind == "call":
            yield self._event("response.function_call_arguments.done", **place, name=block[0].text, arguments=text)
        item = self._item(block, index, "completed")
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _completed(self, answer: Answer) -> dict[str, Any]:
        output = [self._item(block, index, "completed") for index, block in enumerate(self.blocks)]
        return self._response(answer, "completed", output)

    def end(self, answer: Answer) -> Iterator[str]:
        if not self.blocks:
            yield from self.piece(answer, range(0), [Delta("text", "")])
        yield from self.closed()
        figures = answer.figures() if self.timed else {}
        yield self._event("response.completed", response=self._completed(answer), **figures)

    def whole(self, answer: Answer) -> dict[str, Any]:
        self.blocks = self._all(answer)
        return self._completed(answer)

    def error(self, error: dict[str, Any]) -> str:
        return self._event("error", code=error["type"], message=error["message"])


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}
