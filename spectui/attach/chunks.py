"""What a server streams, read tolerantly: a field that is missing, or is of another kind than expected, is not known.

The table in docs/attach.md lists the fields, and what each one gives.
"""

from __future__ import annotations

import json
import re
from array import array
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from math import exp, isfinite
from types import MappingProxyType
from typing import Any, NamedTuple

from spectui.attach.connection import ServerTrouble, words
from spectui.speculation.records import Likeliest
from spectui.text import safe

LARGEST_LINE = 1 << 20
"""Bytes of a line: a token with its likeliest alternatives takes some hundred."""

LARGEST_NUMBER = 2**31 - 1

_BEHIND_LIMIT = "sends a line of more than 1 MB, which is no token of a reply"


class Counters(NamedTuple):
    """llama-server's `timings`, which run on while it writes: tokens predicted, drafted, accepted, and seconds of decoding; of
    the prompt the tokens that were read and reused, and the seconds that it took."""

    predicted: int
    drafted: int
    accepted: int
    seconds: float | None
    prompt: int
    cached: int
    prompt_s: float | None


class Progress(NamedTuple):
    """`done` of `total` tokens of the prompt are read, `cached` of them from before."""

    done: int
    total: int
    cached: int
    seconds: float


class Usage(NamedTuple):
    """Tokens of the prompt and of the reply, as OpenAI's API counts them; None: it does not say."""

    prompt: int | None
    reply: int | None
    cached: int | None


class Chosen(NamedTuple):
    """A token as the server chose it: its id and probability, and the likeliest ones there, best first."""

    id: int
    p: float
    best: tuple[tuple[int, str, float], ...]


class Chunk(NamedTuple):
    """One object of the stream. `error`: the server's own words, if the object is one; `table`: what else it says."""

    text: str = ""
    thought: str = ""
    counters: Counters | None = None
    progress: Progress | None = None
    usage: Usage | None = None
    finish: str = ""
    chosen: tuple[Chosen, ...] = ()
    error: str | None = None
    table: Mapping[str, Any] = MappingProxyType({})
    last: bool = False
    """It is `[DONE]`, the end of the stream."""


async def chunks(pieces: AsyncIterator[bytes], name: str) -> AsyncIterator[Chunk]:
    """The chunks in these bytes: server-sent events, each in one `data:` line or several, or one object without a stream. Ends
    at `[DONE]` or with the bytes.

    Raises ServerTrouble where they are something else. `name`: what its sentence calls the server.
    """
    others, event, failed = bytearray(), bytearray(), False
    async for line in _lines(pieces, name):
        carried = _data(line)
        if line.startswith((b"event:", b"error:")) or not line.strip():
            failed = line.startswith(b"error:") or line[6:].strip() == b"error"
        if carried == b"[DONE]":
            if (data := _read(bytes(others))) is not None:  # an error that is no event
                yield read_chunk(data)
            yield Chunk(last=True)
            return
        if (read := _READ.match(line)) is not None:
            yield Chunk(progress=_progress({"processed": int(read[1]), "total": int(read[2])}))
        if carried and not event and (data := _read(carried)) is not None:
            yield read_chunk(data, failed)  # at once: a server may leave out the empty line that ends an event
        elif carried:
            event += b"\n" + carried
        elif event and not line.strip():
            yield read_chunk(_parsed(bytes(event), name))
            event.clear()
        elif carried is None:
            others += line
        if max(len(others), len(event)) > LARGEST_LINE:
            raise _too_long(name)
    if rest := bytes(event).strip() or bytes(others).strip():  # the last event, or an object that is none
        yield read_chunk(_parsed(rest, name))


async def _lines(pieces: AsyncIterator[bytes], name: str) -> AsyncIterator[bytes]:
    """The lines of these bytes without their ends, also a last one that has none.

    Raises ServerTrouble for one that is too long.
    """
    left, begun = bytearray(), False
    async for piece in pieces:
        seen = max(0, len(left) - 1)  # its last byte may be the first half of a line's end
        left += piece
        if _LINE_END.search(left, seen) is not None:
            *lines, left = map(bytearray, _LINE_END.split(left))
            if not begun:
                begun, lines[0] = True, lines[0].removeprefix(BOM_UTF8)
            for line in lines:
                if len(line) > LARGEST_LINE:
                    raise _too_long(name)
                yield bytes(line)
        if len(left) > LARGEST_LINE:
            raise _too_long(name)
    if left:
        yield bytes(left)


def _too_long(name: str) -> ServerTrouble:
    return ServerTrouble(f"{name} {_BEHIND_LIMIT}: what came before is kept.")


