"""The fields of a request's body: what is asked of the model, as OpenAI's API and llama-server name it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from spectui.attach.requests import LLAMA_SERVER
from spectui.engine.events import Failed, Message, Terms
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

_ABSENT: Mapping[str, tuple[Any, ...]] = {
    "mirostat": (0,), "dry_multiplier": (0,), "xtc_probability": (0,), "typical_p": (1,), "dynatemp_range": (0,),
    "top_n_sigma": (-1,), "best_of": (1,), "n": (1,), "echo": (False,), "samplers": ([],), "lora": ([],),
    "logit_bias": ({}, []), "ignore_eos": (False,), "post_sampling_probs": (False,),
}  # fmt: skip
"""Fields that would change the answer and are not here, with the values that change nothing."""

MOST_LIKELIEST = 100
"""Tokens that are told beside one."""

_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "thinking": "thinking", "refusal": "refusal"}
"""Type of a part of a message -> the field with its text."""

_NAMES: Mapping[type, str] = {
    str: "a text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "an object",
}  # fmt: skip


class BadRequestError(SpectuiError):
    """A request that is refused. `status`: HTTP's; `kind`: llama-server's type of error; `others`: fields of the error."""

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error", **others: Any) -> None:
        super().__init__(message)
        self.status, self.kind, self.others = status, kind, others

    @classmethod
    def of(cls, failed: Failed) -> BadRequestError:
        """Why a reply failed."""
        if failed.no_room:
            numbers = {"n_prompt_tokens": failed.tokens, "n_ctx": failed.n_ctx}
            return cls(failed.message, 400, "exceed_context_size_error", **numbers)
        return cls(failed.message) if failed.refused else cls(failed.message, 500, "server_error")

    def body(self) -> dict[str, Any]:
        """What is answered."""
        return {"error": {"code": self.status, "message": str(self), "type": self.kind, **self.others}}


class Asked(NamedTuple):
    """What a body asks for. `tools`: the names of those that the reply may call."""

    messages: tuple[Message, ...]
    terms: Terms
    knobs: Mapping[str, Any]
    tools: tuple[str, ...]
    stream: bool


def read(table: Body, name: str, kind: type[Value] | tuple[type, ...], otherwise: Value) -> Value:
    """The field's value; `otherwise` where it is missing or null. Raises BadRequestError if it is of another kind."""
    value = table.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise BadRequestError(f"{name} is {' or '.join(_NAMES[kind] for kind in kinds)}, not {json.dumps(value)[:60]}.")
    return value  # type: ignore[return-value]


def rows(table: Body, name: str) -> list[Body]:
    """A list of objects."""
    listed = read(table, name, list, [])
    if not all(isinstance(row, dict) for row in listed):
        raise BadRequestError(f"{name} is a list of objects.")
    return listed


def knobs(body: Body) -> dict[str, Any]:
    """The knobs that the body sets. Raises BadRequestError."""
    for name, neutral in _ABSENT.items():
        if body.get(name) is not None and body[name] not in neutral:
            raise BadRequestError(f"{name} would change the answer, and spectui does not have it: leave it out.")
    flat = {**body, **{f"speculative.{key}": value for key, value in read(body, "speculative", dict, {}).items()}}
    asked: dict[str, Any] = {}
    for name, key in _KNOBS.items():
        usual = getattr(Knobs(), key)
        kind: Any = (int, float) if isinstance(usual, float) else (str, list) if isinstance(usual, tuple) else type(usual)
        value = read(flat, name, kind, None)
        if value is None:
            continue
        if key == "stop":
            value = tuple(filter(None, [value] if isinstance(value, str) else map(str, value)))
        elif key in ("predict", "seed"):
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


