"""Who drafts and how long, for each round anew: the drafters and policies of one pair of models."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.knobs import Knobs
from spectui.speculation.auto import AutoDrafter, AutoPolicy
from spectui.speculation.drafters import Drafter, DraftModel
from spectui.speculation.economics import Economics
from spectui.speculation.model import Cancelled
from spectui.speculation.policy import FixedPolicy, Policy, ProfilePolicy
from spectui.speculation.records import Candidate, Round
from spectui.speculation.suffix import SuffixAutomaton, SuffixDrafter


class Strategy:
    """Lives as long as the pair is loaded: what it learns serves the next reply."""

    def __init__(self, model: DraftModel | None, economics: Economics, past: SuffixAutomaton | None = None) -> None:
        """`past`: replies of other conversations, for the suffix drafter."""
        self.economics = economics
        self.longest: int | None = None
        """Most tokens that may be drafted whatever the knobs say; None for no bound."""
        self._model = self._given_model = model
        self._suffix = SuffixDrafter(past)
        self._policies: dict[str, Policy] = {
            "auto": AutoPolicy(economics),
            "fixed": FixedPolicy(),
            "profile": ProfilePolicy(economics),
        }

    def prepare(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        """A reply to this prompt begins. Raises what the draft model raises."""
        self._model = self._given_model
        self._suffix.prepare(tokens, cancelled)
        if self._model is not None:
            self._model.prepare(tokens, cancelled)

    def at(self, knobs: Knobs) -> tuple[Drafter | None, Policy]:
        """The drafter and the policy that these knobs ask for."""
        policy = self._policies[knobs.policy]
        if not self.economics.verify.known and knobs.policy != "fixed":
            policy = self._policies["auto"]  # it begins with a plain round, which the others' rules need too
        if knobs.drafter == "auto":
            return AutoDrafter(self._suffix, self._model, self.economics), policy
        drafters: dict[str, Drafter | None] = {"model": self._model, "suffix": self._suffix}
        return drafters.get(knobs.drafter), policy

    def drop_model(self) -> None:
        """The draft model failed: go on without it, and try it again in the next reply, from an empty memory."""
        if self._model is not None:
            self._model.model.truncate(0)
        self._model = None

    def learn(self, round: Round, drafted: Sequence[Candidate]) -> None:
        """What a finished round tells, whatever policy it ran under."""
        self.economics.observe(round, drafted)
