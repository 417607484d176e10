"""What a server says of itself: its models, the context, what drafts, and what it has counted."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from spectui.attach.chunks import Fields, objects, short
from spectui.attach.connection import ANSWER_S, Connection, ServerTrouble
from spectui.engine.events import Counts, Event, Loading, Notice
from spectui.errors import SpectuiError

LOOK_S = 0.5
"""Seconds between two looks at a server that is loading."""

LLAMA_SWAP = "llama-swap"
_OURS = ("llamacpp", LLAMA_SWAP)

_NO_CHAT = re.compile(r"embed|rerank|whisper|transcri|moderation|\b(bge|e5|gte|tts|dall-e|clip|image|audio)\b", re.IGNORECASE)
"""In the names and kinds of models that answer no chat."""


class ServedModel(NamedTuple):
    """A model of a server. Sizes in bytes; 0, "" and None are unknown. `status`: a router's word, such as loaded. `chats`: it
    answers a chat, as far as its name tells. `images`: it takes images."""

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
    chats: bool = True
    images: bool | None = None


class Slots(NamedTuple):
    """What llama-server says of its slots. `drafts`: whether it has anything that drafts, None if it does not say; `drafters`:
    their names."""

    drafts: bool | None = None
    drafters: tuple[str, ...] = ()
    n_ctx: int = 0
    number: int = 0

    @classmethod
    def of(cls, rows: Sequence[Fields], settings: Fields) -> Slots:
        """What these slots say, and the settings that the server was started with."""
        parameters = [*(row.fields("params") for row in rows), settings.fields("params")]
        return cls(
            any(row.table.get("speculative") is True for row in rows) if rows else None,
            next(filter(None, map(_drafters, parameters)), ()),
            max((row.count("n_ctx") or 0 for row in rows), default=0),
            len(rows),
        )


def _drafters(parameters: Fields) -> tuple[str, ...]:
    """The kinds of speculation, by llama-server's names."""
    listed = parameters.table.get("speculative.types")
    names = listed if isinstance(listed, list) else parameters.text("speculative.types", "speculative.type").split(",")
    return tuple(word for name in names if (word := short(name).strip()) not in ("", "none"))


class Facts(NamedTuple):
    """`llama_server`: it takes llama-server's fields, itself or behind llama-swap. `build`: its version. `at_once`: replies
    that it writes at once. `slots_path`, `metrics`: the paths of what it tells of its slots, and of what it counts; "" if it
    has none. `times`: as in `Origins`."""

    model: ServedModel
    llama_server: bool
    times: list[float]
    slots: Slots = Slots()
    build: str = ""
    at_once: int = 0
    slots_path: str = ""
    metrics: str = ""

    @property
    def kind(self) -> str:
        """What program it is, as far as it tells."""
        owner = self.model.owner.replace("llamacpp", "")
        return owner or ("llama-server" if self.llama_server else "a server")

    @property
    def takes_images(self) -> bool:
        """Images can be sent to it. A server that does not say what it takes is asked, but llama-server says it."""
        return not self.llama_server if self.model.images is None else self.model.images

    @property
    def larger(self) -> str:
        """The way to a larger context."""
        return "restart the server with a larger -c" if self.llama_server else "start the server with a larger one"

    @property
    def drafts(self) -> bool:
        """Whether it has something that drafts."""
        return bool(self.slots.drafts or self.slots.drafters)

    @property
    def source(self) -> str:
        """What drafted tokens are said to come from."""
        return " + ".join(self.slots.drafters) or "server"

    @property
    def advice(self) -> str:
        """What makes it draft, where it does not; "" where it drafts or does not say."""
        if self.slots.drafts is not False or not self.llama_server or self.slots.drafters:
            return ""
        return (
            "The server drafts nothing: restart it with --spec-type draft-simple and -md DRAFT, since without --spec-type "
            "a draft is loaded and not used; or with --spec-type ngram-mod, which needs no draft."
        )


async def models(connection: Connection, named: bool = False) -> list[ServedModel]:
    """The server's models; [] if it has no list, or refuses it where it is not needed because a model is `named`.

    Raises ServerTrouble.
    """
    try:
        listed = await connection.listed()
    except ServerTrouble as error:
        if error.status in (404, 405, 501) or (named and 400 <= error.status < 500):
            return []
        raise
    rows = objects(listed) or Fields(listed).rows("data")
    return [model for row in rows if (model := _model(row)).name]


