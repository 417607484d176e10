"""What a server streams, read tolerantly: a field that is missing, or is of another kind than expected, is not known.

The table in docs/attach.md lists the fields, and what each one gives.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from math import exp
from types import MappingProxyType
from typing import Any, NamedTuple

from spectui.attach.connection import ServerTrouble, parsed, words
from spectui.engine.events import Prompt
from spectui.speculation.records import Likeliest
from spectui.text import one_line, safe

LARGEST_LINE = 1 << 20
"""Bytes of a line: a token with its likeliest alternatives takes some hundred."""

LARGEST_COUNT = 2**31 - 1
LARGEST_NUMBER = 1e15
LONGEST_NAME = 300

_THOUGHTS = ("reasoning_content", "reasoning", "thinking")


class Fields:
    """A JSON object. A field that is missing, or is of another kind than asked for, is None, "" or empty."""

    def __init__(self, value: Any) -> None:
        self.table: Mapping[str, Any] = value if isinstance(value, dict) else {}

    def __bool__(self) -> bool:
        return bool(self.table)

    def text(self, *names: str) -> str:
        """The first text that is not empty."""
        return next((text for name in names if isinstance(text := self.table.get(name), str) and text), "")

    def name(self, name: str) -> str:
        """A short text on one line."""
        return short(self.table.get(name))

    def number(self, name: str, most: float = LARGEST_NUMBER) -> float | None:
        """A size or a time."""
        value = self.table.get(name)
        right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
        return float(value) if right else None  # type: ignore[arg-type]

    def count(self, name: str) -> int | None:
        """A whole number."""
        number = self.number(name, LARGEST_COUNT)
        return None if number is None else int(number)

    def seconds(self, name: str) -> float | None:
        """A time that is given in milliseconds."""
        number = self.number(name)
        return None if number is None else number / 1000

    def fields(self, name: str) -> Fields:
        """An object within."""
        return Fields(self.table.get(name))

    def rows(self, *names: str) -> list[Fields]:
        """The objects in the first list that is not empty."""
        return next(filter(None, (objects(self.table.get(name)) for name in names)), [])


def short(value: Any) -> str:
    """A short text on one line; "" if it is none."""
    return one_line(safe(value[:LONGEST_NAME])) if isinstance(value, str) else ""


def objects(value: Any) -> list[Fields]:
    """The objects in a list."""
    return [Fields(row) for row in value] if isinstance(value, list) else []


class Counters(NamedTuple):
    """llama-server's `timings`, which run on while it writes: tokens predicted, drafted, accepted, and seconds of decoding; of
    the prompt the tokens that were read and reused, and the seconds that it took. `speed`: tokens a second, by its count."""

    predicted: int
    drafted: int
    accepted: int
    seconds: float | None
    prompt: int
    cached: int
    prompt_s: float | None
    speed: float | None = None


class Usage(NamedTuple):
    """Tokens of the prompt and of the reply, as OpenAI's API counts them; None: it does not say."""

    prompt: int | None
    reply: int | None


class Chosen(NamedTuple):
    """A token as the server chose it: its id and probability, and the likeliest ones there, best first."""

    id: int
    p: float
    best: tuple[tuple[int, str, float], ...]


class Chunk(NamedTuple):
    """One object of the stream. `id`: the reply's. `error`: the server's own words, if the object is one; `table`: what else it
    says."""

    text: str = ""
    thought: str = ""
    counters: Counters | None = None
    progress: Prompt | None = None
    usage: Usage | None = None
    finish: str = ""
    chosen: tuple[Chosen, ...] = ()
    error: str | None = None
    table: Mapping[str, Any] = MappingProxyType({})
    last: bool = False
    """It is `[DONE]`, the end of the stream."""
    id: str = ""


async def chunks(pieces: AsyncIterator[bytes], name: str) -> AsyncIterator[Chunk]:
    """The chunks in these bytes: server-sent events, each in one `data:` line, or one object without a stream. Ends at `[DONE]`
    or with the bytes.

    Raises ServerTrouble where they are something else. `name`: what its sentence calls the server.
    """
    others, done = bytearray(), False  # lines of an object that is no event
    async for line in _lines(pieces, name):
        field, colon, value = (part.strip() for part in line.partition(b":"))
        if done := (field, value) == (b"data", b"[DONE]"):
            break
        if field in (b"data", b"error") and value:
            yield read_chunk(parsed(value, name), field == b"error")
        elif (read := _READ.match(line)) is not None:
            yield Chunk(progress=Prompt(min(int(read[1]), int(read[2])), int(read[2]), 0, 0.0))
        elif not (colon and field in _OTHERS):
            others += line
        if len(others) > LARGEST_LINE:
            raise _too_long(name)
    if others.strip():
        yield read_chunk(parsed(bytes(others), name))
    if done:
        yield Chunk(last=True)


