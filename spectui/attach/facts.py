"""What a server says of itself: its models, the context, what drafts, and what it has counted."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from spectui.attach.chunks import number, whole_number
from spectui.attach.connection import ANSWER_S, Connection, ServerTrouble
from spectui.engine.events import Counts
from spectui.errors import SpectuiError
from spectui.text import one_line, safe

LOOK_S = 0.5
"""Seconds between two looks at a server that is loading."""

LONGEST_NAME = 300

LLAMA_SWAP = "llama-swap"
_OURS = ("llamacpp", LLAMA_SWAP)


class ServedModel(NamedTuple):
    """A model of a server. Sizes in bytes; 0, "" and None are unknown. `status`: a router's word, such as loaded."""

    name: str
    owner: str = ""
    aliases: tuple[str, ...] = ()
    status: str = ""
    failed: bool = False
    bytes: int = 0
    parameters: int = 0
    n_vocab: int = 0
    n_ctx: int = 0
    trained_ctx: int = 0
    quantisation: str = ""


class Facts(NamedTuple):
    """`llama_server`: it takes llama-server's fields, itself or behind llama-swap. `drafts`: whether it has anything that
    drafts, None if it does not say; `drafters`: their names. `build`: its version. `slots`: replies that it writes at once.
    `slots_path`, `metrics`: the paths of what it tells of these, and of what it counts; "" if it has none. `before_spec`: it is
    older than the flags that begin with --spec-draft."""

    model: ServedModel
    llama_server: bool
    drafts: bool | None = None
    drafters: tuple[str, ...] = ()
    build: str = ""
    slots: int = 0
    slots_path: str = ""
    metrics: str = ""
    before_spec: bool = False

    @property
    def kind(self) -> str:
        """What program it is, as far as it tells."""
        return (
            self.model.owner
            if self.model.owner and self.model.owner != "llamacpp"
            else ("llama-server" if self.llama_server else "a server")
        )

    @property
    def larger(self) -> str:
        """The way to a larger context."""
        return "restart the server with a larger -c" if self.llama_server else "start the server with a larger one"

    @property
    def source(self) -> str:
        """What drafted tokens are said to come from."""
        return " + ".join(self.drafters) or "server"


