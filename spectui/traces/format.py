"""The lines of a trace, `spectui.trace/1`: one JSON object for each event of the engine. docs/traces.md describes them."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import spectui
from spectui.engine.events import (
    Asked,
    Device,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    Message,
    ModelInfo,
    Notice,
    Prompt,
    RoundDone,
)  # fmt: skip
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Knobs, Setup
from spectui.llama.devices.records import MemoryUse
from spectui.speculation.evaluator import common_prefix
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.records import UNKNOWN, DraftToken, Likeliest, Round, StopReason, Token
from spectui.speculation.statistics import Statistics
from spectui.store.rounds.packing import checked_fields, read_knobs, read_reason, reason_row, rounded_share
from spectui.text import safe

Value = TypeVar("Value")

SCHEMA = "spectui.trace/1"

FAULTS = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError, UsageError)
"""Errors that reading a damaged line raises."""

DRAFT = ("id", "text", "p", "source", "fate")
"""The columns of a drafted token."""

TOKEN = ("id", "text", "origin", "source", "p_draft", "p_target")
"""The columns of an emitted token."""

_TIMES = ("draft_s", "verify_s", "choose_s", "seconds", "plain_s")
_COSTS = ("per_row", "per_pass", "first", "next")
_PRIVATE = (
    "model",
    "draft",
    "system",
    "rpc",
    "server",
    "server_key_file",
)  # of a set-up: paths and addresses; the system prompt is a message


class TraceError(SpectuiError):
    """A trace cannot be written or read."""


class Header(NamedTuple):
    """The first line. `started`: seconds since the epoch. `machine`: system, architecture, cores."""

    spectui: str
    started: float
    machine: Mapping[str, Any]
    knobs: Knobs


class Encoder:
    """Turns events into lines. A line omits values that earlier lines have."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs
        self._messages: tuple[Message, ...] = ()
        self._tokens: list[int] = []

    def header(self) -> bytes:
        """The first line."""
        machine = {"system": platform.system(), "architecture": platform.machine(), "cores": os.cpu_count()}
        started = round(time.time(), 3)
        return _line("trace", schema=SCHEMA, spectui=spectui.__version__, started=started, machine=machine,
                     knobs=dataclasses.asdict(self._knobs))  # fmt: skip

    def line(self, event: Event) -> bytes | None:
        """The line of an event; None if it has none."""
        match event:
            case RoundDone(round=done, n_context=n_context):
                return self._round(done, n_context)
            case Asked(messages=messages, tokens=tokens):
                return self._prompt(messages, tokens)
            case Prompt(done=done, total=total) if done == total:
                return _line("read", total=total, reused=event.reused, seconds=round(event.seconds, 6),
                             thinking=event.thinking)  # fmt: skip
            case Finished(reason=reason):
                prompt_s, first = event.prompt_s, event.time_to_first_token_s
                return _line("finished", reason=reason.value, prompt_tokens=event.prompt_tokens,
                             prompt_s=prompt_s and round(prompt_s, 6), first_token_s=first and round(first, 6),
                             **self._turned(event.knobs))  # fmt: skip
            case Loaded():
                return _loaded_line(event)
            case LoadFailed(message=message, without_draft=without_draft):
                return _line("load_failed", message=message, without_draft=without_draft)
            case Failed(message=message):
                return _line("failed", message=message)
            case Notice(message=message, draft_failed=draft_failed):
                return _line("notice", message=message, draft_failed=draft_failed)
        return None

    def _turned(self, knobs: Knobs) -> dict[str, Any]:
        """The knobs that were turned since the last line."""
        if knobs is self._knobs or knobs == self._knobs:
            return {}
        before, self._knobs = self._knobs, knobs
        names = [field.name for field in dataclasses.fields(Knobs)]
        return {"knobs": {n: getattr(knobs, n) for n in names if getattr(knobs, n) != getattr(before, n)}}

    def _prompt(self, messages: tuple[Message, ...], tokens: Sequence[int]) -> bytes:
        pairs = zip(messages, self._messages, strict=False)
        same_messages = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        same_tokens = common_prefix(self._tokens, list(tokens))
        self._messages, self._tokens = messages, list(tokens)
        rest = [{"role": each.role, "content": each.content} for each in messages[same_messages:]]
        return _line("prompt", same_messages=same_messages, messages=rest, same_tokens=same_tokens,
                     tokens=tokens[same_tokens:])  # fmt: skip

    def _round(self, done: Round, n_context: int | None) -> bytes:
        self._tokens += [token.id for token in done.tokens]
        drafted = [
            [each.id, each.text, each.p and rounded_share(each.p), each.source, each.fate] for each in done.drafted
        ]
        tokens = [
            [each.id, each.text, each.origin, each.source, each.p_draft and rounded_share(each.p_draft),
             each.p_target and rounded_share(each.p_target)]
            for each in done.tokens
        ]  # fmt: skip
        times = {name: value and round(value, 6) for name in _TIMES if (value := getattr(done, name)) is not None}
        if done.guessed is not None:
            times.update(guessed=done.guessed, saved_s=round(done.saved_s, 6))
        likeliest = None if done.likeliest is None else _likeliest_rows(done.likeliest)
        there = {"drafted": drafted, "reason": reason_row(done.reason), "likeliest": likeliest}
        return _line("round", index=done.index, position=done.position, context=n_context, pass_size=done.pass_size,
                     **times, tokens=tokens, **{name: value for name, value in there.items() if value},
                     **self._turned(done.knobs))  # fmt: skip