def text_of(content: Any) -> str:
    """The text of a message's content: a text, or a list of parts. Raises BadRequestError."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise BadRequestError("The content of a message is a text or a list of parts.")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind not in _TEXTS:
            raise BadRequestError(f"A part of a message is of the type {str(kind)[:40]!r}: this model reads text alone.")
        texts.append(read(part, _TEXTS[kind], str, ""))
    return "\n".join(texts)


def messages(body: Body, written: Mapping[str, tuple[int, ...]]) -> tuple[Message, ...]:
    """The conversation. `written`: the tokens of a reply that was written here, by its text. Raises BadRequestError."""
    talk: list[Message] = []
    for row in rows(body, "messages"):
        role, content = read(row, "role", str, ""), text_of(row.get("content"))
        role = "system" if role == "developer" else role
        if role not in ("system", "user", "assistant", "tool"):
            raise BadRequestError(f"The role of a message is system, developer, user, assistant or tool, not {role[:40]!r}.")
        if role == "system" and talk and talk[-1].role == "system":
            talk[-1] = Message("system", f"{talk[-1].content}\n\n{content}")
            continue
        others = {key: row[key] for key in ("tool_call_id", "name") if isinstance(row.get(key), str)}
        if calls := rows(row, "tool_calls"):
            others["tool_calls"] = list(map(_call, calls))
        elif role != "tool" and row.get("content") is None:
            raise BadRequestError("A message needs a content.")
        thought = read(row, "reasoning_content", str, "") if role == "assistant" else ""
        tokens = written.get(content, ()) if role == "assistant" else ()
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


def asked(body: Body, form: Form | None, written: Mapping[str, tuple[int, ...]], raw: bool = False) -> Asked:
    """What a completion asks for, of a chat or of a `raw` text. `form`: how the model calls tools. `written`: as in `messages`.

    Raises BadRequestError.
    """
    talk = (_begun(body),) if raw else messages(body, written)
    terms, tools = _with_tools(body, form, Terms(grammar=constraint(body), raw=raw, likeliest=likeliest(body)))
    return Asked(talk, terms, knobs(body), tools, read(body, "stream", bool, False))


def _begun(body: Body) -> Message:
    """The text, or the tokens, that the reply goes on with."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) and token >= 0 for token in prompt):
        return Message("user", "", tuple(prompt))
    if isinstance(prompt, str):
        return Message("user", prompt)
    raise BadRequestError("prompt is one text, or the tokens of one: ask for several one by one.")


def _with_tools(body: Body, form: Form | None, terms: Terms) -> tuple[Terms, tuple[str, ...]]:
    """The terms, with the tools that the body offers to a model that calls them in this form; and the names of those."""
    tools = [tool["function"] for tool in rows(body, "tools") if isinstance(tool.get("function"), dict)]
    choice, offered = body.get("tool_choice"), tools
    if isinstance(choice, dict):
        function = choice.get("function")
        name = (function if isinstance(function, dict) else choice).get("name")
        offered = [tool for tool in tools if tool.get("name") == name]
        if not offered:
            raise BadRequestError(f"tool_choice names {str(name)[:60]!r}, which is none of the tools.")
    if form is None or not offered or terms.raw or choice == "none":
        return terms, ()
    names = tuple(str(tool.get("name")) for tool in offered)
    if not terms.grammar:
        forced = isinstance(choice, dict) or choice in ("required", "any")
        grammar, trigger = tool_grammar(form, offered, not forced), "" if forced else form.trigger(names)
        terms = terms._replace(grammar=grammar, trigger=trigger)
    return terms._replace(tools=json.dumps([{"type": "function", "function": tool} for tool in tools])), names


def constraint(body: Body) -> str:
    """The grammar, or the JSON schema, that the body asks for; "" for none."""
    wanted = read(body, "response_format", dict, {})
    kind = wanted.get("type", "text")
    if kind not in ("text", "json_object", "json_schema"):
        raise BadRequestError(f"The type of response_format is text, json_object or json_schema, not {str(kind)[:40]!r}.")
    inner = read(wanted, "json_schema", dict, {}) if kind == "json_schema" else wanted
    schema = inner.get("schema") if kind != "text" else body.get("json_schema")
    if schema is None and kind != "text":
        schema = {"type": "object"}
    if schema is not None and not isinstance(schema, dict):
        raise BadRequestError("A JSON schema is an object.")
    return read(body, "grammar", str, "") or (json.dumps(schema) if schema is not None else "")