async def models(connection: Connection) -> list[ServedModel]:
    """The server's models; [] if it has no list. Raises ServerTrouble."""
    try:
        listed = await connection.get("/v1/models")
    except ServerTrouble as error:
        if error.status in (404, 405, 501):
            return []
        raise
    rows = listed.get("data") if isinstance(listed, dict) else listed
    found = [_model(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [model for model in found if model.name]


def _model(row: Mapping[str, Any]) -> ServedModel:
    meta, status = _table(row.get("meta")), _table(row.get("status"))
    aliases = row.get("aliases") or _table(meta.get("llamaswap")).get("aliases")
    n_ctx = whole_number(meta.get("n_ctx")) or whole_number(row.get("max_model_len")) or 0
    return ServedModel(
        _word(row.get("id")), _word(row.get("owned_by")),
        tuple(filter(None, map(_word, aliases))) if isinstance(aliases, list) else (),
        _word(status.get("value")), status.get("failed") is True,
        int(number(meta.get("size")) or 0), int(number(meta.get("n_params")) or 0), whole_number(meta.get("n_vocab")) or 0,
        n_ctx, whole_number(meta.get("n_ctx_train")) or 0, _word(meta.get("ftype")),
    )  # fmt: skip


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(value: Any) -> str:
    return one_line(safe(value[:LONGEST_NAME])) if isinstance(value, str) else ""


def chosen(found: Sequence[ServedModel], wanted: str, root: str) -> ServedModel:
    """The model of this name, or the one that answers if none is named. Raises SpectuiError."""
    for model in found:
        if wanted and wanted in (model.name, *model.aliases):
            return model
    if not found:
        return ServedModel(wanted)
    if len(found) == 1 and not wanted:
        return found[0]
    names = ", ".join(model.name for model in found[:20]) + (", …" if len(found) > 20 else "")
    if wanted:
        raise SpectuiError(f"{root} has no model {one_line(wanted)!r}; it has {names}.")
    return next((model for model in found if model.status == "loaded"), found[0])


async def _answering(connection: Connection, wanted: str, loading: Callable[[str], None]) -> ServedModel:
    """The model that is asked, once the server is ready."""
    while True:
        try:
            return chosen(await models(connection), wanted, connection.address.root)
        except ServerTrouble as error:
            if error.status != 503:
                raise
        loading("the server's model")
        await asyncio.sleep(LOOK_S)


async def look(connection: Connection, wanted: str, loading: Callable[[str], None]) -> Facts:
    """What the server is, once it is ready. `loading` is called again and again while it loads. Raises SpectuiError."""
    model = await _answering(connection, wanted, loading)
    under = query = ""
    if model.owner == LLAMA_SWAP:  # it loads a model when that is asked for anything
        under = f"/upstream/{quote(model.name)}"
        loading(model.name)
    elif model.status:
        model = await _switch(connection, model, loading)
        query = f"?model={quote(model.name, safe='')}"
    props = _table(await _optional(connection, f"{under}/props{query}", patient=bool(under)))
    llama_server = model.owner in _OURS or "default_generation_settings" in props
    slots_path = f"{under}/slots{query}" if llama_server else ""
    rows = await _slots(connection, slots_path)
    if under and props:  # what llama-swap's list does not say
        inner = await _optional(connection, f"{under}/v1/models")
        data = _table(inner).get("data")
        first = _model(data[0]) if isinstance(data, list) and data and isinstance(data[0], dict) else model
        model = first._replace(name=model.name, owner=model.owner, aliases=model.aliases)
    settings = _table(props.get("default_generation_settings"))
    n_ctx = whole_number(settings.get("n_ctx")) or model.n_ctx or _most(row.get("n_ctx") for row in rows)
    quantisation = model.quantisation or _word(props.get("model_ftype"))
    return Facts(
        model._replace(n_ctx=n_ctx, quantisation=quantisation),
        llama_server,
        any(row.get("speculative") is True for row in rows) if rows else None,
        _drafters(settings, rows),
        _word(props.get("build_info")),
        whole_number(props.get("total_slots")) or len(rows),
        slots_path,
        f"{under}/metrics{query}" if props.get("endpoint_metrics") is True or not llama_server else "",
        any("speculative.n_max" in table for table in _parameters(settings, rows)),
    )


async def _slots(connection: Connection, path: str) -> list[dict[str, Any]]:
    slots = await _optional(connection, path) if path else None
    return [row for row in slots if isinstance(row, dict)] if isinstance(slots, list) else []


async def drafters_now(connection: Connection, facts: Facts) -> tuple[str, ...]:
    """What drafts in the reply that is being written; () if the server does not tell."""
    return _drafters({}, await _slots(connection, facts.slots_path))


def _most(values: Iterable[Any]) -> int:
    return max((whole_number(value) or 0 for value in values), default=0)


def _parameters(settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What replies are written with, by llama-server's names: in each slot, and as it was started."""
    return [*(_table(row.get("params")) for row in rows), _table(settings.get("params"))]


def _drafters(settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The kinds of speculation, by llama-server's names."""
    for table in _parameters(settings, rows):
        said = table.get("speculative.types", table.get("speculative.type"))
        names = said.split(",") if isinstance(said, str) else said if isinstance(said, list) else []
        if found := tuple(word for name in names if (word := _word(name).strip()) and word != "none"):
            return found
    return ()


async def _optional(connection: Connection, path: str, patient: bool = False) -> Any:
    """What stands there; None where the server does not say it. `patient`: it may load a model first."""
    try:
        return await connection.get(path, None if patient else ANSWER_S)
    except ServerTrouble as error:
        if patient and error.status >= 500:
            raise
        return None


async def _switch(connection: Connection, model: ServedModel, loading: Callable[[str], None]) -> ServedModel:
    """Have llama-server's router load a model, and wait until it is there. Raises SpectuiError."""
    if model.status in ("loaded", "sleeping"):
        return model
    if model.status == "unloaded":
        try:
            await connection.post("/models/load", {"model": model.name})
        except ServerTrouble as error:
            if error.status != 400:  # another client was quicker
                raise
    while True:
        loading(model.name)
        await asyncio.sleep(LOOK_S)
        now = next((each for each in await models(connection) if each.name == model.name), model)
        if now.status in ("loaded", "sleeping"):
            return now
        if now.failed or now.status == "unloaded":
            raise SpectuiError(f"{connection.address.root} could not load {model.name}: look into the server's log.")


_LINE = re.compile(r"^\w+:spec_decode_num_(\w+?)(?:_total)?(?:\{([^}\n]*)\})?[ \t]+([0-9.eE+]{1,30})\s*$", re.MULTILINE)
_POSITION = re.compile(r'(?:^|,)\s*position="(\d{1,3})"')


def read_counts(text: str) -> Counts | None:
    """The counters of speculation in this text for Prometheus, added up over the engines of a server; None if it has none.

    vLLM and llama-server have the same names for them.
    """
    counted: Counter[str] = Counter()
    by_position: Counter[int] = Counter()
    for name, labels, value in _LINE.findall(text):
        try:
            number = int(float(value))
        except (ValueError, OverflowError):
            continue
        if name != "accepted_tokens_per_pos":
            counted[name] += number
        elif (found := _POSITION.search(labels)) is not None:
            by_position[int(found[1])] += number
    if not {"drafts", "draft_tokens", "accepted_tokens"} <= counted.keys():
        return None
    length = max(by_position, default=-1) + 1
    return Counts(
        counted["drafts"], counted["draft_tokens"], counted["accepted_tokens"],
        tuple(by_position[position] for position in range(length)),
    )  # fmt: skip
