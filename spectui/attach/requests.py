"""What is asked of a server: a conversation, its images, and the knobs as its fields, and which knobs it takes."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from spectui.attach.connection import ServerTrouble
from spectui.attach.facts import Facts
from spectui.engine.events import LARGEST_FILE, Fixed, Image, Message, Terms, image_type
from spectui.knobs import Knobs, json_object, title

CHAT = "/chat/completions"
CONTROL = f"{CHAT}/control"
"""Where llama-server is told to end the thinking of a reply that it writes (`reasoning_control`)."""

LIKELIEST = 5
"""How many of the likeliest tokens are asked for."""

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


def fixed(facts: Facts) -> tuple[Fixed, ...]:
    """The knobs that such a server does not take, and its context."""
    taken = LLAMA_SERVER if facts.llama_server else OPENAI
    flags = _flags(facts) if facts.llama_server else {}
    knobs = [_fixed(key, flags.get(key, "")) for key in Knobs.__dataclass_fields__ if key not in (*taken, *_HERE)]
    return (*knobs, Fixed("ctx_size", f"The server has fixed its context at its start: for more room {facts.larger}."))


def _flags(facts: Facts) -> dict[str, str]:
    """By knob, the flag to restart it with."""
    names = facts.slots.drafters
    if not names or any(name.startswith("draft") for name in names):
        return _AT_START
    return _AT_START | {"draft_max": _LENGTHS.get(names[0], f"--spec-{names[0]}-size-m")}


def _fixed(key: str, flag: str) -> Fixed:
    name = title(key)
    if flag:
        return Fixed(key, f"The server has fixed {name} at its start: restart it with another {flag}.", flag)
    return Fixed(key, f"The server has no {name} that can be turned.")


def body(
    facts: Facts, messages: Sequence[Message], knobs: Knobs, *, cold: bool = False, wants_probabilities: bool = False
) -> dict[str, Any]:
    """The body of a request. `cold`: the server shall reuse no cells. `wants_probabilities`: it shall tell the likeliest."""
    llama_server = facts.llama_server
    asked: dict[str, Any] = {
        **({"model": facts.model.name} if facts.model.name else {}),
        "messages": [_row(message, llama_server) for message in messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if llama_server:
        asked |= {"timings_per_token": True, "return_progress": True, "cache_prompt": not cold, "reasoning_control": True}
        asked |= {"logprobs": True, "top_logprobs": LIKELIEST} if wants_probabilities else {}
        asked |= {"speculative.n_max": 0} if knobs.drafter == "off" else {}
    if (llama_server or facts.model.owner == "vllm") and messages[-1].role == "assistant":
        asked |= {"continue_final_message": True, "add_generation_prompt": False}
    for key, name in (LLAMA_SERVER if llama_server else OPENAI).items():
        value = getattr(knobs, key)
        if key == "chat_template_kwargs":
            value = json_object(value)
        if not (value in ((), None, {}) or (key in ("seed", "predict", "reasoning_budget") and value < 0)):
            asked[name] = list(value) if isinstance(value, tuple) else value
    return asked


def obeyed(terms: Terms) -> dict[str, Any]:
    """llama-server's field for what the reply obeys."""
    if terms.grammar.lstrip().startswith("{"):
        return {"json_schema": json.loads(terms.grammar)}
    return {"grammar": terms.grammar} if terms.grammar else {}


def refused(error: ServerTrouble, asked: Mapping[str, Any]) -> set[str]:
    """The fields that this answer to a request names as wrong; none of those that every server has."""
    if error.status not in (400, 422):
        return set()
    said = f"{error} {json.dumps(dict(error.table))}"
    settings = asked.keys() - {"model", "messages", "stream", "grammar", "json_schema"}
    return {field for field in settings if re.search(rf"\b{field}\b", said)}


def read(image: Image) -> Image:
    """The image with its content; as it is, if the file has gone or has another content now."""
    with suppress(OSError, ValueError):
        if os.path.isfile(image.path):  # a pipe would be waited for
            with open(image.path, "rb") as file:
                content = file.read(LARGEST_FILE + 1)
            if (kind := image_type(content)) and Image.of(image.path, content) == image:
                return image._replace(url=f"data:image/{kind};base64,{b64encode(content).decode()}")
    return image


def _row(message: Message, llama_server: bool) -> dict[str, Any]:
    parts = [{"type": "image_url", "image_url": {"url": image.url}} for image in message.images if image.url]
    row = {"role": message.role, "content": [{"type": "text", "text": message.content}, *parts] if parts else message.content}
    return row | {"reasoning_content": message.thought} if message.thought and llama_server else row
