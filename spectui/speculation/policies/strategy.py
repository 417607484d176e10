"""Drafts the rounds of one pair of models: what each source proposes, as far as the rule says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import NamedTuple

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import DraftModel, to_the_end
from spectui.speculation.drafters.suffix import SuffixAutomaton, SuffixDrafter
from spectui.speculation.drafters.text import DraftedText
from spectui.speculation.evaluator import Cancelled, Ends
from spectui.speculation.policies.acceptance import Acceptance
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.plan import Draft, Rounds
from spectui.speculation.policies.rules import RULES
from spectui.speculation.records import Candidate, Outcome, Reason

MAY_LOSE = 10.0
"""Plain passes that drafts may lose at first, and after any stretch without a gain."""

_REFILL = 0.02
"""Of each token's plain pass that they may lose besides."""

_ACCIDENT = 0.25
"""Plain passes that a round may take longer than planned: what is beyond is another program's."""

_LATELY = 0.05
"""EWMA weight of a round in the going rate and in Python's time."""

_REPLY, _REPLY_WEIGHT = 256.0, 0.3
"""Tokens expected of the first reply, and the EWMA weight of a reply's length."""

_FEW = 32
"""Fewer tokens than these are always read by the draft model."""

_USUAL = 0.85
"""The target's confidence in a usual text."""

_OTHER_CAUSES = ("no match", "uncertain", "p-min")
"""What a rule says where the cause may be that the draft model does not draft."""

_UNKNOWN = CostModel({1: 1.0})


