"""Who drafts and how long, for each round anew: the drafters and policies of one pair of models."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import Drafter, DraftModel
from spectui.speculation.drafters.suffix import SuffixAutomaton, SuffixDrafter
from spectui.speculation.evaluator import Cancelled
from spectui.speculation.policies.automatic import AutoDrafter, AutoPolicy
from spectui.speculation.policies.draft_prefill import Joining
from spectui.speculation.policies.economics import Economics
from spectui.speculation.policies.experience import Experience
from spectui.speculation.policies.fixed import FixedPolicy, Policy, ProfilePolicy
from spectui.speculation.records import Candidate, Round


class Strategy:
    """Lives as long as the pair is loaded: what it learns serves the next reply."""

    def __init__(
        self,
        model: DraftModel | None,
        economics: Economics,
        past: SuffixAutomaton | None = None,
        experience: Experience | None = None,
    ) -> None:
        """`past`: replies of other conversations, for the suffix drafter. `experience`: what other processes have learned."""
        self.economics = economics
        self.longest: int | None = None
        """Most tokens that may be drafted whatever the knobs say; None for no bound."""
        self._model = self._given_model = model
        self._joining = Joining(economics)
        if experience is not None:
            experience.restore(economics, self._joining)
        self._suffix = SuffixDrafter(past)
        self._policies: dict[str, Policy] = {
            "auto": AutoPolicy(economics),
            "fixed": FixedPolicy(),
            "profile": ProfilePolicy(economics),
        }

    @property
    def experience(self) -> Experience:
        """What is worth keeping for the next process."""
        return Experience.of(self.economics, self._joining)

    def prepare(self, tokens: Sequence[int], knobs: Knobs, read: int, seconds: float, cancelled: Cancelled) -> None:
        """A reply to this prompt begins, of which the target has read so many tokens in so many seconds.

        Raises what the draft model raises.
        """
        self._model = self._given_model
        self.economics.ledger.begin()
        self.economics.calibration.begin()
        self._joining.begin(read, seconds)
        self._suffix.prepare(tokens, cancelled)
        model = self._joined(knobs, tokens)
        if model is not None:
            behind, began = model.behind(tokens), perf_counter()
            model.prepare(tokens, cancelled)
            self._joining.read(behind - model.behind(tokens), perf_counter() - began, len(tokens))

    def at(self, knobs: Knobs, tokens: Sequence[int]) -> tuple[Drafter | None, Policy]:
        """The drafter and the policy that these knobs ask for behind these tokens."""
        policy = self._policies[knobs.policy]
        if not self.economics.verify.known and knobs.policy != "fixed":
            policy = self._policies["auto"]  # it begins with a plain round, which the others' rules need too
        model = self._joined(knobs, tokens)
        if knobs.drafter == "auto":
            return AutoDrafter(self._suffix, model, self.economics), policy
        drafters: dict[str, Drafter | None] = {"model": model, "suffix": self._suffix}
        return drafters.get(knobs.drafter), policy

    def _joined(self, knobs: Knobs, tokens: Sequence[int]) -> DraftModel | None:
        """The draft model, where these knobs ask for it and reading what it has not read of the text pays."""
        self.economics.unread_s = self.economics.charged_s = 0.0
        model = self._model if knobs.drafter in ("auto", "model") else None
        if model is None or knobs.policy != "auto":
            return model
        return model if self._joining.pays(model.behind(tokens), len(tokens), knobs.predict) else None

    def drop_model(self) -> None:
        """The draft model failed: go on without it, and try it again in the next reply, from an empty memory."""
        if self._model is not None:
            self._model.model.truncate(0)
        self._model = None

    def learn(self, round: Round, drafted: Sequence[Candidate]) -> None:
        """What a finished round tells, whatever policy it ran under."""
        self.economics.observe(round, drafted)
        self._joining.wrote(len(round.tokens), round.pass_size, round.position)