def _model(row: Fields) -> ServedModel:
    meta, status = row.fields("meta"), row.fields("status")
    aliases = row.table.get("aliases") or meta.fields("llamaswap").table.get("aliases")
    words = map(short, aliases if isinstance(aliases, list) else ())
    return ServedModel(
        row.name("id"), row.name("owned_by"), tuple(filter(None, words)), status.name("value"),
        status.table.get("failed") is True, int(meta.number("size") or 0), int(meta.number("n_params") or 0),
        meta.count("n_vocab") or 0, meta.count("n_ctx") or row.count("max_model_len") or 0, meta.count("n_ctx_train") or 0,
        meta.name("ftype"), _NO_CHAT.search(f"{row.name('id')} {row.name('type')}") is None,
        _takes_images(row),
    )  # fmt: skip


def _takes_images(row: Fields) -> bool | None:
    """What a row of the list says of images; None if it does not tell."""
    said = row.fields("architecture").table.get("input_modalities") or row.table.get("capabilities")
    return any(word in said for word in ("image", "vision", "multimodal")) if isinstance(said, list) else None


def chosen(listed: Sequence[ServedModel], wanted: str) -> ServedModel:
    """The model of this name, or the one that answers if none is named. A server may know more names than it lists."""
    if wanted:
        owners = {model.owner for model in listed}
        unlisted = ServedModel(wanted, owners.pop() if len(owners) == 1 else "")
        return next((model for model in listed if wanted in (model.name, *model.aliases)), unlisted)
    able = [model for model in listed if model.chats] or [*listed, ServedModel("")]
    return next((model for model in able if model.status == "loaded"), able[0])


class Waiting:
    """Tells that a server loads: once in a line, and again and again as an event."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._told = False

    async def __call__(self, what: str, said: str = "") -> None:
        """Wait a little. `said`: the line, if one is to be shown."""
        self._emit(Loading(what, 0.0))
        if said and not self._told:
            self._told = True
            self._emit(Notice(said))
        await asyncio.sleep(LOOK_S)


async def look(connection: Connection, wanted: str, emit: Callable[[Event], None]) -> Facts:
    """What the server is, once it is ready. While it loads, events are emitted. Raises SpectuiError."""
    model = await _answering(connection, wanted, Waiting(emit))
    under = query = ""
    if model.owner == LLAMA_SWAP:  # it loads a model when that is asked for anything
        under = f"/upstream/{quote(model.name)}"
        emit(Loading(model.name, 0.0))
    elif model.status:
        model = await _switch(connection, model, Waiting(emit))
        query = f"?model={quote(model.name, safe='')}"
    props = Fields(await _optional(connection, f"{under}/props{query}", patient=bool(under)))
    settings = props.fields("default_generation_settings")
    llama_server = model.owner in _OURS or "default_generation_settings" in props.table
    slots_path = f"{under}/slots{query}" if llama_server else ""
    slots = Slots.of(objects(await _optional(connection, slots_path) if slots_path else None), settings)
    if under and props:  # what llama-swap's list does not say
        inner = Fields(await _optional(connection, f"{under}/v1/models")).rows("data")
        model = _model(inner[0])._replace(name=model.name, owner=model.owner, aliases=model.aliases) if inner else model
    sees = props.fields("modalities").table.get("vision")
    return Facts(
        model._replace(
            n_ctx=settings.count("n_ctx") or model.n_ctx or slots.n_ctx,
            quantisation=model.quantisation or props.name("model_ftype"),
            images=sees if isinstance(sees, bool) else model.images,
        ),
        llama_server,
        [],
        slots,
        props.name("build_info"),
        props.count("total_slots") or slots.number,
        slots_path,
        f"{under}/metrics{query}" if props.table.get("endpoint_metrics") is True or not llama_server else "",
    )


async def _answering(connection: Connection, wanted: str, wait: Waiting) -> ServedModel:
    """The model that is asked, once the server is ready."""
    while True:
        try:
            return chosen(await models(connection, bool(wanted)), wanted)
        except ServerTrouble as error:
            if not error.loading:
                raise
            await wait("the server's model", str(error))


async def _optional(connection: Connection, path: str, patient: bool = False) -> Any:
    """What stands there; None where the server does not say it. `patient`: it may load a model first."""
    try:
        return await connection.get(path, None if patient else ANSWER_S)
    except ServerTrouble as error:
        if patient and error.status >= 500:
            raise
        return None


async def _switch(connection: Connection, model: ServedModel, wait: Waiting) -> ServedModel:
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
        await wait(model.name, f"{connection.address.root} loads {model.name}. It is asked again until it is there.")
        now = next((other for other in await models(connection) if other.name == model.name), model)
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
        elif (position := _POSITION.search(labels)) is not None:
            by_position[int(position[1])] += number
    if not {"drafts", "draft_tokens", "accepted_tokens"} <= counted.keys():
        return None
    length = max(by_position, default=-1) + 1
    return Counts(
        counted["drafts"], counted["draft_tokens"], counted["accepted_tokens"],
        tuple(by_position[position] for position in range(length)),
    )  # fmt: skip
