"""The fields of a request's body: what is asked of the model, as OpenAI's API and llama-server name it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any, TypeVar

from spectui.attach.requests import LLAMA_SERVER
from spectui.engine.events import FREE, Message, Terms
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Knobs
from spectui.serve.tools import Form, tool_grammar

Body = Mapping[str, Any]
Value = TypeVar("Value")

_KNOBS = {name: key for key, name in LLAMA_SERVER.items() if key != "chat_template_kwargs"} | {
    "max_completion_tokens": "predict", "n_predict": "predict", "max_output_tokens": "predict",
    "speculative.n_max": "draft_max", "speculative.n_min": "draft_min", "speculative.p_min": "p_min",
    "drafter": "drafter", "policy": "policy",
}  # fmt: skip
"""Field -> knob."""

_ABSENT: Mapping[str, Any] = {
    "mirostat": 0, "dry_multiplier": 0, "xtc_probability": 0, "typical_p": 1, "dynatemp_range": 0, "top_n_sigma": -1,
    "adaptive_target": -1, "adaptive_decay": 0.9, "best_of": 1, "echo": False, "samplers": (), "lora": (), "n_keep": 0,
}  # fmt: skip
"""Fields that would change the text and are not here, with the value that changes nothing."""

MOST_LIKELIEST = 100
"""Tokens that are told beside one."""

_TEXTS = ("text", "input_text", "output_text", "thinking", "refusal")


class BadRequestError(SpectuiError):
    """A request that is refused. `status`: HTTP's; `kind`: llama-server's type of error; `others`: fields of the error."""

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error", **others: Any) -> None:
        super().__init__(message)
        self.status, self.kind, self.others = status, kind, others


@dataclass(frozen=True)
class Asked:
    """What a body asks for. `tools`: the names of those that the reply may call."""

    messages: tuple[Message, ...]
    terms: Terms = FREE
    knobs: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    stream: bool = False


def read(table: Body, name: str, kind: type[Value] | tuple[type, ...], otherwise: Value) -> Value:
    """The field's value; `otherwise` where it is missing or null. Raises BadRequestError if it is of another kind."""
    value = table.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise BadRequestError(f"{name} is {' or '.join(_NAMES[each] for each in kinds)}, not {json.dumps(value)[:60]}.")
    return value  # type: ignore[return-value]


_NAMES: Mapping[type, str] = {
    str: "a text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "an object",
}  # fmt: skip


def needed(table: Body, name: str, kind: type[Value]) -> Value:
    """The field's value. Raises BadRequestError if it is missing."""
    if table.get(name) is None:
        raise BadRequestError(f"{name} is missing.")
    return read(table, name, kind, kind())


def rows(table: Body, name: str) -> list[Body]:
    """A list of objects."""
    found = read(table, name, list, [])
    if not all(isinstance(row, dict) for row in found):
        raise BadRequestError(f"{name} is a list of objects.")
    return found


def knobs(body: Body) -> dict[str, Any]:
    """The knobs that the body sets. Raises BadRequestError."""
    for name, neutral in _ABSENT.items():
        given = body.get(name)
        if given is not None and given != neutral and not (neutral == () and not given):
            raise BadRequestError(f"{name} would change the text and spectui does not have it: leave it out.")
    nested = body.get("speculative")
    flat = {**body, **{f"speculative.{key}": value for key, value in nested.items()}} if isinstance(nested, dict) else body
    asked: dict[str, Any] = {}
    for name, key in _KNOBS.items():
        usual = getattr(Knobs(), key)
        kind: Any = (int, float) if isinstance(usual, float) else (str, list) if isinstance(usual, tuple) else type(usual)
        value = read(flat, name, kind, None)
        if value is None:
            continue
        if key == "stop":
            value = tuple(filter(None, [value] if isinstance(value, str) else map(str, value)))
        elif key == "predict" or (key == "seed" and value < 0):
            value = max(-1, value)
        asked[key] = value & 0xFFFFFFFF if key == "seed" and value >= 0 else value
    if values := read(body, "chat_template_kwargs", dict, {}):
        asked["chat_template_kwargs"] = json.dumps(values)
    try:
        replace(Knobs(), **asked).checked()
    except UsageError as error:
        raise BadRequestError(str(error)) from None
    return asked


