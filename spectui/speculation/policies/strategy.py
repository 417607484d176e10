"""Drafts the rounds of one pair of models: what each source proposes, as far as it is expected to pay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from math import inf
from typing import NamedTuple

from spectui.knobs import Knobs
from spectui.speculation.choice import Grammar
from spectui.speculation.drafters.model import DraftModel, to_the_end
from spectui.speculation.drafters.suffix import SuffixAutomaton, SuffixDrafter
from spectui.speculation.drafters.text import DraftedText
from spectui.speculation.evaluator import Cancelled, Ends
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.draft import Acceptance, Draft, RoundTimes, expected_value
from spectui.speculation.records import Candidate, Reason, Round

MAY_LOSE, _REFILL = 10.0, 0.02
"""Plain passes that drafts may lose at first, and after any stretch without a gain; the share of a plain pass that each emitted
token adds to that."""

_ACCIDENT, _LATELY = 0.25, 0.05
"""Plain passes that a round may take more or less than planned: what is beyond is another program's; EWMA weight of a round in
the going rate."""

_FEW, _PASS, _USUAL, _REPLY, _REPLY_WEIGHT, _LONGEST = 64, 16, 0.85, 256.0, 0.3, 10
"""For whether the draft model reads a text: fewer tokens than these are always read; the size of a pass that tells its pace
where no prompt was read; the target's confidence in a usual text; tokens expected of the first reply, and the EWMA weight of a
reply's length; no reply is expected to become more than so many times as long as it is."""

_FIRST = 1.3
"""Plain passes that a reply's first pass may take, so that its first token comes soon: 16 repeated tokens would double it."""

_NO_CHOICE = 0.9
"""Chance that the target agrees with a token of the text that a grammar leaves no choice about: it may cut that otherwise."""


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
        took = min(max(took, planned - _ACCIDENT), planned + _ACCIDENT)
        self.balance = min(MAY_LOSE, self.balance + (1.0 + _REFILL) * tokens - took)


class Drafted(NamedTuple):
    """A round's draft. The target judges its first `sent` tokens. `guessed`: see `Round`."""

    tokens: Sequence[Candidate]
    sent: int
    reason: Reason
    guessed: bool | None = None


