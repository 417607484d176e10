"""Drafts the rounds of one pair of models: what each source proposes, as far as it is expected to pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from time import perf_counter
from typing import NamedTuple

from spectui.knobs import Knobs
from spectui.speculation.choice import Grammar
from spectui.speculation.drafters.model import DraftModel, to_the_end
from spectui.speculation.drafters.suffix import Cursor, SuffixAutomaton, SuffixDrafter
from spectui.speculation.drafters.text import DraftedText
from spectui.speculation.evaluator import Cancelled, Ends
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.draft import Acceptance, Draft, RoundTimes, expected_value
from spectui.speculation.records import Candidate, Reason, ReasonKind, Round

MAY_LOSE, _REFILL = 10.0, 0.02
"""Plain passes that drafts may lose at first, and after any stretch without a gain; the share of a plain pass that each emitted
token adds to that."""

_ACCIDENT, _LATELY = 0.25, 0.05
"""Plain passes that a round may take more or less than planned: what is beyond is another program's; EWMA weight of a round in
the going rate and in Python's time."""

_FEW, _USUAL, _REPLY, _REPLY_WEIGHT = 32, 0.85, 256.0, 0.3
"""For whether the draft model reads a text: fewer tokens than these are always read; the target's confidence in a usual text;
tokens expected of the first reply, and the EWMA weight of a reply's length."""

_FIRST_ROUNDS = 2
"""Rounds that are plain where the costs are not known or not trusted: they tell what a plain pass takes."""


@dataclass
class LossBudget:
    """What drafts may still lose in a conversation, and the speed that they reach. Times are in plain passes."""

    balance: float = MAY_LOSE
    tokens: float = 1.0
    passes: float = 1.0
    """EWMAs over rounds: their tokens and time."""

    @property
    def rate(self) -> float:
        """The tokens per plain pass that were reached lately; at least 1, which is plain decoding's."""
        return max(1.0, self.tokens / self.passes)

    def count(self, tokens: int, planned: float, took: float) -> None:
        """A round gave so many tokens. It was planned to take `planned`, and took `took`."""
        self.tokens += _LATELY * (tokens - self.tokens)
        self.passes += _LATELY * (planned - self.passes)
        self.balance = min(MAY_LOSE, self.balance + (1.0 + _REFILL) * tokens - took)

    def read(self, passes: float) -> None:
        """The draft model read the prompt in this time. A draft of a token or two may fail whatever that took."""
        self.balance = max(min(1.0, self.balance), self.balance - passes)


class Drafted(NamedTuple):
    """A round's draft. The target judges its first `sent` tokens. `guessed`: see `Round`."""

    tokens: Sequence[Candidate]
    sent: int
    reason: Reason
    guessed: bool | None = None


