"""The round loop: draft, verify, keep what the target chose.

Every token is chosen by the target (`choice.choose`); a draft only decides how many of them one pass can confirm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.choice import Choice, choose_rows, submit_rows
from spectui.speculation.evaluator import Cancelled, Ends, Evaluator, Interrupted, common_prefix, feed
from spectui.speculation.policies.strategy import Drafted, Strategy
from spectui.speculation.records import Candidate, Likeliest, Outcome, Round, StopReason
from spectui.speculation.top_k import TopK


class Decoder:
    """One reply. Iterate over `rounds()`; afterwards `reason` says why it ended and `tokens` holds prompt and reply."""

    def __init__(
        self,
        target: Evaluator,
        strategy: Strategy,
        *,
        text: Callable[[int], str],
        piece: Callable[[int], str],
        is_end: Ends,
        cancelled: Cancelled,
        notice: Callable[[str], None],
        stops: Callable[[int, Sequence[str]], bool] = lambda token, texts: False,
        forced: Callable[[Knobs, Sequence[int]], int | None] = lambda knobs, tokens: None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """`text` turns the emitted tokens, in order, into printable text; `piece` shows a single token out of order.

        `stops` is told each emitted token, in order, and the knobs' stop texts: does one of them end the reply?
        `forced`: the token that must come behind these, whatever the target would choose; None if it chooses.
        """
        self.target = target
        self.strategy = strategy
        self.tokens: list[int] = []
        self.reason: StopReason | None = None
        self._text = text
        self._piece = piece
        self._is_end = is_end
        self._cancelled = cancelled
        self._notice = notice
        self._stops = stops
        self._forced = forced
        self._clock = clock
        self._emitted = 0
        self._ended: float | None = None  # when the last round ended
        # With a draft model the next pass begins a draft later, and nobody should wait so long for tokens that are chosen.
        self._overlaps: bool = getattr(target, "asynchronous", False) and strategy.model is None
        self._ring: int = getattr(target, "ring", 0)
        self._unrecorded: tuple[Outcome, list[Choice]] | None = None

    def prompt(self, tokens: Sequence[int], knobs: Knobs, progress: Callable[[int], None] | None = None) -> None:
        """Evaluate the prompt in both contexts, but for its last token, which the first round evaluates."""
        self.tokens = list(tokens)
        if len(tokens) > self.target.n_ctx:
            self.reason = StopReason.CONTEXT
            return
        try:
            began, before, aside_s = self._clock(), common_prefix(self.target.tokens, self.tokens), 0.0
            self.strategy.suffix.begin(self.tokens)

            def between_passes(done: int) -> None:
                nonlocal aside_s
                since = self._clock()
                self.strategy.suffix.read(self.tokens, done)
                aside_s += self._clock() - since
                if progress is not None:
                    progress(done)

            feed(self.target, self.tokens[:-1], self._cancelled, between_passes)
            read, seconds = len(self.target.tokens) - before, self._clock() - began - aside_s
            try:
                self.strategy.prepare(self.tokens, knobs, read, seconds, self._cancelled, self._is_end)
            except SpectuiError as error:
                self._go_on_without_model(error)
        except Interrupted:
            self.reason = StopReason.CANCELLED

    def rounds(self, knobs: Callable[[], Knobs]) -> Iterator[Round]:
        """Rounds until the reply ends. `knobs` is asked once per round.

        Where the target's device computes by itself and no draft model delays its next pass, a round is recorded and yielded
        while it computes that pass.
        """
        try:
            yield from self._rounds(knobs)
        except Interrupted:
            self.reason = StopReason.CANCELLED
        except SpectuiError:
            yield from self._record()
            raise
        finally:
            self.strategy.end_reply()
        yield from self._record()

    def _rounds(self, knobs: Callable[[], Knobs]) -> Iterator[Round]:
        index = 0
        while self.reason is None:
            snapshot = knobs()
            room = self.target.n_ctx - len(self.tokens)
            if self._cancelled():
                self.reason = StopReason.CANCELLED
            elif snapshot.predict >= 0 and self._emitted >= snapshot.predict:
                self.reason = StopReason.LIMIT
            elif room < 0:
                self.reason = StopReason.CONTEXT
            else:
                left = snapshot.predict - self._emitted - 1 if snapshot.predict >= 0 else room
                longest = room if self.strategy.longest is None else self.strategy.longest
                ring = self._ring - len(self.tokens) % self._ring if self._ring else room
                yield from self._round(index, snapshot, min(snapshot.draft_max, room, left, longest, ring))
                index += 1

    def _round(self, index: int, knobs: Knobs, limit: int) -> Iterator[Round]:
        """Draft, evaluate the draft in one target pass, keep what the target chose."""
        started = self._clock()
        position = len(self.tokens)
        drafted, sent, reason, guessed = self._draft(knobs, max(limit, 0))
        drafted_at = self._clock()

        pending = self.tokens[len(self.target.tokens) :]
        ids = [candidate.id for candidate in drafted[:sent]]
        if ids and self._is_end(ids[-1]):
            del ids[-1]  # the row before it judges it, and nobody reads the row behind it
        batch = pending + ids
        self.strategy.go_on(self.tokens, ids, knobs)
        computed = submit_rows(self.target, batch, len(ids) + 1, knobs)
        yield from self._record()  # the round before
        rows = computed()
        verified_at = self._clock()

        choices = self._verify(rows, drafted[:sent], knobs)
        chosen_at = self._clock()
        if len(self.target.tokens) >= len(self.tokens):
            self.target.truncate(len(self.tokens) - 1)

        costs = self.strategy.costs
        # Learning from the last round, recording it and showing it are in this round's seconds.
        since, self._ended = self._ended, self._clock()
        outcome = Outcome(
            index,
            position,
            knobs,
            drafted,
            sent,
            tokens=[choice.token for choice in choices],
            p=[choice.p for choice in choices],
            sure=[choice.shares.item(0) for choice in choices],
            draft_s=drafted_at - started,
            verify_s=verified_at - drafted_at,
            choose_s=chosen_at - verified_at,
            seconds=self._ended - (started if since is None else since),
            pass_size=len(batch),
            reason=reason,
            plain_s=costs.verify(1, position) if costs.known else None,
            guessed=guessed,
            saved_s=sum((candidate.seconds for candidate in drafted if candidate.ahead), 0.0),
        )
        self.strategy.learn(outcome)
        self._unrecorded = outcome, choices
        if not self._overlaps:
            yield from self._record()

    def _record(self) -> Iterator[Round]:
        """The record of the last round, if it is not made yet."""
        if self._unrecorded is not None:
            (outcome, choices), self._unrecorded = self._unrecorded, None
            texts = [self._text(token) for token in outcome.tokens]
            yield Round.of(outcome, texts, self._piece, self._likeliest(choices))

    def _draft(self, knobs: Knobs, limit: int) -> Drafted:
        try:
            return self.strategy.draft(self.tokens, knobs, limit)
        except SpectuiError as error:
            self._go_on_without_model(error)
        return self.strategy.draft(self.tokens, knobs, limit)

    def _verify(self, rows: NDArray[np.float32] | TopK, kept: Sequence[Candidate], knobs: Knobs) -> list[Choice]:
        """Choose at each row while the draft equals the choice. Appends to `tokens`."""
        choices: list[Choice] = []
        for index, choice in enumerate(choose_rows(rows, knobs, self.tokens)):
            if (forced := self._forced(knobs, self.tokens)) is not None:
                choice = choice.of(forced)
            choices.append(choice)
            self.tokens.append(choice.token)
            self._emitted += 1
            if self._is_end(choice.token):
                self.reason = StopReason.EOS
                break
            if self._stops(choice.token, knobs.stop):
                self.reason = StopReason.STOP
                break
            if index < len(kept) and choice.token != kept[index].id:
                break
        return choices

    def _likeliest(self, choices: Sequence[Choice]) -> Likeliest:
        """The target's likeliest tokens in the rows of these choices."""
        ids = np.array([choice.ids for choice in choices], np.int32)
        p = np.array([choice.shares for choice in choices], np.float32)
        return Likeliest(ids.shape[1], ids.tobytes(), p.tobytes(), tuple(map(self._piece, ids.ravel().tolist())))

    def _go_on_without_model(self, error: SpectuiError) -> None:
        self.strategy.drop_model()
        self._notice(f"The draft failed, so the reply goes on without it: {error}")