_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""Of events, which end with an empty line. At the end of what has come, \\r may be the first half of one."""

_READ = re.compile(rb":\s*keepalive (\d{1,9})/(\d{1,9})\s*$")
"""What mlx_lm.server says while it reads a prompt."""

_SIGNS = (b":", b"event:", b"id:", b"retry:")


def _data(line: bytes) -> bytes | None:
    """What a line of events carries, b"" for nothing; None if it is no such line."""
    line = line.strip()
    if line.startswith((b"data:", b"error:")):
        return line.partition(b":")[2].strip()
    return b"" if not line or line.startswith(_SIGNS) else None


def _read(data: bytes) -> Any:
    """The value of this JSON; None if it is none."""
    try:
        return json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff")) or {}
    except (ValueError, RecursionError):
        return None


def _parsed(data: bytes, name: str) -> Any:
    if (read := _read(data)) is None:
        what = "a web page" if data.lstrip()[:1] == b"<" else "something that is no JSON"
        raise ServerTrouble(f"{name} sends {what}: check --server, or look into the server's log.")
    return read


def read_chunk(data: Any, failed: bool = False) -> Chunk:
    """A chunk of any JSON. `failed`: the server has named the event an error."""
    if not isinstance(data, dict):
        return Chunk()
    choice = _choice(data.get("choices"))
    whole = failed or data.get("object") == "error" or "error_message" in data
    problem = data.get("error") or (data if whole else None)
    if problem or choice.get("finish_reason") == "error":
        return Chunk(error=words(problem) or "an error without words", table=_table(problem))
    delta = _table(choice.get("delta")) or _table(choice.get("message"))
    text, thought = _said(delta.get("content") or delta.get("refusal") or choice.get("text"))
    thought += next((said for field in _THOUGHTS if isinstance(said := delta.get(field), str) and said), "")
    logprobs = _table(choice.get("logprobs"))
    finish = choice.get("finish_reason")
    return Chunk(
        text=text,
        thought=thought,
        counters=_counters(data.get("timings")),
        progress=_progress(data.get("prompt_progress")),
        usage=_usage(data.get("usage")),
        finish=finish if isinstance(finish, str) and finish != "null" else "",
        chosen=tuple(_chosen(logprobs.get("content"))),
    )


_THOUGHTS = ("reasoning_content", "reasoning", "thinking")


def _choice(value: Any) -> dict[str, Any]:
    """The first of several replies, the only one that is asked for."""
    rows = map(_table, value if isinstance(value, list) else ())
    return next((row for row in rows if row.get("index") in (0, None)), {})


def _said(content: Any) -> tuple[str, str]:
    """The text, and what was thought, of a text or of a list of parts."""
    if isinstance(content, str):
        return content, ""
    text = thought = ""
    for part in map(_table, content if isinstance(content, list) else ()):
        text += _said(part.get("text"))[0]
        thought += "".join(_said(part.get("thinking")))
    return text, thought


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def whole_number(value: Any) -> int | None:
    """A count in JSON; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_NUMBER:
        return None
    return int(value)


def number(value: Any) -> float | None:
    """A size or a time in JSON that is not negative; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e15:
        return None
    return float(value) if isfinite(value) else None


def _seconds(milliseconds: Any) -> float | None:
    found = number(milliseconds)
    return None if found is None else found / 1000


def _counters(value: Any) -> Counters | None:
    table = _table(value)
    predicted = whole_number(table.get("predicted_n"))
    if predicted is None:
        return None
    counted = {key: whole_number(table.get(key)) or 0 for key in ("draft_n", "draft_n_accepted", "prompt_n", "cache_n")}
    return Counters(
        predicted, counted["draft_n"], min(counted["draft_n_accepted"], counted["draft_n"]),
        _seconds(table.get("predicted_ms")), counted["prompt_n"], counted["cache_n"], _seconds(table.get("prompt_ms")),
    )  # fmt: skip


def _progress(value: Any) -> Progress | None:
    table = _table(value)
    done, total = whole_number(table.get("processed")), whole_number(table.get("total"))
    if done is None or not total:
        return None
    return Progress(
        min(done, total), total, whole_number(table.get("cache")) or 0, _seconds(table.get("time_ms")) or 0.0
    )


def _usage(value: Any) -> Usage | None:
    table = _table(value)
    if not table:
        return None
    details = _table(table.get("prompt_tokens_details"))
    return Usage(
        whole_number(table.get("prompt_tokens")),
        whole_number(table.get("completion_tokens")),
        whole_number(details.get("cached_tokens")),
    )


def _chosen(value: Any) -> Iterator[Chosen]:
    """llama-server's tokens with their probabilities. Those of other servers have no ids."""
    for each in value if isinstance(value, list) else ():
        row = _table(each)
        token, p = whole_number(row.get("id")), _share(row)
        best = row.get("top_logprobs") or row.get("top_probs")
        if token is not None and p is not None:
            found = [_alternative(other) for other in (best if isinstance(best, list) else ())[:10]]
            alternatives = tuple(other for other in found if other is not None)
            if alternatives:  # without any the probability is no measured one: it stands for a drafted token
                yield Chosen(token, p, alternatives)


def _alternative(value: Any) -> tuple[int, str, float] | None:
    row = _table(value)
    token, p, text = whole_number(row.get("id")), _share(row), row.get("token")
    return (token, safe(text), p) if token is not None and p is not None and isinstance(text, str) else None


def _share(row: dict[str, Any]) -> float | None:
    """A probability, which is given as its logarithm or as itself."""
    logarithm, share = row.get("logprob"), number(row.get("prob"))
    if isinstance(logarithm, int | float) and not isinstance(logarithm, bool) and logarithm <= 0:
        return exp(max(logarithm, -700.0))
    return share if share is not None and share <= 1 else None


def likeliest(chosen: Sequence[Chosen | None]) -> Likeliest | None:
    """The likeliest tokens at each position; None unless they are known of all."""
    rows = [each.best for each in chosen if each is not None]
    each = min((len(row) for row in rows), default=0)
    if not each or len(rows) < len(chosen):
        return None
    flat = [best for row in rows for best in row[:each]]
    ids, p = array("i", (token for token, _, _ in flat)), array("f", (share for _, _, share in flat))
    return Likeliest(each, ids.tobytes(), p.tobytes(), tuple(text for _, text, _ in flat))