class Decoder:
    """Reads the lines that `Encoder` wrote, with texts made safe to show. Raises one of `FAULTS` where one is damaged."""

    def __init__(self, header: Header) -> None:
        self._knobs = header.knobs
        self._messages: tuple[Message, ...] = ()
        self._text: list[int] = []  # prompt and reply
        self._statistics = Statistics()
        self._reply: list[str] = []
        self._asked = False
        self._readers: dict[str, Callable[[dict[str, Any]], Event]] = {
            "loaded": _loaded, "prompt": self._prompt, "read": self._read, "round": self._round,
            "finished": self._finished, "failed": self._failed,
            "load_failed": partial(_record, LoadFailed), "notice": partial(_record, Notice),
        }  # fmt: skip

    def event(self, line: bytes) -> Event | None:
        """What the line says; None for a type that this version does not know."""
        row = json.loads(line)
        reader = self._readers.get(row.pop("type"))
        if "knobs" in row:
            self._knobs = read_knobs(dataclasses.asdict(self._knobs) | row.pop("knobs"))
        return reader(row) if reader is not None else None

    def _prompt(self, row: dict[str, Any]) -> Asked:
        new = tuple(_record(Message, each) for each in row["messages"])
        self._messages = self._messages[: _number(row["same_messages"], len(self._messages))] + new
        if not self._messages:
            raise ValueError("no messages")
        self._text = self._text[: _number(row["same_tokens"], len(self._text))] + [_token(n) for n in row["tokens"]]
        if not self._text:
            raise ValueError("no tokens")
        self._statistics, self._reply, self._asked = Statistics(), [], True
        return Asked(self._messages, tuple(self._text))

    def _read(self, row: dict[str, Any]) -> Prompt:
        self._within_reply()
        return _record(Prompt, row | {"done": row["total"]})

    def _round(self, row: dict[str, Any]) -> RoundDone:
        self._within_reply()
        plain = [name for name in row if name not in ("drafted", "tokens", "reason", "likeliest")]
        fields = checked_fields(Round, plain, [row[name] for name in plain])
        drafted = tuple(DraftToken(**checked_fields(DraftToken, DRAFT, each)) for each in row.get("drafted", ()))
        tokens = tuple(
            Token(round=fields["index"], position=fields["position"] + n, **checked_fields(Token, TOKEN, each))
            for n, each in enumerate(row["tokens"])
        )
        if fields["position"] != len(self._text) or not tokens or fields["pass_size"] < 1:
            raise ValueError("a round at another position")
        reason, likeliest = row.get("reason"), row.get("likeliest")
        done = Round(
            **fields, knobs=self._knobs, drafted=drafted, tokens=tokens,
            reason=_known(read_reason, reason), likeliest=_known(partial(_likeliest, positions=len(tokens)), likeliest),
        )  # fmt: skip
        for time_s in (done.draft_s, done.verify_s, done.choose_s, done.seconds):
            _seconds(time_s)
        self._text += [token.id for token in tokens]
        self._reply += [token.text for token in tokens]
        self._statistics.add(done)
        return RoundDone(done, _known(_number, row["context"]))

    def _finished(self, row: dict[str, Any]) -> Finished:
        self._within_reply()
        self._asked = False
        return Finished(
            StopReason(row["reason"]), "".join(self._reply), self._statistics, self._knobs,
            _known(_number, row["prompt_tokens"]), _known(_seconds, row["prompt_s"]),
            _known(_seconds, row["first_token_s"]),
        )  # fmt: skip

    def _failed(self, row: dict[str, Any]) -> Failed:
        self._within_reply()
        self._asked = False
        return _record(Failed, row)

    def _within_reply(self) -> None:
        if not self._asked:
            raise ValueError("no prompt before it")


