"""A machine made of numbers: rounds with known costs and chances, for policies to be judged on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from spectui.knobs import Knobs
from spectui.speculation.policies.automatic import AutoPolicy
from spectui.speculation.policies.cost_model import CostModel, VerifyCost
from spectui.speculation.policies.fixed import Policy
from spectui.speculation.records import Candidate, Outcome, Round

_CONTEXT = 10


@dataclass
class Machine:
    """`verify(n)` and `draft` in seconds; `chance(p, t)` is the truth behind a confidence at token t of the reply."""

    verify: Callable[[int], float]
    draft: float
    chance: Callable[[float, int], float]
    confidence: tuple[float, float] = (4.0, 1.0)
    """Shape of the beta distribution that confidences are drawn from."""
    drift: Callable[[int], float] = lambda token: 1.0
    """How much slower everything is at token t: another process, a hot processor."""

    def run(
        self, auto: AutoPolicy, knobs: Knobs, tokens: int = 3000, seed: int = 0, policy: Policy | None = None
    ) -> float:
        """Seconds for a reply of this many tokens."""
        rounds = [*self.rounds(auto, knobs, tokens, seed, policy)]
        return sum(round.seconds for round in rounds) * tokens / sum(len(round.tokens) for round in rounds)

    def rounds(
        self, auto: AutoPolicy, knobs: Knobs, tokens: int, seed: int = 0, policy: Policy | None = None
    ) -> Iterator[Round]:
        """A reply of at least this many tokens under `policy` (`auto` itself by default), which `auto` learns from."""
        numbers, costs = np.random.default_rng(seed), auto.costs
        policy = policy or auto
        auto.budget.begin_reply()
        emitted, index = 0, 0
        while emitted < tokens:
            value = auto.value(_CONTEXT, knobs.draft_max)
            wanted = policy.begin(knobs, _CONTEXT, knobs.draft_max, value)
            drafted: list[Candidate] = []
            drift = self.drift(emitted)
            while wanted and policy.wants_more(drafted, "model"):
                candidate = Candidate(1, float(numbers.beta(*self.confidence)), "model", seconds=drift * self.draft)
                if not policy.takes(candidate):
                    break
                drafted.append(candidate)
            sent = policy.keep(drafted) if wanted else 0
            agreed = [numbers.random() < self.chance(candidate.p, emitted) for candidate in drafted]
            accepted = (*agreed[:sent], False).index(False)
            chosen = [1] * accepted + [2 - int(accepted < len(drafted) and agreed[accepted])]
            rows = sent + 1
            draft_s, verify_s = drift * len(drafted) * self.draft, drift * self.verify(rows)
            certain = [1.0] * len(chosen)
            outcome = Outcome(
                index, _CONTEXT, knobs, drafted, sent, chosen, certain, certain,
                draft_s=draft_s, verify_s=verify_s, choose_s=0.0, seconds=draft_s + verify_s, pass_size=rows,
                reason=policy.reason(),
            )  # fmt: skip
            costs.observe(outcome)
            auto.learn(outcome)
            yield Round.of(outcome, [""] * len(chosen), str)
            emitted += len(chosen)
            index += 1

    def auto(self, sizes: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)) -> AutoPolicy:
        """With what was measured at load."""
        return AutoPolicy(CostModel(VerifyCost({n: self.verify(n) for n in sizes})))
