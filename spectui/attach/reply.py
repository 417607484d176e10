"""One reply of a server: reads its stream, and says what comes of it as the engine's events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from time import perf_counter

from spectui.attach.chunks import Chunk, Counters, Fields, Usage, chunks
from spectui.attach.connection import ServerTrouble, words
from spectui.attach.facts import Facts
from spectui.attach.origins import Origins
from spectui.engine.events import Event, Finished, Message, Notice, Prompt, RoundDone
from spectui.engine.room import no_room, to_drop
from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.records import Reason, Round, StopReason
from spectui.speculation.statistics import Statistics
from spectui.thinking import Piece, ThoughtStream

STALL_S = 20.0
"""Seconds without a sign of the server after which that is said. It is not ended: a long prompt may take longer."""

_NO_ROOM = "exceed_context_size_error"
_ENDS = {
    "stop": StopReason.EOS,
    "eos": StopReason.EOS,
    "eos_token": StopReason.EOS,
    "end_turn": StopReason.EOS,
    "stop_sequence": StopReason.EOS,
    "length": StopReason.LIMIT,
    "max_tokens": StopReason.LIMIT,
}
"""Others, such as tool_calls and content_filter, are told."""


class Reply:
    """Reads one reply. `reason` is why it ended, None while it has not."""

    def __init__(
        self,
        messages: Sequence[Message],
        knobs: Knobs,
        facts: Facts,
        emit: Callable[[Event], None],
        root: str,
        stall_s: float,
        learn: Callable[[], Awaitable[Facts | None]],
    ) -> None:
        """`learn`: asks what the server tells only while it writes; None if there is nothing new."""
        self.reason: StopReason | None = None
        self.id = ""
        """The server's name for it; "" until it is known, or if it has none."""
        self._messages, self._knobs, self._emit, self._root = tuple(messages), knobs, emit, root
        self._stall_s = stall_s
        self._learn: Callable[[], Awaitable[Facts | None]] | None = learn
        self._origins = Origins(knobs)
        self.use(facts)
        self._text: list[str] = []
        self._statistics = Statistics()
        self._usage = Usage(None, None)
        self._total: int | None = None  # tokens of the prompt
        self._asked = self._read = False
        self._thoughts = ThoughtStream()
        self._named = False  # the server names what is thought by itself
        self._started = self._last = perf_counter()
        self._first_s: float | None = None

    @property
    def thinks(self) -> bool:
        """What was read of it ends within thinking."""
        return self._thoughts.thinking

    @property
    def begun(self) -> bool:
        """Whether anything of it was read."""
        return self._asked

    def use(self, facts: Facts) -> None:
        """The server is as these say."""
        self.facts = facts
        self._origins.source, self._origins.times, self._origins.reason = facts.source, facts.times, _silent(facts)

    async def read(self, pieces: AsyncIterator[bytes]) -> None:
        """Read the stream to its end. Raises SpectuiError; what was read is told before."""
        try:
            async for chunk in chunks(self._watched(pieces), self._root):
                if self._learn is not None:
                    learn, self._learn = self._learn, None
                    self.use(await learn() or self.facts)
                self._take(chunk)
                if chunk.error is not None:
                    raise self.worded(ServerTrouble(f"{self._root} broke off: {chunk.error.rstrip('.')}.", table=chunk.table))
        finally:
            text, thought = _joined(self._thoughts.end())
            self._tell(self._origins.add(text, None, thought=thought))
            self._tell(self._origins.end(total=self._usage.reply))
        if self.reason is None:
            raise ServerTrouble(
                f"{self._root} ended the stream in the middle of the reply: what came is kept."
                if self._read
                else f"{self._root} ended the stream without a reply: look into the server's log."
            )

    async def _watched(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The pieces. Says so, once each time, when none comes for long."""
        while True:
            task = asyncio.ensure_future(anext(pieces))
            try:
                while not (await asyncio.wait({task}, timeout=self._stall_s))[0]:
                    self._emit(Notice(f"{self._root} has sent nothing for {self._stall_s:.0f} seconds; it is waited for on."))
                    await asyncio.wait({task})
                yield task.result()
            except StopAsyncIteration:
                return
            finally:
                task.cancel()

    def _take(self, chunk: Chunk) -> None:
        now, progress = perf_counter(), chunk.progress
        self.id = self.id or chunk.id
        if progress is not None and not self._read:
            self._ask(progress.total)
            self._emit(progress)
        if chunk.usage is not None:
            self._usage = chunk.usage
        text, thought = _joined(self._divided(chunk))
        if text or (chunk.counters is not None and chunk.counters.predicted):
            self._begin(chunk.counters)
        if text or chunk.counters is not None:
            seconds, self._last = now - self._last, now
            self._tell(self._origins.add(text, chunk.counters, chunk.chosen, seconds, thought))
        if chunk.last and self._read:  # some servers end a reply by this alone
            self.reason = self.reason or StopReason.EOS
        if chunk.finish:
            self.reason = _ENDS.get(chunk.finish.casefold(), StopReason.EOS)
            if chunk.finish.casefold() not in _ENDS:
                self._emit(Notice(f"{self._root} has ended the reply and says why: {words(chunk.finish)}."))

    def _begin(self, counters: Counters | None) -> None:
        """The first token is there, so the prompt is read."""
        if self._read:
            return
        self._read = True
        self._last = perf_counter()
        self._first_s = self._last - self._started
        if counters is None:
            self._ask(None)
            return
        total = counters.prompt + counters.cached
        self._ask(total)
        self._origins.position = total
        self._emit(Prompt(total, total, counters.cached, counters.prompt_s or 0.0))

    def _ask(self, total: int | None) -> None:
        """Note once where the reply begins, when the length of the prompt is known, or cannot be."""
        if not self._asked:
            self._asked, self._total = True, total
            self._origins.position = total or 1

    def _divided(self, chunk: Chunk) -> list[Piece]:
        """The chunk's text, with marks around what is thought."""
        pieces: list[Piece] = []
        if chunk.thought:
            pieces += [*self._thoughts.open(), (True, chunk.thought)]
            self._named = True
        if chunk.text:
            pieces += self._thoughts.close() if self._named and self._thoughts.thinking else []
            pieces += self._thoughts.push(chunk.text)
        return pieces

    def _tell(self, rounds: Iterable[Round]) -> None:
        for round in rounds:
            self._statistics.add(round)
            self._text += [token.text for token in round.tokens]
            self._emit(RoundDone(round, self._origins.position if self._total is not None else None))

    def worded(self, error: ServerTrouble) -> SpectuiError:
        """The error as the chat has to know it: a prompt without room says how many turns to drop."""
        said = Fields(error.table)
        tokens, n_ctx = said.count("n_prompt_tokens"), said.count("n_ctx")
        if said.text("type") != _NO_ROOM or not tokens or not n_ctx:
            return error
        return no_room(self._messages, tokens, n_ctx, self._to_drop(tokens, n_ctx), self.facts.larger)

    def _to_drop(self, tokens: int, n_ctx: int) -> int:
        """How many messages to drop, with tokens counted by the text's length: the server's tokenizer is not here."""

        def size(messages: Sequence[Message]) -> int:
            return sum(len(message.content) for message in messages)

        share = tokens / (size(self._messages) or 1)
        return to_drop(self._messages, n_ctx, lambda rest: round(share * size(rest)))

    def finish(self) -> Finished:
        """The event that ends it."""
        if not self._asked:
            self._ask(None)
        reason, needed = self.reason or StopReason.CANCELLED, 0
        prompt = self._total if self._total is not None else self._usage.prompt
        n_ctx = self.facts.model.n_ctx
        written = self._statistics.emitted
        if reason is StopReason.LIMIT and n_ctx and prompt is not None and prompt + written + 1 >= n_ctx:
            reason = StopReason.CONTEXT
            needed = self._to_drop(prompt + written, n_ctx)
        elif reason is StopReason.LIMIT and (
            self._knobs.predict < 0 or (self._usage.reply or self._knobs.predict) < self._knobs.predict
        ):
            reason = StopReason.SERVER_LIMIT
        return Finished(
            reason, "".join(self._text), self._statistics, self._knobs, prompt,
            self._origins.seen.prompt_s, self._first_s, needed,
        )  # fmt: skip


def _joined(pieces: Iterable[Piece]) -> tuple[str, bool]:
    """The text of these pieces, and whether any of it is thinking."""
    pieces = list(pieces)
    return "".join(text for _, text in pieces), any(thought for thought, text in pieces if text)


def _silent(facts: Facts) -> Reason | None:
    """Why a round shows no draft."""
    if facts.slots.drafts is False and not facts.drafts:
        return Reason("server drafts nothing")
    return Reason("server found nothing") if facts.llama_server else Reason("server does not tell")
