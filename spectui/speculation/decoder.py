"""The round loop: draft, verify, keep what the target chose.

Every token is chosen by the target (`choice.choose`); a draft only decides how many of them one pass can confirm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.choice import RECORDED, Choice, Grammar, NothingAllowed, choose_rows, submit_rows
from spectui.speculation.evaluator import Evaluator, Interrupted, common_prefix, feed
from spectui.speculation.policies.strategy import Drafted, Strategy
from spectui.speculation.records import Candidate, Likeliest, Round, StopReason
from spectui.speculation.top_k import TopK


class ReplyHooks(Protocol):
    """What the decoder asks of the reply that it writes. `grammar`: what it must obey; it accepts each token that is chosen."""

    grammar: Grammar | None

    def text_of(self, token: int) -> str:
        """The printable text of an emitted token. Asked of each, in order."""

    def piece(self, token: int) -> str:
        """The text of a single token out of order."""

    def is_end(self, token: int) -> bool:
        """Does the token end the reply?"""

    def stops(self, token: int, texts: Sequence[str]) -> bool:
        """Does one of the stop texts end the reply at this token? Told each emitted token, in order."""

    def forced(self, knobs: Knobs, tokens: Sequence[int]) -> int | None:
        """The token that must come after these, whatever the target would choose; None if it chooses."""

    def cancelled(self) -> bool:
        """Has a person stopped the reply?"""

    def draft_failed(self, sentence: str) -> None:
        """The draft model failed, and the reply goes on without it: show this."""


class Pass(NamedTuple):
    """A round whose pass the target computes."""

    knobs: Knobs
    draft: Drafted
    size: int
    """Tokens that the pass evaluates."""
    started: float
    drafted: float
    """When drafting began and ended."""
    rows: Callable[[], NDArray[np.float32] | TopK]
    """Waits for its logits."""


class Decoder:
    """One reply. Iterate over `rounds()`; afterwards `reason` says why it ended and `tokens` holds prompt and reply."""

    def __init__(
        self,
        target: Evaluator,
        strategy: Strategy,
        hooks: ReplyHooks,
        clock: Callable[[], float] = perf_counter,
        recorded: int = RECORDED,
    ) -> None:
        """`recorded`: how many of the likeliest tokens rounds tell."""
        self.target = target
        self.strategy = strategy
        self.tokens: list[int] = []
        self.reason: StopReason | None = None
        self.on_draft: Callable[[int, Sequence[int]], None] = lambda index, draft: None
        """Told each round's number and what of a draft the target begins to read."""
        self._hooks = hooks
        strategy.grammar = hooks.grammar
        self._clock, self._recorded = clock, recorded
        self._index = 0  # of the next round
        self._emitted = 0
        self._ended: float | None = None  # when the last round ended
        # With a draft model the next pass begins a draft later, and nobody should wait so long for tokens that are chosen.
        self._overlaps: bool = getattr(target, "asynchronous", False) and strategy.model is None
        self._ring: int = getattr(target, "ring", 0)

    def prompt(self, tokens: Sequence[int], progress: Callable[[int], None] | None = None) -> None:
        """Evaluate the prompt, but for its last token, which the first round evaluates."""
        self.tokens = list(tokens)
        if len(tokens) > self.target.n_ctx:
            self.reason = StopReason.CONTEXT
            return
        hooks, suffix = self._hooks, self.strategy.suffix
        try:
            began, before, aside_s = self._clock(), common_prefix(self.target.tokens, self.tokens), 0.0
            suffix.begin(self.tokens)

            def between_passes(done: int) -> None:
                nonlocal aside_s
                since = self._clock()
                suffix.read(self.tokens, done)
                aside_s += self._clock() - since
                if progress is not None:
                    progress(done)

            feed(self.target, self.tokens[:-1], hooks.cancelled, between_passes)
            read, seconds = len(self.target.tokens) - before, self._clock() - began - aside_s
            self.strategy.prepare(self.tokens, read, seconds, hooks.cancelled, hooks.is_end)
        except Interrupted:
            self.reason = StopReason.CANCELLED

    def rounds(self, knobs: Callable[[], Knobs]) -> Iterator[Round]:
        """Rounds until the reply ends. `knobs` is asked once per round."""
        judged: deque[tuple[Round, Sequence[Choice]]] = deque()
        failure: SpectuiError | None = None
        try:
            while (begun := self._begin(knobs())) is not None:
                while judged:  # while the target's device computes the next pass
                    yield self._written(*judged.popleft())
                if (round := self._judge(begun)) is not None:
                    judged.append(round)
                while judged and not self._overlaps:
                    yield self._written(*judged.popleft())
        except Interrupted:
            self.reason = StopReason.CANCELLED
        except SpectuiError as error:
            failure = error
        finally:
            self.strategy.end_reply()
        while judged:
            yield self._written(*judged.popleft())
        if failure is not None:
            raise failure

    def _limit(self, knobs: Knobs) -> int | None:
        """Most tokens to draft in the next round; None if the reply has ended, and `reason` says why."""
        room = self.target.n_ctx - len(self.tokens)
        if self.reason is None:
            if self._hooks.cancelled():
                self.reason = StopReason.CANCELLED
            elif 0 <= knobs.predict <= self._emitted:
                self.reason = StopReason.LIMIT
            elif room < 0:
                self.reason = StopReason.CONTEXT
        if self.reason is not None:
            return None
        left = knobs.predict - self._emitted - 1 if knobs.predict >= 0 else room
        longest = room if self.strategy.longest is None else self.strategy.longest
        ring = self._ring - len(self.tokens) % self._ring if self._ring else room
        return max(0, min(knobs.draft_max, room, left, longest, ring))

    def _begin(self, knobs: Knobs) -> Pass | None:
        """Draft, and let the target evaluate the draft in one pass. None if the reply has ended."""
        if (limit := self._limit(knobs)) is None:
            return None
        started = self._clock()
        draft = self._draft(knobs, limit)
        drafted = self._clock()
        ids = [candidate.id for candidate in draft.tokens[: draft.sent]]
        if ids and self._hooks.is_end(ids[-1]):
            del ids[-1]  # the row before it judges it, and nobody reads the row after it
        self.on_draft(self._index, ids)
        batch = self.tokens[len(self.target.tokens) :] + ids
        self.strategy.draft_ahead(self.tokens, ids, knobs)
        rows = submit_rows(self.target, batch, len(ids) + 1, knobs, whole=self._hooks.grammar is not None)
        return Pass(knobs, draft, len(batch), started, drafted, rows)

    def _judge(self, begun: Pass) -> tuple[Round, Sequence[Choice]] | None:
        """Keep what the target chose, and learn from it. The round has no texts yet. None if nothing can be chosen."""
        rows, position, draft = begun.rows(), len(self.tokens), begun.draft
        verified = self._clock()
        choices = self._verify(rows, draft.tokens[: draft.sent], begun.knobs)
        chosen = self._clock()
        if len(self.target.tokens) >= len(self.tokens):
            self.target.truncate(len(self.tokens) - 1)
        if not choices:
            return None
        costs = self.strategy.costs
        # Learning from the last round, recording it and showing it are in this round's seconds.
        since, self._ended = self._ended, self._clock()
        round = Round.of(
            self._index, position, begun.knobs, draft.tokens, draft.sent, [(choice.token, choice.p) for choice in choices],
            draft_s=begun.drafted - begun.started, verify_s=verified - begun.drafted, choose_s=chosen - verified,
            seconds=self._ended - (begun.started if since is None else since), pass_size=begun.size, reason=draft.reason,
            plain_s=costs.verify(1, position) if costs.known else None, guessed=draft.guessed,
            saved_s=sum((candidate.seconds for candidate in draft.tokens if candidate.ahead), 0.0),
        )  # fmt: skip
        self._index += 1
        self.strategy.learn(round, draft.tokens, [choice.shares.item(0) for choice in choices])
        return round, choices

    def _written(self, round: Round, choices: Sequence[Choice]) -> Round:
        """The round with its texts and the target's likeliest tokens."""
        ids = np.array([choice.ids for choice in choices], np.int32)
        p = np.array([choice.shares for choice in choices], np.float32)
        piece = self._hooks.piece
        likeliest = Likeliest(ids.shape[1], ids.tobytes(), p.tobytes(), tuple(map(piece, ids.ravel().tolist())))
        return round.written(self._hooks.text_of, piece, likeliest)

    def _draft(self, knobs: Knobs, limit: int) -> Drafted:
        try:
            return self.strategy.draft(self.tokens, knobs, limit)
        except SpectuiError as error:
            self._drop_failed_draft(error)
        return self.strategy.draft(self.tokens, knobs, limit)

    def _verify(self, rows: NDArray[np.float32] | TopK, kept: Sequence[Candidate], knobs: Knobs) -> list[Choice]:
        """Choose at each row while the draft equals the choice. Appends to `tokens`."""
        choices: list[Choice] = []
        grammar = self._hooks.grammar
        try:
            for index, choice in enumerate(choose_rows(rows, knobs, self.tokens, grammar, self._recorded)):
                if (forced := self._hooks.forced(knobs, self.tokens)) is not None:
                    choice = choice.of(forced)
                choices.append(choice)
                self.tokens.append(choice.token)
                self._emitted += 1
                if grammar is not None:
                    grammar.accept(choice.token)
                if self._hooks.is_end(choice.token):
                    self.reason = StopReason.EOS
                    break
                if self._hooks.stops(choice.token, knobs.stop):
                    self.reason = StopReason.STOP
                    break
                if index < len(kept) and choice.token != kept[index].id:
                    break
        except NothingAllowed:
            self.reason = StopReason.EOS
        return choices

    def _drop_failed_draft(self, error: SpectuiError) -> None:
        self.strategy.drop_model()
        self._hooks.draft_failed(f"The draft failed, so the reply goes on without it: {error}")