def read_header(line: bytes) -> Header:
    """The header of a first line. Raises TraceError for a trace of another version, one of `FAULTS` where it is none."""
    row = json.loads(line)
    schema = str(row["schema"]) if row["type"] == "trace" else ""
    name, _, version = schema.partition("/")
    if name != SCHEMA.partition("/")[0]:
        raise ValueError(schema)
    if schema != SCHEMA:
        raise TraceError(
            f"The trace has version {safe(version)[:20]!r}, and this spectui reads version {SCHEMA.partition('/')[2]}: "
            "read it with the spectui that wrote it."
        )
    machine = {safe(str(key)): safe(str(value)) for key, value in row.get("machine", {}).items()}
    return Header(safe(str(row["spectui"])), float(row["started"]), machine, read_knobs(row["knobs"]))


def _line(kind: str, **row: Any) -> bytes:
    return (
        json.dumps({"type": kind, **row}, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    )


def _loaded_line(loaded: Loaded) -> bytes:
    setup = {key: value for key, value in dataclasses.asdict(loaded.setup).items() if key not in _PRIVATE}
    costs = loaded.costs
    return _line(
        "loaded", target=_model_row(loaded.target), draft=loaded.draft and _model_row(loaded.draft), setup=setup,
        devices=[{**each._asdict(), "id": None} for each in loaded.devices],
        costs=costs and {"verify": {str(rows): seconds for rows, seconds in sorted(costs.passes.items())},
                         **{name: getattr(costs, name) for name in _COSTS}},
    )  # fmt: skip


def _model_row(info: ModelInfo) -> dict[str, Any]:
    return {**info._asdict(), "path": Path(info.path).name, "memory": [each._asdict() for each in info.memory]}


def _record(kind: type[Value], row: dict[str, Any]) -> Value:
    """A record of these fields. Raises ValueError for a value that its field cannot have."""
    return kind(**checked_fields(kind, list(row), list(row.values())))


def _model(row: dict[str, Any]) -> ModelInfo:
    memory = tuple(_record(MemoryUse, each) for each in row.pop("memory", ()))
    return _record(ModelInfo, row)._replace(memory=memory)


def _loaded(row: dict[str, Any]) -> Loaded:
    target, draft = _model(row["target"]), _known(_model, row["draft"])
    setup = dataclasses.replace(_record(Setup, row["setup"]), model=target.path, draft=draft and draft.path)
    costs = None
    if row["costs"] is not None:
        given = {key: _seconds(value) for key, value in row["costs"].items() if key != "verify"}
        drift = given.pop("drift", 1.0)  # older traces have all of it as it was measured, and this factor for then
        verify = {_number(int(rows)): drift * _seconds(s) for rows, s in row["costs"]["verify"].items()}
        per_row, per_pass, first, following = (drift * given.get(key, 0.0) for key in _COSTS)
        costs = CostModel(verify, per_row, per_pass, first, following)
    return Loaded(setup, target, draft, tuple(_record(Device, each) for each in row["devices"]), costs)


def _likeliest_rows(likeliest: Likeliest) -> list[list[list[Any]]]:
    """For each token a list of [id, text, p]."""
    ids, shares, each = array("i", likeliest.ids), array("f", likeliest.p), likeliest.each
    flat = [[i, t, rounded_share(p)] for i, t, p in zip(ids, likeliest.texts, shares, strict=True)]
    return [flat[start : start + each] for start in range(0, len(flat), each)]


def _likeliest(rows: Sequence[Sequence[Sequence[Any]]], positions: int) -> Likeliest:
    each = len(rows[0])
    if len(rows) != positions or not each or any(len(row) != each for row in rows):
        raise ValueError("the likeliest tokens")
    flat = [triple for row in rows for triple in row]
    ids, p = array("i", (_number(i) for i, _, _ in flat)), array("f", (_share(p) for _, _, p in flat))
    return Likeliest(each, ids.tobytes(), p.tobytes(), tuple(safe(text) for _, text, _ in flat))


def _number(value: Any, most: int = 2**31 - 1) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(value)
    return value


def _token(value: Any) -> int:
    return UNKNOWN if value == UNKNOWN else _number(value)


def _known(read: Callable[[Any], Value], value: Any) -> Value | None:
    return None if value is None else read(value)


def _share(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise ValueError(value)
    return float(value)


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1e9:
        raise ValueError(value)
    return float(value)