async def _lines(pieces: AsyncIterator[bytes], name: str) -> AsyncIterator[bytes]:
    """The lines of these bytes, also a last one that does not end. Raises ServerTrouble for one that is too long."""
    left = b""
    async for piece in pieces:
        *lines, left = (left + piece).split(b"\n")
        if max(map(len, (*lines, left))) > LARGEST_LINE:
            raise _too_long(name)
        for line in lines:
            yield line
    if left:
        yield left


def _too_long(name: str) -> ServerTrouble:
    return ServerTrouble(f"{name} sends a line of more than 1 MB, which is no token of a reply: what came before is kept.")


_READ = re.compile(rb":\s*keepalive (\d{1,9})/(\d{1,9})\s*$")
"""What mlx_lm.server says while it reads a prompt."""

_OTHERS = (b"", b"event", b"id", b"retry", b"data")
"""Fields of an event that carry nothing here, such as a comment's."""


def read_chunk(data: Any, failed: bool = False) -> Chunk:
    """A chunk of any JSON. `failed`: the server calls it an error."""
    row = Fields(data)
    # The first of several replies is the only one that is asked for.
    choice = next((choice for choice in row.rows("choices") if choice.table.get("index") in (0, None)), Fields(None))
    whole = failed or row.text("object") == "error" or ("choices" not in row.table and words(row.table))
    finish, problem = choice.text("finish_reason"), row.table.get("error") or (data if whole else None)
    if problem or finish == "error":
        return Chunk(error=words(problem) or "an error without words", table=Fields(problem).table)
    delta = choice.fields("delta") or choice.fields("message")
    text, thought = _said(delta.table.get("content") or delta.table.get("refusal") or choice.table.get("text"))
    usage, progress = row.fields("usage"), row.fields("prompt_progress")
    done, total = progress.count("processed"), progress.count("total")
    return Chunk(
        text=text,
        thought=thought + delta.text(*_THOUGHTS),
        counters=_counters(row.fields("timings")),
        progress=None
        if done is None or not total
        else Prompt(min(done, total), total, progress.count("cache") or 0, progress.seconds("time_ms") or 0.0),
        usage=Usage(usage.count("prompt_tokens"), usage.count("completion_tokens")) if usage else None,
        finish="" if finish == "null" else finish,
        chosen=tuple(_chosen(choice.fields("logprobs"))),
        id=row.name("id"),
    )


def _said(content: Any) -> tuple[str, str]:
    """The text, and what was thought, of a text or of a list of parts."""
    if isinstance(content, str):
        return content, ""
    text = thought = ""
    for part in map(Fields, content if isinstance(content, list) else ()):
        text += part.text("text")
        thought += "".join(_said(part.table.get("thinking")))
    return text, thought


def _counters(timings: Fields) -> Counters | None:
    predicted, drafted = timings.count("predicted_n"), timings.count("draft_n") or 0
    if predicted is None:
        return None
    return Counters(
        predicted, drafted, min(timings.count("draft_n_accepted") or 0, drafted), timings.seconds("predicted_ms"),
        timings.count("prompt_n") or 0, timings.count("cache_n") or 0, timings.seconds("prompt_ms"),
        timings.number("predicted_per_second"),
    )  # fmt: skip


def _chosen(logprobs: Fields) -> Iterator[Chosen]:
    """llama-server's tokens with their probabilities. Those of other servers have no ids."""
    for row in logprobs.rows("content"):
        token, p = row.count("id"), _share(row)
        others = [
            (other.count("id"), other.text("token"), _share(other)) for other in row.rows("top_logprobs", "top_probs")[:10]
        ]
        best = tuple((id, safe(text), share) for id, text, share in others if id is not None and share is not None)
        if token is not None and p is not None and best:  # else it stands for a drafted token, which was not measured
            yield Chosen(token, p, best)


def _share(row: Fields) -> float | None:
    """A probability, which is given as its logarithm or as itself."""
    logarithm = row.table.get("logprob")
    if isinstance(logarithm, int | float) and not isinstance(logarithm, bool) and logarithm <= 0:
        return exp(max(logarithm, -700.0))
    return row.number("prob", 1)


def likeliest(chosen: Sequence[Chosen | None]) -> Likeliest | None:
    """The likeliest tokens at each position; None unless they are known of all."""
    rows = [token.best for token in chosen if token is not None]
    number = min((len(row) for row in rows), default=0)
    if not number or len(rows) < len(chosen):
        return None
    flat = [best for row in rows for best in row[:number]]
    ids, p = array("i", (token for token, _, _ in flat)), array("f", (share for _, _, share in flat))
    return Likeliest(number, ids.tobytes(), p.tobytes(), tuple(text for _, text, _ in flat))
