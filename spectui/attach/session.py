"""Conversations with the models of a server: what `engine.worker.Worker` runs in its thread in place of models of its own."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from spectui.attach import requests
from spectui.attach.address import address, read_key
from spectui.attach.chunks import Fields
from spectui.attach.connection import Connection, ServerTrouble
from spectui.attach.facts import Facts, Waiting, look, read_counts
from spectui.attach.reply import STALL_S, Reply
from spectui.engine.events import FREE, Counted, Counts, Event, Finished, Loaded, Message, ModelInfo, Notice, Terms
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup, specs, title
from spectui.speculation.records import StopReason

STOP_S = 0.05
"""Seconds until a stop is seen."""

METRICS_S = 2.0
"""Seconds to wait for what a server has counted."""

Result = TypeVar("Result")


class Flag(Protocol):
    """What another thread sets to stop what is going on."""

    def is_set(self) -> bool: ...


class ServerSession:
    """Implements `engine.protocol.Session`."""

    def __init__(self, on_event: Callable[[Event], None], stop: Flag, stall_s: float = STALL_S) -> None:
        """`stall_s`: seconds without a sign of the server after which that is said."""
        self.knobs = Knobs()
        self.wants_probabilities = False
        self._stall_s = stall_s
        self._emit = on_event
        self._stop = stop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Connection | None = None
        self._facts: Facts | None = None
        self._setup = Setup()
        self._counts: Counts | None = None
        self._gone = False  # it did not answer, and may be started anew when it does
        self._cold = False
        self._refused: set[str] = set()  # fields that the server refuses
        self._said: set[str] = set()  # of images

    def load(self, setup: Setup, before: Setup | None = None) -> Loaded:
        """Find out what the server has. Waits while it loads. Raises SpectuiError."""
        self._facts, self._counts = None, None
        where = address(setup.server)
        connection = Connection(where, read_key(setup.server_key_file))
        self._wanted = (setup.server_model if setup.model in (None, where.short) else setup.model) or ""
        self._end_connection()
        self._connection = connection
        try:
            facts = self._run(look(connection, self._wanted, self._emit))
        except asyncio.CancelledError:
            raise SpectuiError("Waiting for the server was stopped.") from None
        without = _without_effect(setup, (facts.model.n_ctx, self._setup.ctx_size))
        self._refused, self._setup = set(), setup
        loaded = self._tell_loaded(facts)
        if facts.advice:
            self._emit(Notice(facts.advice))
        if without:
            self._emit(Notice(f"A server has settings of its own, so these have no effect: {', '.join(without)}."))
        self._tell_counts()
        return loaded

    def _tell_loaded(self, facts: Facts) -> Loaded:
        self._facts, self._gone = facts, False
        name = facts.model.name or address(self._setup.server).short
        draft = ModelInfo(facts.source, facts.source, 0, 0, 0, 0, 0, kernels="") if facts.drafts else None
        self._setup = replace(self._setup, model=name, draft=facts.source if draft else None, ctx_size=facts.model.n_ctx)
        loaded = Loaded(self._setup, _info(facts, name), draft, (), fixed=requests.fixed(facts), images=facts.takes_images)
        self._emit(loaded)
        return loaded

    def begin_cold(self) -> None:
        """Have the next reply reuse no cells, where the server can be told so."""
        self._cold = True

    def generate(self, messages: Sequence[Message], terms: Terms = FREE) -> Finished:
        """Have the server answer the conversation. Raises SpectuiError; the rounds until then stay. Of the terms only the
        grammar is asked for."""
        connection, facts = self._connection, self._facts
        if connection is None or facts is None:
            raise SpectuiError("No server answers: load its model again first.")
        if terms.grammar and not facts.llama_server:
            raise SpectuiError("Only llama-server and spectui take a grammar or a JSON schema: ask this server without one.")
        knobs = self.knobs if self.knobs.seed >= 0 else replace(self.knobs, seed=secrets.randbits(31))
        if facts.takes_images:
            messages = [message._replace(images=tuple(map(requests.read, message.images))) for message in messages]
        reply = Reply(messages, knobs, facts, self._emit, connection.address.root, self._stall_s, self._learn)
        try:
            self._run(self._ask(connection, reply, messages, knobs, requests.obeyed(terms)))
        except asyncio.CancelledError:
            reply.reason = StopReason.CANCELLED
        finished = reply.finish()
        self._emit(finished)
        self._tell_images(messages, facts.takes_images)
        self._tell_counts()
        return finished

    def _tell_images(self, messages: Sequence[Message], takes_images: bool) -> None:
        """Say once which images have not gone along: below the reply, as one that is begun anew takes lines above it away."""
        for name in (image.name for message in messages for image in message.images if not image.url):
            why = f"{name} has gone or was changed" if takes_images else f"{self._setup.model} takes no images"
            if (sentence := f"{why}: the text went without {name}.") not in self._said:
                self._said.add(sentence)
                self._emit(Notice(sentence))

    async def _ask(
        self, connection: Connection, reply: Reply, messages: Sequence[Message], knobs: Knobs, obeyed: dict[str, Any]
    ) -> None:
        cold, self._cold, wait = self._cold, False, Waiting(self._emit)
        while True:
            asked: dict[str, Any] = {}
            try:
                if self._gone:
                    self._tell_loaded(await look(connection, self._wanted, self._emit))
                if self._facts is not None:
                    reply.use(self._facts)
                asked = requests.body(reply.facts, messages, knobs, cold=cold, wants_probabilities=self.wants_probabilities)
                asked = {field: value for field, value in asked.items() if field not in self._refused} | obeyed
                async with connection.stream(requests.CHAT, asked) as pieces:
                    watch = asyncio.ensure_future(self._end_thinking(connection, reply, knobs))
                    try:
                        await reply.read(pieces)
                    finally:
                        watch.cancel()
                return
            except ServerTrouble as error:
                self._gone = self._gone or error.loading or not error.status
                if reply.begun:
                    raise reply.worded(error) from None
                if error.loading:  # it was started again meanwhile
                    await wait(reply.facts.model.name, str(error))
                elif error.status in (404, 405) and len(connection.bases) > 1:
                    connection.bases = connection.bases[1:]
                elif fields := requests.refused(error, asked):
                    self._refused |= fields
                    self._emit(Notice(f"{error} It is asked without {' and '.join(sorted(fields))} from now on."))
                else:
                    raise reply.worded(error) from None

    async def _end_thinking(self, connection: Connection, reply: Reply, knobs: Knobs) -> None:
        """Have llama-server end the thinking if the budget is turned to 0 meanwhile. `knobs`: those that it was asked with."""
        while not (self.knobs.reasoning_budget == 0 != knobs.reasoning_budget and reply.thinks and reply.id):
            await asyncio.sleep(STOP_S)
        asked = {"id": reply.id, "action": "reasoning_end", "model": reply.facts.model.name}
        try:
            answer = Fields(await connection.post(connection.bases[0] + requests.CONTROL, asked))
        except ServerTrouble as error:
            old = error.status in (404, 405, 501)
            self._emit(Notice(f"This llama-server cannot end a thought: {'use a newer one' if old else error}."))
        else:
            if not answer.table.get("success"):
                self._emit(Notice(f"The server does not end the thought: {answer.name('message') or 'it does not say why'}."))

    async def _learn(self) -> Facts | None:
        """What is new of the server, which names what drafts while it writes, and may have been started again."""
        connection, before = self._connection, self._facts
        if connection is None or before is None or not before.slots_path:
            return None
        try:
            facts = await look(connection, self._wanted, lambda event: None)
        except ServerTrouble:  # the reply goes on
            return None
        if facts.slots.drafts is None:
            return None
        if facts.slots.drafts == before.slots.drafts and not facts.slots.drafters:  # it has ended the reply already
            facts = facts._replace(slots=facts.slots._replace(drafters=before.slots.drafters))
        if facts._replace(times=before.times) != before:
            self._tell_loaded(facts)
        return self._facts

    def _tell_counts(self) -> None:
        """Tell what the server has counted. One that does not tell it is not asked again."""
        connection, facts = self._connection, self._facts
        if connection is None or facts is None or not facts.metrics or self._stop.is_set():
            return
        try:
            now = read_counts(self._run(connection.text(facts.metrics, METRICS_S)))
        except (ServerTrouble, asyncio.CancelledError):
            now = None
        if now is None:
            self._facts = facts._replace(metrics="")
            return
        before, self._counts = self._counts, now
        self._emit(Counted(now, now.since(before) if before is not None else None))

    def forget(self) -> None:
        """Nothing, as `rest`: the server keeps what it has read."""

    def count(self, text: str) -> int | None:
        """As llama-server counts; None for other servers."""
        if self._connection is None or self._facts is None or not self._facts.llama_server:
            return None
        try:
            return len(self._run(self._connection.post("/tokenize", {"content": text}))["tokens"])
        except (ServerTrouble, asyncio.CancelledError, LookupError, TypeError):
            return None

    def catch_up(self) -> None:
        pass

    def rest(self) -> None:
        pass

    def close(self) -> None:
        """Leave the server."""
        self._facts = None
        self._end_connection()
        if self._loop is not None:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
            self._loop = None

    def _end_connection(self) -> None:
        before, self._connection = self._connection, None
        if before is not None and self._loop is not None:
            self._loop.run_until_complete(before.close())

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of the work. Raises what it raises, and CancelledError if a person stops it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(self._stoppable(work))

    async def _stoppable(self, work: Coroutine[Any, Any, Result]) -> Result:
        task = asyncio.ensure_future(work)
        while not task.done():
            if self._stop.is_set():
                task.cancel()
            await asyncio.wait({task}, timeout=STOP_S)
        return task.result()


def _without_effect(setup: Setup, told: tuple[int, int]) -> list[str]:
    """The settings that say how models are loaded here, as far as they are set. `told`: contexts that a server has told."""
    given = {key: getattr(setup, key) for key, default, _ in specs(Setup) if getattr(setup, key) != default}
    taken = ("server", "server_model", "server_key_file", "model", "draft", "system")
    return [title(key) for key, value in given.items() if key not in taken and not (key == "ctx_size" and value in told)]


def _info(facts: Facts, name: str) -> ModelInfo:
    model = facts.model
    parts = [f"on {facts.kind}", facts.build, model.quantisation, f"{facts.at_once} slots" if facts.at_once > 1 else ""]
    return ModelInfo(
        name,
        ", ".join(filter(None, parts)),
        model.parameters,
        model.bytes,
        model.n_vocab,
        model.n_ctx,
        model.trained_ctx,
        kernels="",
    )
