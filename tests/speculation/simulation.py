"""A machine made of numbers: rounds with known costs and chances, for policies to be judged on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spectui.knobs import Knobs
from spectui.speculation.policies.cost_model import VerifyCost
from spectui.speculation.policies.economics import Economics
from spectui.speculation.policies.fixed import Policy
from spectui.speculation.records import Candidate, DraftToken, Round, Token


@dataclass
class Machine:
    """`verify(n)` and `draft` in seconds; `chance(p, t)` is the truth behind a confidence at token t of the reply."""

    verify: Callable[[int], float]
    draft: float
    chance: Callable[[float, int], float]
    confidence: tuple[float, float] = (4.0, 1.0)
    """Shape of the beta distribution that confidences are drawn from."""
    mood: Callable[[int], float] = lambda token: 1.0
    """How much slower everything is at token t: another process, a hot processor."""

    def run(self, policy: Policy, economics: Economics, knobs: Knobs, tokens: int = 3000, seed: int = 0) -> float:
        """Seconds for a reply of this many tokens."""
        numbers = np.random.default_rng(seed)
        emitted, clock, index = 0, 0.0, 0
        while emitted < tokens:
            wanted = policy.begin(knobs, 10, knobs.draft_max)
            drafted: list[Candidate] = []
            mood = self.mood(emitted)
            while wanted and policy.wants_more(drafted, "model"):
                candidate = Candidate(1, float(numbers.beta(*self.confidence)), "model", seconds=mood * self.draft)
                if not policy.takes(candidate):
                    break
                drafted.append(candidate)
            kept = drafted[: policy.keep(drafted)]
            agreed = [numbers.random() < self.chance(candidate.p, emitted) for candidate in drafted]
            accepted = (*agreed[: len(kept)], False).index(False)
            chosen = [1] * accepted + [int(accepted < len(drafted) and agreed[accepted])]
            draft_s, verify_s = mood * len(drafted) * self.draft, mood * self.verify(len(kept) + 1)
            round = Round(
                index=index,
                position=10,
                knobs=knobs,
                drafted=tuple(
                    DraftToken(
                        1,
                        "",
                        each.p,
                        each.source,
                        "accepted" if n < accepted else "rejected" if n < len(kept) else "ignored",
                    )
                    for n, each in enumerate(drafted)
                ),
                tokens=tuple(Token(id, "", "plain", None, index, 0, None, 1.0) for id in chosen),
                draft_s=draft_s,
                verify_s=verify_s,
                choose_s=0.0,
                seconds=draft_s + verify_s,
                pass_size=len(kept) + 1,
            )
            economics.observe(round, drafted)
            emitted += accepted + 1
            clock += round.seconds
            index += 1
        return clock * tokens / emitted

    def economics(self, sizes: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)) -> Economics:
        """What the load-time profile would know."""
        return Economics(VerifyCost({n: self.verify(n) for n in sizes}))