class Strategy:
    """Lives as long as the pair is loaded, so later replies use what it has learned."""

    def __init__(self, model: DraftModel | None, costs: CostModel, past: SuffixAutomaton | None = None) -> None:
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
        self._is_end: Ends = lambda token: False
        self._read_s = 0.0  # seconds per token that the target reads; 0: unknown
        self._reply, self._written = _REPLY, 0  # tokens of a reply: expected, and written
        self._alone = 0.0  # the time that they took, in plain passes; infinite once the model has drafted
        self._cancelled: Cancelled = lambda: False

    def begin_conversation(self) -> None:
        """The next reply is the first one of another conversation."""
        self.budget = LossBudget()

    def prepare(self, tokens: Sequence[int], read: int, seconds: float, cancelled: Cancelled, is_end: Ends) -> None:
        """A reply to this prompt begins. The target has read `read` tokens of it in `seconds`."""
        self._model, self._is_end, self._cancelled = self.model, is_end, cancelled
        if self.model is not None:
            self.model.drop()
        if self._written:
            self._reply += _REPLY_WEIGHT * (self._written - self._reply)
        self._written, self._alone = 0, 0.0
        if self.costs.known and (read >= _FEW or not self._read_s):
            if read < _FEW:  # it was kept from another time: reading is no slower than a pass over a draft
                read, seconds = _PASS, self.costs.verify(_PASS)
            self._read_s = seconds / read
        self.suffix.prepare(tokens, cancelled)

    def draft(self, text: Sequence[int], knobs: Knobs, limit: int) -> Drafted:
        """At most `limit` tokens after this text. Raises what the draft model raises."""
        guessed = self._model.take(text, knobs) if self._model is not None else None
        model, absent = self._readable(knobs, text)
        self._reads = model is not None and limit > 0
        if refusal := self._refusal(knobs, limit):
            return Drafted((), 0, refusal, guessed)
        costs = self.costs if self.costs.known else CostModel({1: 1.0})
        times = RoundTimes.of(costs, len(text), limit)
        if knobs.policy == "auto" and not self._written:
            times = times.within(_FIRST)
        if knobs.policy == "auto" and len((times := times.losing(self.budget.balance)).passes) == 1:
            return Drafted((), 0, Reason("budget"), guessed)
        if model is not None and model.lag(text) >= _FEW:
            model.catch_up(text, self._cancelled)
        draft = Draft(times, self.budget.rate, costs.verify(1, len(text)))
        sent, reason = self._decided(draft, knobs, self._grow(draft, text, knobs, model))
        return Drafted(draft.tokens, sent, reason if sent or absent is None else absent, guessed)

    def _refusal(self, knobs: Knobs, limit: int) -> Reason | None:
        if knobs.drafter == "off":
            return Reason("drafter off")
        if limit < max(1, knobs.draft_min if knobs.policy == "fixed" else 1):
            return Reason("strict" if self.longest == 0 else "no room", limit=limit)
        measured = knobs.policy == "fixed" or (self.costs.known and (knobs.policy == "expected" or self.costs.trusted > 1))
        return None if measured else Reason("measuring")

    def _grow(self, draft: Draft, text: Sequence[int], knobs: Knobs, model: DraftModel | None) -> Reason:
        """Add tokens, each of the source that is expected to yield more. Returns why there is none after them."""
        history, acceptance, auto = DraftedText(text), self.acceptance, knobs.policy == "auto"
        cursor = self.suffix.cursor(text) if knobs.drafter in ("auto", "suffix") else None
        stream: Iterator[Candidate] | None = None  # the model's tokens after `history`
        grammar = self.grammar.clone() if self.grammar is not None else None
        if model is not None:
            model.grammar = grammar
        match = -1  # of the last repetition: only where it has grown may the next one be worth more
        while (left := draft.limit - len(draft.tokens)) > 0:
            copied: list[Candidate] = []
            if cursor is not None:
                repeated = cursor.candidates() if cursor.match > match else iter(())
                copied = list(islice(to_the_end(_obeying(grammar, repeated), self._is_end), left))
            match = cursor.match if cursor is not None else 0
            worthy, value = draft.with_copy(map(acceptance.expected, copied))
            asks = model is not None and self._asks(draft, model, knobs, worthy, value)
            if model is None and not (auto and (worthy or draft.tokens)):
                worthy = len(copied[:1] if auto else copied)  # one token to learn from
            stream = (stream or model.propose(history, knobs)) if asks and model is not None else None
            taken = list(islice(stream, 1)) if stream is not None else copied[:worthy]
            if not taken and model is None:
                return Reason("no match", limit=draft.limit)
            if not taken and model is not None:
                unlikely = Reason("unlikely", 0, draft.limit, None, acceptance.undrafted(), draft.rate, *draft.times)
                return _draft_full(model) if asks else unlikely
            for candidate in taken:
                if knobs.policy == "fixed" and candidate.p < knobs.p_min:
                    return Reason("p-min", limit=draft.limit, confidence=candidate.p)
                if grammar is not None and not grammar.accept(candidate.id):
                    return Reason("no match", limit=draft.limit)
                draft.add(candidate, acceptance.expected(candidate))
                if self._is_end(candidate.id):
                    return Reason("no match")
                history.append(candidate.id)
                if cursor is not None:
                    cursor.advance(candidate.id)
        return Reason("no room")

    def _asks(self, draft: Draft, model: DraftModel, knobs: Knobs, worthy: int, value: float) -> bool:
        """Is the model to draft the next token, where so many repetitions are worth it and reach this value?"""
        if not worthy and model.ready:
            return True
        asks = (knobs.policy != "auto" and not worthy) or draft.with_model(self.acceptance.undrafted()) > value
        return asks and (knobs.policy != "expected" or expected_value(draft)[2])

    def _decided(self, draft: Draft, knobs: Knobs, ended: Reason) -> tuple[int, Reason]:
        """How many tokens of the draft are sent, and why. `ended`: see `_grow`."""
        length, limit = len(draft.tokens), draft.limit
        if not length:
            return 0, ended
        if knobs.policy == "expected":
            best, value, _ = expected_value(draft)
            length = min(best + 1, length)
            return length, Reason("expected", length, limit, value)
        if knobs.policy == "fixed":
            if length < knobs.draft_min:
                return 0, Reason("draft-min", limit=knobs.draft_min, drafted=length)
            return length, Reason("draft", length, limit, confidence=ended.confidence)
        if sent := draft.best(knobs.draft_min):
            return sent, Reason("draft", sent, limit, draft.gain(sent))
        return 0, Reason("uncertain", expected_acceptance=self.acceptance.expected(draft.tokens[0]))

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
        model, costs = self._model, self.costs
        if model is None or not _asked_for(model, knobs):
            return None, None
        if model.full(text):
            return None, _draft_full(model)
        lag, written = model.lag(text), self._written
        if knobs.policy != "auto" or lag < _FEW or not self._read_s:
            return model, None
        # The draft is taken to read as many times faster than the target as it writes, and to read a token no slower than to
        # write it: if it seems to, the machine was busy with something else. The rounds have corrected these costs.
        takes = lag * min(self._read_s / costs.verify(1), 1.0) * costs.drafting(1)
        # A reply that is longer than the last ones is expected to go on for as long again. Its first token waits for nothing.
        follows = min(max(self._reply, written), _LONGEST * written)
        if knobs.predict >= 0:
            follows = min(follows, knobs.predict - written)
        rate = max(1.0, written / self._alone) if written else 1.0
        speed_up = self._speed_up(text, knobs)
        saves = follows * costs.verify(1, len(text)) * (1 / rate - 1 / max(rate, speed_up))
        return (model, None) if takes < saves else (None, Reason("unread", seconds=takes))

    def _speed_up(self, text: Sequence[int], knobs: Knobs) -> float:
        """Tokens per plain pass that the draft model is expected to give after this text."""
        longest = knobs.draft_max if self.longest is None else min(knobs.draft_max, self.longest)
        return RoundTimes.of(self.costs, len(text), longest).best(self.acceptance.undrafted(_USUAL))

    def catch_up(self, text: Sequence[int], knobs: Knobs, cancelled: Cancelled) -> None:
        """Nobody waits: let the draft model read the text, if it is asked for and may pay. Raises what it raises."""
        model = self.model
        if model is None or not _asked_for(model, knobs) or model.full(text) or model.lag(text) < _FEW:
            return
        if self.costs.known and self._speed_up(text, knobs) > 1.0:
            model.catch_up(text, cancelled)

    def drop_model(self) -> None:
        """The draft model failed: go on without it, and try it again in the next reply, from an empty context."""
        if self._model is not None:
            self._model.model.truncate(0)
        self._model = None

    def learn(self, round: Round, drafted: Sequence[Candidate], confidences: Sequence[float]) -> None:
        """Learn from a finished round, whatever its policy. `confidences`: see `Acceptance.observe`."""
        costs = self.costs = self.costs.learned(round.pass_size, round.verify_s, round.position, drafted)
        self.acceptance.observe(drafted, [token.id for token in round.tokens], confidences)
        verify_s, plain_s = costs.verify(round.pass_size, round.position), costs.verify(1, round.position)
        planned = (verify_s + costs.drafting(sum(candidate.paid for candidate in drafted))) / plain_s
        self._written += len(round.tokens)
        self._alone += inf if any(candidate.modelled for candidate in drafted) else planned
        if round.knobs.policy != "auto":  # a person who fixes the length accepts its losses
            return
        # What a plain pass takes more than usual is no loss of the drafts'.
        took_s = round.draft_s + (verify_s if round.tokens[0].origin == "plain" else round.verify_s)
        self.budget.count(len(round.tokens), planned, took_s / plain_s)


def _obeying(grammar: Grammar | None, repeated: Iterator[Candidate]) -> Iterator[Candidate]:
    """What the grammar leaves no choice about, else what is repeated, up to the first token that it refuses."""
    if grammar is None:
        return repeated
    clone, way = grammar.clone(), [Candidate(token, _NO_CHOICE, "grammar") for token in grammar.only_way()]
    return takewhile(lambda candidate: clone.accept(candidate.id), way or repeated)


def _asked_for(model: DraftModel, knobs: Knobs) -> bool:
    return knobs.drafter in ("auto", "model") or (knobs.drafter == "mtp" and model.source != "model")


def _draft_full(model: DraftModel) -> Reason:
    return Reason("draft full", limit=model.model.n_ctx)