class Strategy:
    """Lives as long as the pair is loaded, so later replies use what it has learned."""

    def __init__(
        self, model: DraftModel | None, costs: CostModel, past: SuffixAutomaton | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:  # fmt: skip
        """`past`: replies of other conversations, for the suffix drafter."""
        self.costs, self.acceptance, self.budget = costs, Acceptance(), LossBudget()
        self.longest: int | None = None
        """Most tokens that may be drafted whatever the knobs say (--strict); None for no bound."""
        self.model = model
        """The draft model; None without one."""
        self.suffix = SuffixDrafter(past)
        """Proposes repetitions."""
        self.grammar: Grammar | None = None
        """What the reply must obey: nothing is proposed that it refuses."""
        self._model = model  # None too after it failed in this reply
        self._reads = False  # the model drafts in this round
        self._clock = clock
        self._is_end: Ends = lambda token: False
        self._pace = 0.0  # seconds per token that the draft model reads; 0: unknown
        self._reply, self._written = _REPLY, 0
        self._python_s = 0.0  # of a plain round

    def begin_conversation(self) -> None:
        """The next reply is the first one of another conversation."""
        self.budget = LossBudget()

    def prepare(
        self, tokens: Sequence[int], knobs: Knobs, read: int, seconds: float, cancelled: Cancelled, is_end: Ends
    ) -> None:
        """A reply to this prompt begins. The target has read `read` tokens of it in `seconds`.

        Raises what the draft model raises.
        """
        self._model, self._is_end = self.model, is_end
        if self.model is not None:
            self.model.drop()
        if self._written:
            self._reply += _REPLY_WEIGHT * (self._written - self._reply)
        self._written = 0
        if read >= _FEW and self.costs.known:
            # The draft is taken to read as many times faster than the target as it writes, and to read a token no slower than
            # to write it: if it seems to, the machine was busy with something else.
            self._pace = min(seconds / read / self.costs.verify(1), 1.0) * self.costs.drafting(1)
        self.suffix.prepare(tokens, cancelled)
        model, _ = self._readable(knobs, tokens)
        if model is not None:
            began = self._clock()
            model.prepare(tokens, cancelled)
            if self.costs.known:
                self.budget.read((self._clock() - began) / self.costs.verify(1, len(tokens)))

    def draft(self, text: Sequence[int], knobs: Knobs, limit: int) -> Drafted:
        """At most `limit` tokens after this text. Raises what the draft model raises."""
        guessed = self._model.take(text, knobs) if self._model is not None else None
        model, absent = self._readable(knobs, text)
        self._reads = model is not None and limit > 0
        if refusal := self._refusal(knobs, limit):
            return Drafted((), 0, refusal, guessed)
        costs, budget = self.costs if self.costs.known else CostModel({1: 1.0}), self.budget
        plain_s = costs.verify(1, len(text))
        draft = Draft(RoundTimes.of(costs, len(text), limit), budget.rate, budget.balance, plain_s)
        sent, reason = self._decided(draft, knobs, *self._grow(draft, text, knobs, model))
        if reason.kind in ("no match", "uncertain", "p-min") and absent is not None:
            reason = absent
        elif reason.kind == "no match" and model is not None:
            reason = _draft_full(model)  # it was asked, and this round fills its context
        return Drafted(draft.tokens, sent, reason, guessed)

    def _refusal(self, knobs: Knobs, limit: int) -> Reason | None:
        auto, costs = knobs.policy == "auto", self.costs
        if knobs.drafter == "off":
            return Reason("drafter off")
        if limit < max(1, knobs.draft_min if knobs.policy == "fixed" else 1):
            return Reason("strict" if self.longest == 0 else "no room", limit=limit)
        plain = costs.rounds < _FIRST_ROUNDS or costs.stale
        if (not costs.known and knobs.policy != "fixed") or (auto and plain):
            return Reason("measuring")
        return Reason("budget") if auto and self.budget.balance <= 0 else None

    def _grow(self, draft: Draft, text: Sequence[int], knobs: Knobs, model: DraftModel | None) -> tuple[bool, float | None]:
        """Add tokens, each of the source that is expected to yield more.

        Returns whether it ended because no source had any more, not because the model was not asked; and the confidence of the
        token that p-min kept out, if one was.
        """
        history, expected = DraftedText(text), self.acceptance.expected
        cursor = self.suffix.cursor(text) if knobs.drafter in ("auto", "suffix") else None
        stream: Iterator[Candidate] | None = None  # the model's tokens after `history`
        grammar = self.grammar.clone() if self.grammar is not None else None
        if model is not None:
            model.grammar = grammar
        copied = _copies(cursor, grammar)
        while (left := draft.limit - len(draft.tokens)) > 0:
            repeated = list(islice(to_the_end(copied, self._is_end), left))
            worthy, value = draft.with_copy(map(expected, repeated))
            if model is None and (knobs.policy != "auto" or not (worthy or draft.tokens)):
                worthy = len(repeated if knobs.policy != "auto" else repeated[:1])  # one token to learn from
            asks = model is not None and self._asks(draft, model, knobs, value if worthy else None)
            if not asks and not worthy:
                return model is None, None
            if model is not None and asks:
                stream = stream or model.propose(history, knobs)
                taken = list(islice(stream, 1))
            else:
                stream, taken = None, repeated[:worthy]
            match = cursor.match if cursor is not None else 0
            for candidate in taken:
                if knobs.policy == "fixed" and candidate.p < knobs.p_min:
                    return True, candidate.p
                if grammar is not None and not grammar.accept(candidate.id):
                    return True, None
                draft.add(candidate, expected(candidate))
                if self._is_end(candidate.id):
                    return True, None
                history.append(candidate.id)
                if cursor is not None:
                    cursor.advance(candidate.id)
            if not taken:
                return True, None
            # Nothing has changed for a repetition that was not worth it, unless the model has gone on as it does.
            changed = cursor is not None and (worthy == len(repeated) if stream is None else cursor.match > match)
            copied = _copies(cursor if changed else None, grammar)
        return True, None

    def _asks(self, draft: Draft, model: DraftModel, knobs: Knobs, copied: float | None) -> bool:
        """Is the model to draft the next token? `copied`: the value that repetitions would reach; None if there are none."""
        length, times, likely = len(draft.tokens), draft.times, self.acceptance.undrafted()
        if copied is not None and draft.with_model(likely) <= copied:
            return False
        if (copied is None and model.ready) or knobs.policy == "fixed":
            return True
        if knobs.policy == "expected":
            return expected_value(draft)[2]
        if not times.drafting[-1]:
            return length < 2  # the second token shows what a drafted token costs
        if draft.paid + 1 >= len(times.drafting) or not draft.bears(length + 1, draft.paid + 1):
            return False
        return copied is not None or draft.with_model(likely) > max(draft.values)

    def _decided(self, draft: Draft, knobs: Knobs, ended: bool, refused: float | None) -> tuple[int, Reason]:
        """How many tokens of the draft are sent, and why. `ended`, `refused`: see `_grow`."""
        length, limit, acceptance = len(draft.tokens), draft.limit, self.acceptance
        if knobs.policy == "fixed":
            if 0 < length < knobs.draft_min:
                return 0, Reason("draft-min", limit=knobs.draft_min, drafted=length)
            kind: ReasonKind = "draft" if length else "no match" if refused is None else "p-min"
            return length, Reason(kind, length, limit, confidence=refused)
        if knobs.policy == "expected":
            best, value, _ = expected_value(draft)
            length = min(best + 1, length)
            return length, Reason("expected" if length else "no match", length, limit, value)
        if sent := draft.best(knobs.draft_min):
            return sent, Reason("draft", sent, limit, draft.gain(sent))
        if not length and ended:
            return 0, Reason("no match", limit=limit)
        if draft.best(knobs.draft_min, bearable=False) or not (length or draft.bears(1, 1)):
            return 0, Reason("budget")
        if length:
            return 0, Reason("uncertain", expected_acceptance=acceptance.expected(draft.tokens[0]))
        return 0, Reason("unlikely", 0, limit, None, acceptance.undrafted(), draft.rate, *draft.times)

    def draft_ahead(self, tokens: Sequence[int], sent: Sequence[int], knobs: Knobs) -> None:
        """The target begins to compute what was sent after these tokens: let the draft model draft ahead, if it can."""
        if self._reads and self._model is not None:
            self._model.draft_ahead(tokens, sent, knobs, self._is_end)

    def end_reply(self) -> None:
        """Return when nothing is drafted ahead any more: the draft's context is free, to be measured or closed."""
        if self.model is not None:
            self.model.settle()

    def _readable(self, knobs: Knobs, text: Sequence[int]) -> tuple[DraftModel | None, Reason | None]:
        """The draft model, if these knobs ask for it and reading its unread text pays; why it does not draft."""
        model = self._model
        if model is None or knobs.drafter not in ("auto", "model", "mtp"):
            return None, None
        if knobs.drafter == "mtp" and model.source == "model":
            return None, None
        if model.full(text):
            return None, _draft_full(model)
        lag, costs = model.lag(text), self.costs
        if knobs.policy != "auto" or lag < _FEW or not self._pace:
            return model, None
        # A reply that is longer than the last ones is expected to go on for as long again.
        follows = max(self._reply, self._written)
        if knobs.predict >= 0:
            follows = min(follows, knobs.predict - self._written)
        speed_up = RoundTimes.of(costs, len(text), knobs.draft_max).best(self.acceptance.undrafted(_USUAL))
        saves = follows * costs.verify(1, len(text)) * (1 - 1 / max(1.0, speed_up))
        return (model, None) if lag * self._pace <= saves else (None, Reason("unread", seconds=lag * self._pace))

    def drop_model(self) -> None:
        """The draft model failed: go on without it, and try it again in the next reply, from an empty context."""
        if self._model is not None:
            self._model.model.truncate(0)
        self._model = None

    def learn(self, round: Round, drafted: Sequence[Candidate], confidences: Sequence[float]) -> None:
        """Learn from a finished round, whatever its policy. `confidences`: see `Acceptance.observe`."""
        costs = self.costs = self.costs.learned(round.pass_size, round.verify_s, round.position, drafted)
        tokens, plain_s = len(round.tokens), costs.verify(1, round.position)
        self.acceptance.observe(drafted, [token.id for token in round.tokens], confidences)
        self._written += tokens
        drafting_s = costs.drafting(sum(candidate.paid for candidate in drafted))
        planned_s = costs.verify(round.pass_size, round.position) + drafting_s
        python_s = round.seconds - round.draft_s - round.verify_s
        if round.tokens[0].origin != "plain":
            extra_s = round.draft_s + round.verify_s + python_s - tokens * self._python_s - planned_s
        else:  # what a plain pass takes more than usual is no loss of the drafts'
            self._python_s += _LATELY * (min(python_s, plain_s) - self._python_s)
            extra_s = round.draft_s - drafting_s
        planned, extra = planned_s / plain_s, min(max(extra_s / plain_s, -_ACCIDENT), _ACCIDENT)
        # A person who fixes the length accepts its losses.
        self.budget.count(tokens, planned, planned + extra if round.knobs.policy == "auto" else tokens)


def _copies(cursor: Cursor | None, grammar: Grammar | None) -> Iterator[Candidate]:
    """What the cursor proposes, up to the first token that the grammar refuses."""
    candidates = cursor.candidates() if cursor is not None else iter(())
    if grammar is None:
        return candidates
    clone = grammar.clone()
    return takewhile(lambda candidate: clone.accept(candidate.id), candidates)


def _draft_full(model: DraftModel) -> Reason:
    return Reason("draft full", limit=model.model.n_ctx)
