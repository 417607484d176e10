"""Exporting a conversation: Markdown with the text alone, JSON with origins and figures, or JSON Lines with every round."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui.atomic import write_named
from spectui.errors import SpectuiError
from spectui.speculation.records import Round, Token
from spectui.speculation.statistics import Statistics
from spectui.store.records import StoredConversation, StoredMessage
from spectui.text import safe
from spectui.thinking import Piece, divided, parsed, thought_and_answer

if TYPE_CHECKING:
    from spectui.engine.events import ModelInfo

SCHEMA = "spectui.conversation/1"

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)  # without an indent, which is written in Python

LONGEST_NAME = 60
"""Characters of a proposed file name."""

_NAMES = {"user": "You", "assistant": "Reply", "system": "System"}
# What some file system gives a meaning to: separators, drives, streams, wildcards. `safe` finds the other control characters.
_UNFIT = re.compile(r'[\n\t/\\:*?"<>|]')
_FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)$", re.MULTILINE)  # CommonMark's
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def markdown(conversation: StoredConversation) -> str:
    """The messages as Markdown, without rejected drafts."""
    when = datetime.fromtimestamp(conversation.created).strftime("%Y-%m-%d %H:%M")
    parts = [f"# {conversation.title or 'Conversation'}", " · ".join(filter(None, (conversation.target, when)))]
    if conversation.system:
        parts += ["## System", conversation.system.strip()]
    for message in conversation.messages:
        parts += [f"## {_NAMES.get(message.role, message.role)}", *map(_closed, _texts(message))]
    return "\n\n".join(parts) + "\n"


def _closed(text: str) -> str:
    """The text with an end to the code block that it leaves open, as a reply does that ended at its limit: else all messages
    after it would be code."""
    opened = ""
    for fence in _FENCE.finditer(text):
        run, rest = fence.groups()
        if not opened:
            opened = run
        elif run.startswith(opened) and not rest.strip():
            opened = ""
    return f"{text}\n{opened}" if opened else text


def document(conversation: StoredConversation) -> str:
    """The conversation as a `spectui.conversation/1` object in JSON: tokens with origins, replies with figures and models.

    Messages and tokens have a line each. Times are ISO 8601 in UTC,
    durations are in seconds; unknown values are null.
    """
    table = {
        "schema": SCHEMA,
        "id": conversation.id,
        "title": conversation.title,
        "created": _time(conversation.created),
        "updated": _time(conversation.updated),
        "system": conversation.system,
        "target": conversation.target,
        "messages": [],
    }
    messages = ",\n".join(map(_message, conversation.messages))
    return f"{_json(table).removesuffix('[]}')}[\n{messages}\n]}}\n"


def round_lines(conversation: StoredConversation) -> str:
    """A line for each round: a `round_table` with the number of its message in the conversation, from 0 on."""
    return "".join(
        f"{_json({'message': number, **round_table(round)})}\n"
        for number, message in enumerate(conversation.messages)
        for round in (message.reply.rounds if message.reply is not None else ())
    )


def round_table(round: Round) -> dict[str, Any]:
    """A round by name, for JSON: `likeliest` has a list of the target's likeliest tokens for each of `tokens`."""
    likeliest = round.likeliest
    return {
        **{field.name: getattr(round, field.name) for field in dataclasses.fields(round)},
        "knobs": dataclasses.asdict(round.knobs),
        "drafted": [token._asdict() for token in round.drafted],
        "tokens": [token._asdict() for token in round.tokens],
        "reason": round.reason._asdict() if round.reason is not None else None,
        "likeliest": [
            [dict(zip(("id", "text", "p"), choice, strict=True)) for choice in likeliest.at(index)]
            for index in range(len(round.tokens))
        ]
        if likeliest is not None
        else None,
    }


def statistics_table(figures: Statistics) -> dict[str, Any]:
    """A reply's figures by name."""
    names = ("emitted", "rounds", "drafted", "accepted", "rejected", "ignored", "acceptance", "tokens_per_pass",
             "per_position", "decode_s", "tokens_per_s", "draft_s", "verify_s", "choose_s",
             "guesses", "right_guesses", "saved_s")  # fmt: skip
    return {name: getattr(figures, name) for name in names}