@dataclass
class Conversation:
    """What lives as long as a conversation. A round's time is in plain passes."""

    balance: float = MAY_LOSE
    """What drafts may still lose."""
    tokens: float = 1.0
    passes: float = 1.0
    """EWMAs over rounds: their tokens and time."""

    @property
    def rate(self) -> float:
        """The tokens per plain pass that were reached lately; at least 1, which is plain decoding's."""
        return max(1.0, self.tokens / self.passes)

    def took(self, tokens: int, planned: float, passes: float) -> None:
        """A round gave so many tokens. It was planned to take `planned`, and took `passes`."""
        self.tokens += _LATELY * (tokens - self.tokens)
        self.passes += _LATELY * (planned - self.passes)
        self.balance = min(MAY_LOSE, self.balance + (1.0 + _REFILL) * tokens - passes)

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
        self,
        model: DraftModel | None,
        costs: CostModel,
        past: SuffixAutomaton | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """`past`: replies of other conversations, for the suffix drafter."""
        self.costs = costs
        self.acceptance = Acceptance()
        self.conversation = Conversation()
        self.longest: int | None = None
        """Most tokens that may be drafted whatever the knobs say (--strict); None for no bound."""
        self.model = model
        """The draft model; None without one."""
        self.suffix = SuffixDrafter(past)
        """Proposes repetitions."""
        self._model = model  # None too after it failed in this reply
        self._reads = False  # it drafts in this round
        self._clock = clock
        self._is_end: Ends = lambda token: False
        self._pace = 0.0  # seconds per token that the draft model reads; 0: unknown
        self._reply, self._written = _REPLY, 0
        self._python_s = 0.0  # of a plain round

    def begin_conversation(self) -> None:
        """The next reply is the first one of another conversation."""
        self.conversation = Conversation()

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
                self.conversation.read((self._clock() - began) / self.costs.verify(1, len(tokens)))

    def draft(self, text: Sequence[int], knobs: Knobs, limit: int) -> Drafted:
        """At most `limit` tokens behind this text. Raises what the draft model raises."""
        guessed = self._model.take(text, knobs) if self._model is not None else None
        model, absent = self._readable(knobs, text)
        self._reads = model is not None and limit > 0
        if refusal := self._refusal(knobs, limit):
            return Drafted((), 0, refusal, guessed)
        costs, now = self.costs if self.costs.known else _UNKNOWN, self.conversation
        plain_s = costs.verify(1, len(text))
        draft = Draft(Rounds.of(costs, len(text), limit), self.acceptance, now.rate, now.balance, plain_s)
        asked = self._grow(draft, text, knobs, model)
        sent, reason = RULES[knobs.policy].sends(draft, knobs, asked)
        if reason.kind in _OTHER_CAUSES and absent is not None:
            reason = absent
        elif reason.kind == "no match" and model is not None:
            reason = _draft_full(model)  # it was asked, and this round fills its context
        return Drafted(draft.tokens, sent, reason, guessed)

    def _refusal(self, knobs: Knobs, limit: int) -> Reason | None:
        if knobs.drafter == "off":
            return Reason("drafter off")
        if not self.costs.known and knobs.policy != "fixed":
            return Reason("measuring")
        if limit < max(1, knobs.draft_min if knobs.policy == "fixed" else 1):
            return Reason("strict" if self.longest == 0 else "no room", limit=limit)
        return Reason("budget") if knobs.policy == "auto" and self.conversation.balance <= 0 else None

    def _grow(self, draft: Draft, text: Sequence[int], knobs: Knobs, model: DraftModel | None) -> bool:
        """Add tokens, each of the source that is expected to yield more. Returns whether nothing was left to ask."""
        goes_on, history = RULES[knobs.policy].goes_on, DraftedText(text)
        cursor = self.suffix.cursor(text) if knobs.drafter in ("auto", "suffix") else None
        repeated: list[Candidate] = []
        modelled: Iterator[Candidate] | None = None
        look, whole = True, False
        while len(draft.tokens) < draft.limit:
            if cursor is not None and look:
                repeated = list(islice(to_the_end(cursor.candidates(), self._is_end), draft.limit - len(draft.tokens)))
                worthy = len(repeated)
                if model is not None or knobs.policy == "auto":
                    worthy = draft.worthy(repeated, model is not None)
                repeated, whole = repeated[:worthy], worthy == len(repeated)
            if not repeated and model is None:
                return True
            if not goes_on(draft, not repeated and model is not None and not model.ready):
                return False
            candidate: Candidate | None
            if repeated:
                candidate, modelled = repeated.pop(0), None
            elif model is not None:
                modelled = modelled or model.propose(history, knobs)
                candidate = next(modelled, None)
            if candidate is None:
                return True
            if knobs.policy == "fixed" and candidate.p < knobs.p_min:
                draft.refused = candidate.p
                return True
            draft.add(candidate)
            if self._is_end(candidate.id):
                return True
            history.append(candidate.id)
            if cursor is not None:
                match = cursor.match
                cursor.advance(candidate.id)
                # Nothing has changed for a repetition that was not worth it, unless the model has gone on as it does.
                look = not repeated and (whole if modelled is None else cursor.match > match)
        return True

    def go_on(self, tokens: Sequence[int], sent: Sequence[int], knobs: Knobs) -> None:
        """The target begins to compute what was sent behind these tokens: let the draft model draft ahead, if it can."""
        if self._reads and self._model is not None:
            self._model.go_on(tokens, sent, knobs, self._is_end)

    def end_reply(self) -> None:
        """Return when nothing is drafted ahead any more: the draft's context is free, to be measured or closed."""
        if self.model is not None:
            self.model.settle()

    def _readable(self, knobs: Knobs, text: Sequence[int]) -> tuple[DraftModel | None, Reason | None]:
        """The draft model, if these knobs ask for it and reading its unread text pays; why it does not draft."""
        model = self._model
        if (
            model is not None
            and knobs.drafter not in ("auto", "model")
            and (knobs.drafter != "mtp" or model.source == "model")
        ):
            model = None
        if model is None:
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
        speed_up = Rounds.of(costs, len(text), knobs.draft_max).best(self.acceptance.undrafted(_USUAL))
        saves = follows * costs.verify(1, len(text)) * (1 - 1 / max(1.0, speed_up))
        return (model, None) if lag * self._pace <= saves else (None, Reason("unread", seconds=lag * self._pace))

    def drop_model(self) -> None:
        """The draft model failed: go on without it, and try it again in the next reply, from an empty context."""
        if self._model is not None:
            self._model.model.truncate(0)
        self._model = None

    def learn(self, outcome: Outcome) -> None:
        """Learn from a finished round, whatever its policy."""
        costs = self.costs = self.costs.learned(outcome)
        self.acceptance.observe(outcome.drafted, outcome.tokens, outcome.sure)
        tokens, plain_s = len(outcome.tokens), costs.verify(1, outcome.position)
        self._written += tokens
        drafting_s = costs.drafting(sum(candidate.paid for candidate in outcome.drafted))
        planned = (costs.verify(outcome.pass_size, outcome.position) + drafting_s) / plain_s
        python_s = outcome.seconds - outcome.draft_s - outcome.verify_s
        if not outcome.sent:
            self._python_s += _LATELY * (min(python_s, plain_s) - self._python_s)
        # What its pass really took is in the costs by now. A person who fixes the length accepts its losses.
        extra_s = outcome.draft_s - drafting_s + (python_s - tokens * self._python_s if outcome.sent else 0.0)
        took = planned + min(extra_s / plain_s, _ACCIDENT) if outcome.knobs.policy == "auto" else tokens
        self.conversation.took(tokens, planned, took)


def _draft_full(model: DraftModel) -> Reason:
    return Reason("draft full", limit=model.model.n_ctx)
