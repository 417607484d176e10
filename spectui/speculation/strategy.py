"""Chooses the drafter and the policy of each round, for one pair of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from spectui.knobs import Knobs
from spectui.speculation.drafters.ahead import AheadDrafter
from spectui.speculation.drafters.mixed import MixedDrafter
from spectui.speculation.drafters.model import Drafter, DraftModel
from spectui.speculation.drafters.suffix import SuffixAutomaton, SuffixDrafter
from spectui.speculation.drafters.text import DraftedText
from spectui.speculation.evaluator import Cancelled, Ends
from spectui.speculation.policies.automatic import AutoPolicy
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.draft_prefill import DraftPrefill
from spectui.speculation.policies.fixed import FixedPolicy, Policy, ProfilePolicy
from spectui.speculation.policies.value import DraftValue
from spectui.speculation.records import Outcome, Reason

_OTHER_CAUSES = ("no match", "uncertain", "unlikely", "p-min")
"""What a policy says of a round without a draft, which is not the cause if the draft model's context is full."""


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
        self._clock = clock
        self.longest: int | None = None
        """Most tokens that may be drafted whatever the knobs say (--strict); None for no bound."""
        self.auto = AutoPolicy(costs)
        self.prefill = DraftPrefill(costs, self.auto.acceptance)
        self.model = model
        """The draft model; None without one."""
        self._model = model  # None too after it failed in this reply
        self.suffix = SuffixDrafter(past)
        """Proposes repetitions."""
        self._is_end: Ends = lambda token: False
        self._drafts = False  # in this round
        self._full = False  # the draft model's own context, in this round
        self.guessed: bool | None = None
        """`Round.guessed` of the round that began last."""
        self._policies: dict[str, Policy] = {"auto": self.auto, "fixed": FixedPolicy(), "profile": ProfilePolicy(costs)}

    def begin_conversation(self) -> None:
        """The next reply is the first one of another conversation."""
        self.auto.budget.begin_conversation()

    def prepare(
        self, tokens: Sequence[int], knobs: Knobs, read: int, seconds: float, cancelled: Cancelled, is_end: Ends
    ) -> None:
        """A reply to this prompt begins. The target has read `read` tokens of it in `seconds`.

        Raises what the draft model raises.
        """
        self._model, self._is_end = self.model, is_end
        if isinstance(self.model, AheadDrafter):
            self.model.drop()
        self.auto.budget.begin_reply()
        self.prefill.begin_reply(read, seconds)
        self.suffix.prepare(tokens, cancelled)
        model = self._reading_model(knobs, tokens)
        if model is not None:
            lag, began = model.lag(tokens), self._clock()
            model.prepare(tokens, cancelled)
            self.prefill.observe_reading(lag - model.lag(tokens), self._clock() - began)

    def at(self, knobs: Knobs, tokens: Sequence[int], limit: int) -> tuple[Drafter | None, Policy, DraftValue]:
        """The drafter and the policy that these knobs ask for, and the value of drafts of at most `limit` tokens here."""
        policy = self._policies[knobs.policy]
        if not self.costs.verify.known and knobs.policy != "fixed":
            policy = self.auto  # it begins with a plain round, which the others' rules need too
        self.guessed = self._model.take(tokens, knobs) if isinstance(self._model, AheadDrafter) else None
        model = self._reading_model(knobs, tokens)
        self._drafts = model is not None and limit > 0
        value = self.auto.value(len(tokens), limit)
        if knobs.drafter == "auto":
            return MixedDrafter(self.suffix, model, value, self._is_end), policy, value
        drafters: dict[str, Drafter | None] = {"model": model, "suffix": self.suffix}
        return drafters.get(knobs.drafter), policy, value

    def go_on(self, tokens: Sequence[int], sent: Sequence[int], knobs: Knobs) -> None:
        """The target begins to compute what was sent behind these tokens: let the draft model draft ahead, if it can."""
        if self._drafts and isinstance(self._model, AheadDrafter):
            self._model.go_on(DraftedText(tokens, sent), knobs, knobs.draft_max + 1, self._is_end)

    def end_reply(self) -> None:
        """Return when nothing is drafted ahead any more: the draft's context is free, to be measured or closed."""
        if isinstance(self.model, AheadDrafter):
            self.model.settle()

    def no_drafter(self, knobs: Knobs, limit: int) -> Reason:
        """Why there is no drafter in this round, which has room for `limit` drafted tokens."""
        if knobs.drafter == "off":
            return Reason("drafter off")
        if self.model is None or (limit and self.prefill.unread_s is None and not self._full):
            return Reason("no match")
        if not limit:
            return Reason("strict" if self.longest == 0 else "no room")
        return self._draft_full() if self._full else Reason("unread", seconds=self.prefill.unread_s)

    def reason(self, knobs: Knobs, policy: Policy) -> Reason:
        """Why the policy did what it did in this round."""
        reason = policy.reason()
        if self.longest == 0 and reason.kind == "no room":
            return Reason("strict")
        if knobs.drafter == "suffix":
            return reason
        if reason.kind in _OTHER_CAUSES and self._full:
            return self._draft_full()
        if reason.kind in ("no match", "uncertain") and self.prefill.unread_s is not None:
            return Reason("unread", seconds=self.prefill.unread_s)
        if reason.kind == "no match" and self._model is not None:
            return self._draft_full()  # the model was asked, and this round fills its context
        return reason

    def _draft_full(self) -> Reason:
        return Reason("draft full", limit=self.model.model.n_ctx if self.model is not None else 0)

    def _reading_model(self, knobs: Knobs, tokens: Sequence[int]) -> DraftModel | None:
        """The draft model, if these knobs ask for it and reading its unread text is worth the time."""
        model = self._model if knobs.drafter in ("auto", "model") else None
        self._full = model is not None and model.full(tokens)
        if self._full:
            self.prefill.unread_s = None
            return None
        if model is None or knobs.policy != "auto":
            return model
        return model if self.prefill.pays(model.lag(tokens), len(tokens), knobs.predict) else None

    def drop_model(self) -> None:
        """The draft model failed: go on without it, and try it again in the next reply, from an empty context."""
        if self._model is not None:
            self._model.model.truncate(0)
        self._model = None

    def learn(self, outcome: Outcome) -> None:
        """Learn from a finished round, whatever its policy."""
        self.costs.observe(outcome)
        self.auto.learn(outcome)
        self.prefill.observe_round(len(outcome.tokens), outcome.pass_size, outcome.position)