def model_table(info: ModelInfo) -> dict[str, Any]:
    """A loaded model by name, for JSON."""
    names = ("path", "description", "parameters", "bytes", "remark", "kernels", "kernels_why")
    return {name: getattr(info, name) for name in names}


def finite(value: Any) -> Any:
    """`value` with None in place of every float that JSON cannot represent."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def file_name(title: str, suffix: str = ".md") -> str:
    """A file name for this title that every file system accepts, in the locale's encoding too."""
    encoding = sys.getfilesystemencoding()
    title = title.encode(encoding, "replace").decode(encoding)
    stem = re.sub(r"[\W_]+", "-", title)[:LONGEST_NAME].strip("-")
    while len(stem.encode()) > 200:
        stem = stem[:-1]
    if not stem or _RESERVED.fullmatch(stem):
        stem = f"conversation-{stem}".rstrip("-")
    return stem + suffix


def working_directory() -> Path:
    """The directory that a person's exports go to. Raises SpectuiError if it was removed."""
    try:
        return Path.cwd()
    except OSError as error:
        raise SpectuiError("The working directory was removed: start spectui in another one, and export from there.") from error


def rendered(conversation: StoredConversation, form: str) -> bytes:
    """What a file with this suffix has: JSON for .json, rounds for .jsonl, else Markdown."""
    write = {".json": document, ".jsonl": round_lines}.get(form.lower(), markdown)
    return write(conversation).encode("utf-8", "replace")


def save(
    conversation: StoredConversation, directory: Path, name: str, *, form: str = "", replace: bool = False, advice: str = ""
) -> Path:
    """Write it under a plain name in a directory, in the `form` of a suffix, by default that of the name; returns the file.
    `advice`: what to do where it exists.

    Raises ExistsError unless it may `replace` what is there, and SpectuiError.
    """
    if _UNFIT.search(name) or name != safe(name) or name.startswith(".") or not name.strip() or _RESERVED.fullmatch(name):
        raise SpectuiError(f"{name!r} is no plain file name: give one without directories, such as chat.md.")
    file = directory / name
    write_named(file, rendered(conversation, form or file.suffix), replace=replace, advice=advice)
    return file


def _texts(message: StoredMessage) -> list[str]:
    """A message's paragraphs. What a reply thought is folded where the file is shown as a page."""
    if message.role != "assistant":
        return [message.text.strip("\n")]
    rounds = message.reply.rounds if message.reply is not None else ()
    tokens = [token for round in rounds for token in round.tokens]
    parts = [(thought, text.strip("\n")) for thought, text in _parts(message, tokens)]
    return [
        f"<details><summary>Thinking</summary>\n\n{text}\n\n</details>" if thought else text
        for thought, text in parts
        if text.strip() or len(parts) == 1
    ]


def _parts(message: StoredMessage, tokens: Sequence[Token]) -> list[Piece]:
    """What a reply of these tokens thinks and what it answers, in order: as they note it, else as its marks tell."""
    if "".join(token.text for token in tokens) != message.text:
        return divided(parsed(message.text))
    return divided((bool(token.thought), token.text) for token in tokens)


def _message(message: StoredMessage) -> str:
    table: dict[str, Any] = {"role": message.role, "text": message.text, "created": _time(message.created)}
    reply = message.reply
    if reply is None:
        return _json(table)
    figures, tokens, knobs = Statistics(), list[Token](), None
    for round in reply.rounds:  # once: they are unpacked meanwhile
        figures.add(round)
        tokens += round.tokens
        knobs = round.knobs
    table["thinking"], table["answer"] = thought_and_answer(_parts(message, tokens))
    table |= {
        "settings": dataclasses.asdict(reply.setup) | (dataclasses.asdict(knobs) if knobs is not None else {}),
        "stop_reason": reply.stop,
        "dropped_messages": reply.dropped,
        "prompt_tokens": reply.prompt_tokens,
        "prompt_s": reply.prompt_s,
        "time_to_first_token_s": reply.first_token_s,
        "stats": statistics_table(figures),
        "tokens": [],
    }
    return f"{_json(table).removesuffix('[]}')}[{','.join(f'{chr(10)} {_json(token._asdict())}' for token in tokens)}]}}"


def _json(value: Any) -> str:
    """The value on one line."""
    try:
        return _ENCODER.encode(value)
    except ValueError:  # an unknown number
        return _ENCODER.encode(finite(value))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