def likeliest(body: Body) -> int:
    """How many of the likeliest tokens are to be told beside each; 0: no probabilities at all. Raises BadRequestError."""
    if body.get("logprobs") is True:
        return min(MOST_LIKELIEST, max(1, read(body, "top_logprobs", int, 0)))
    wanted = 0 if body.get("logprobs") is False else read(body, "logprobs", int, 0)
    return min(MOST_LIKELIEST, max(0, wanted, read(body, "n_probs", int, 0)))


def _terms(body: Body, **others: Any) -> Terms:
    """The terms of a reply with those that every endpoint has. Raises BadRequestError."""
    given = body.get("logit_bias") or {}
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise BadRequestError("logit_bias is an object of numbers, or a list of pairs.")
    bias = []
    for token, value in pairs:
        if isinstance(token, bool) or not isinstance(token, int | str) or not isinstance(value, int | float):
            raise BadRequestError("logit_bias has tokens or texts, and a number, or false, for each.")
        named = int(token) if isinstance(token, str) and token.isdecimal() and isinstance(given, dict) else token
        bias.append((named, -inf if value is False else float(value)))
    endless = read(body, "ignore_eos", bool, False)
    told = MOST_LIKELIEST if read(body, "post_sampling_probs", bool, False) else likeliest(body)
    return Terms(bias=tuple(bias), endless=endless, likeliest=told, **others)


def settings(body: Body, knobs: Knobs) -> dict[str, Any]:
    """The settings of a reply, as llama-server names them. What changes nothing here has the value that says so."""
    terms = _terms(body)
    bias: list[dict[str, Any]] = [{"token": token, "bias": value if isfinite(value) else None} for token, value in terms.bias]
    told = {name: getattr(knobs, key) for name, key in _KNOBS.items()}
    return {**_ABSENT, **told, "ignore_eos": terms.endless, "logit_bias": bias, "n_probs": likeliest(body)}


