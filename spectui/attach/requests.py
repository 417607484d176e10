"""What is asked of a server: a conversation and the knobs as its fields, and which knobs it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectui.engine.events import Fixed, Message
from spectui.knobs import Knobs, json_object, title
from spectui.thinking import split

CHAT = "/v1/chat/completions"

OPENAI = {
    "temperature": "temperature", "top_p": "top_p", "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty", "seed": "seed", "predict": "max_tokens", "stop": "stop",
}  # fmt: skip
"""The field of each knob that OpenAI's API has."""

LLAMA_SERVER = OPENAI | {
    "top_k": "top_k", "min_p": "min_p", "repeat_penalty": "repeat_penalty", "reasoning_budget": "reasoning_budget_tokens",
    "chat_template_kwargs": "chat_template_kwargs",
}  # fmt: skip
"""The same of llama-server."""

_AT_START = {
    "drafter": "--spec-type", "policy": "", "draft_max": "--spec-draft-n-max", "draft_min": "--spec-draft-n-min",
    "p_min": "--spec-draft-p-min",
}  # fmt: skip
"""What llama-server fixes at its start, with its flag; "" if it has none."""

_HERE = ("context_full",)  # what the chat does, whatever the server is


_LENGTHS = {"ngram-mod": "--spec-ngram-mod-n-max", "ngram-cache": ""}
"""The flag for the longest draft of a lookup. Other lookups have one of a common form."""


def fixed(llama_server: bool, drafters: Sequence[str] = ()) -> tuple[Fixed, ...]:
    """The knobs that such a server does not take. `drafters`: its kinds of speculation."""
    taken = LLAMA_SERVER if llama_server else OPENAI
    flags = _AT_START | {"draft_max": _length_flag(drafters)} if llama_server else {}
    return tuple(_fixed(key, flags.get(key, "")) for key in Knobs.__dataclass_fields__ if key not in (*taken, *_HERE))


def _length_flag(drafters: Sequence[str]) -> str:
    if not drafters or any(name.startswith("draft") for name in drafters):
        return _AT_START["draft_max"]
    return _LENGTHS.get(drafters[0], f"--spec-{drafters[0]}-size-m")


def _fixed(key: str, flag: str) -> Fixed:
    name = title(key)
    if flag:
        return Fixed(key, f"The server has fixed {name} at its start: restart it with another {flag}.", flag)
    return Fixed(key, f"The server has no {name} that can be turned.")


def body(
    model: str, messages: Sequence[Message], knobs: Knobs, *, llama_server: bool, cold: bool = False
) -> dict[str, Any]:
    """The body of a request. `cold`: the server shall reuse no cells."""
    asked: dict[str, Any] = {
        "model": model,
        "messages": [_row(message, llama_server) for message in messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if llama_server:
        asked |= {"timings_per_token": True, "return_progress": True, "cache_prompt": not cold}
        asked |= _continued(messages)
    for key, name in (LLAMA_SERVER if llama_server else OPENAI).items():
        value = getattr(knobs, key)
        if key == "chat_template_kwargs":
            value = json_object(value)
        if not (value in ((), None, {}) or (key in ("seed", "predict", "reasoning_budget") and value < 0)):
            asked[name] = list(value) if isinstance(value, tuple) else value
    return asked


def bare(asked: dict[str, Any]) -> dict[str, Any]:
    """The same without any setting, for a server that refuses one."""
    return {key: asked[key] for key in ("model", "messages", "stream")}


def _continued(messages: Sequence[Message]) -> dict[str, Any]:
    if messages[-1].role != "assistant":
        return {}
    return {"continue_final_message": True, "add_generation_prompt": False}


def _row(message: Message, llama_server: bool) -> dict[str, str]:
    if message.role != "assistant":
        return {"role": message.role, "content": message.content}
    thought, answer = split(message.content)
    row = {"role": message.role, "content": answer}
    return row | {"reasoning_content": thought} if thought and llama_server else row