def text_of(content: Any) -> str:
    """The text of a message's content: a text, or a list of parts. Raises BadRequestError."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise BadRequestError("The content of a message is a text or a list of parts.")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _TEXTS:
            raise BadRequestError(f"A part of a message is of the type {str(kind)[:40]!r}: this model reads text alone.")
        texts.append(read(part, "thinking" if kind == "thinking" else "refusal" if kind == "refusal" else "text", str, ""))
    return "\n".join(texts)


def messages(body: Body, written: Callable[[str], tuple[int, ...]]) -> tuple[Message, ...]:
    """The conversation. `written`: the tokens of a reply that was written here, by its text. Raises BadRequestError."""
    talk: list[Message] = []
    for row in rows(body, "messages"):
        role, content = read(row, "role", str, ""), text_of(row.get("content"))
        if role == "developer":
            role = "system"
        if role not in ("system", "user", "assistant", "tool"):
            raise BadRequestError(f"The role of a message is system, developer, user, assistant or tool, not {role[:40]!r}.")
        if role == "system" and talk and talk[-1].role == "system":
            talk[-1] = Message("system", f"{talk[-1].content}\n\n{content}")
            continue
        others = {key: row[key] for key in ("tool_call_id", "name") if isinstance(row.get(key), str)}
        if calls := rows(row, "tool_calls"):
            others["tool_calls"] = list(map(_call, calls))
        if role != "tool" and not others.get("tool_calls") and row.get("content") is None:
            raise BadRequestError("A message needs a content.")
        thought = read(row, "reasoning_content", str, "") if role == "assistant" else ""
        tokens = written(content) if role == "assistant" else ()
        talk.append(Message(role, content, tokens, thought, json.dumps(others) if others else ""))
    if not talk:
        raise BadRequestError("messages is a list of at least one message.")
    if [message.role for message in talk[-2:]] == ["assistant"] * 2:
        raise BadRequestError("At most one message of the assistant can be last: the reply goes on with it.")
    if talk[-1].role == "assistant":  # a reply that is continued: its tokens would be taken for this model's own last ones
        if body.get("add_generation_prompt") is True and body.get("continue_final_message") is True:
            raise BadRequestError("add_generation_prompt and continue_final_message exclude each other.")
        talk[-1] = talk[-1]._replace(tokens=())
    return tuple(talk)


def _call(row: Body) -> dict[str, Any]:
    function = read(row, "function", dict, {})
    given = function.get("arguments")
    try:
        arguments = json.loads(given) if isinstance(given, str) and given.strip() else given or {}
    except ValueError:
        arguments = given  # a reply may have ended in the middle
    return {"id": row.get("id"), "type": "function", "function": {"name": function.get("name"), "arguments": arguments}}


def chat(body: Body, form: Form | None, written: Callable[[str], tuple[int, ...]], schema: Callable[[str], str]) -> Asked:
    """What a chat completion asks for. `form`: how the model calls tools. `schema`: makes a grammar of a JSON schema.

    Raises BadRequestError, or what `schema` raises.
    """
    talk = messages(body, written)
    tools = [tool["function"] for tool in rows(body, "tools") if isinstance(tool.get("function"), dict)]
    choice = body.get("tool_choice", "auto")
    named = choice.get("function", choice).get("name") if isinstance(choice, dict) else None
    offered = [tool for tool in tools if named in (None, tool.get("name"))] if choice != "none" else []
    if named is not None and not offered:
        raise BadRequestError(f"tool_choice names {str(named)[:60]!r}, which is none of the tools.")
    grammar, trigger = constraint(body, schema), ""
    if offered and form is not None and not grammar:
        forced = named is not None or choice in ("required", "any")
        grammar, trigger = tool_grammar(form, offered, schema, not forced), "" if forced else form.trigger(offered)
    listed = json.dumps([{"type": "function", "function": tool} for tool in tools]) if tools and choice != "none" else ""
    terms = _terms(body, tools=listed if form is not None else "", grammar=grammar, trigger=trigger)
    names = tuple(str(tool.get("name")) for tool in offered if form is not None)
    return Asked(talk, terms, knobs(body), names, read(body, "stream", bool, False))


def constraint(body: Body, schema: Callable[[str], str]) -> str:
    """The grammar that the body asks for; "" for none."""
    wanted = read(body, "response_format", dict, {})
    kind = wanted.get("type", "text")
    if kind not in ("text", "json_object", "json_schema"):
        raise BadRequestError(f"The type of response_format is text, json_object or json_schema, not {str(kind)[:40]!r}.")
    inner = read(wanted, "json_schema", dict, {}) if kind == "json_schema" else wanted
    found = inner.get("schema") if kind != "text" else body.get("json_schema")
    if grammar := read(body, "grammar", str, ""):
        return grammar
    if found is None:
        return schema('{"type": "object"}') if kind != "text" else ""
    if not isinstance(found, dict):
        raise BadRequestError("A JSON schema is an object.")
    return schema(json.dumps(found))


def completions(body: Body, schema: Callable[[str], str]) -> list[Asked]:
    """What a completion of a text, or of tokens, or of several of them, asks for. Raises what `chat` does."""
    given = body.get("prompt")
    prompts = given if isinstance(given, list) and given and not isinstance(given[0], int) else [given]
    terms, own, stream = (
        _terms(body, grammar=constraint(body, schema), raw=True),
        knobs(body),
        read(body, "stream", bool, False),
    )
    return [Asked((_raw(prompt),), terms, own, stream=stream) for prompt in prompts]


def _raw(prompt: Any) -> Message:
    if isinstance(prompt, dict) and not prompt.get("multimodal_data"):
        prompt = prompt.get("prompt_string")
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) and token >= 0 for token in prompt):
        return Message("user", "", tuple(prompt))
    if not isinstance(prompt, str):
        raise BadRequestError("prompt is one text, or the tokens of one, or a list of those.")
    return Message("user", prompt)
