"""A machine made of numbers: rounds with known costs and chances, for policies to be judged on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import DraftModel
from spectui.speculation.evaluator import Cancelled
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import Candidate, Reason, Round
from tests.toys import never

TEXT = tuple(range(10))


@dataclass
class Dice(DraftModel):
    """A draft model that draws its confidences."""

    confidence: Callable[[], float] = lambda: 0.9
    seconds: float = 0.0
    asked: int = field(default=0, init=False)

    def lag(self, tokens: Sequence[int]) -> int:
        return 1

    def full(self, tokens: Sequence[int]) -> bool:
        return False

    def prepare(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        pass

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        while True:
            self.asked += 1
            yield Candidate(1, self.confidence(), "model", seconds=self.seconds)


def sure_pair(passes: dict[int, float], draft_s: float, confidence: float, target: float | None = None) -> Strategy:
    """A draft model that is so sure of its tokens, behind a text in which the target was as sure, or `target`, of its own."""
    strategy = Strategy(Dice(lambda: confidence, draft_s), CostModel(passes, first=draft_s, next=draft_s))
    strategy.prepare(TEXT, 0, 0.0, lambda: False, never)
    strategy.acceptance.observe((), (), [confidence if target is None else target] * 60)
    strategy._written = 1  # behind the first token
    return strategy


def timed_round(
    knobs: Knobs, drafted: Sequence[Candidate], sent: int, tokens: Sequence[int], draft_s: float, verify_s: float,
    index: int = 0, reason: Reason | None = None,
) -> Round:  # fmt: skip
    """A round in which the target chose these tokens."""
    chosen = [(token, 1.0) for token in tokens]
    return Round.of(
        index, len(TEXT), knobs, drafted, sent, chosen, draft_s=draft_s, verify_s=verify_s, choose_s=0.0,
        seconds=draft_s + verify_s, pass_size=sent + 1, reason=reason,
    )  # fmt: skip


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

    def strategy(self, sizes: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48), drafts: bool = False) -> Strategy:
        """With what was measured at load. `drafts`: what drafting costs, too."""
        each = self.draft if drafts else 0.0
        return Strategy(None, CostModel({n: self.verify(n) for n in sizes}, first=each, next=each))

    def run(self, strategy: Strategy, knobs: Knobs, tokens: int = 3000, seed: int = 0) -> float:
        """Seconds for a reply of this many tokens."""
        rounds = [*self.rounds(strategy, knobs, tokens, seed)]
        return sum(round.seconds for round in rounds) * tokens / sum(len(round.tokens) for round in rounds)

    def rounds(self, strategy: Strategy, knobs: Knobs, tokens: int, seed: int = 0) -> Iterator[Round]:
        """A reply of at least this many tokens, which the strategy learns from."""
        numbers = np.random.default_rng(seed)
        knobs = replace(knobs, drafter="model")
        dice = strategy.model = Dice(lambda: float(numbers.beta(*self.confidence)))
        strategy.prepare(TEXT, 0, 0.0, lambda: False, never)
        emitted, index = 0, 0
        while emitted < tokens:
            drift = self.drift(emitted)
            dice.seconds = drift * self.draft
            drafted, sent, reason, _ = strategy.draft(TEXT, knobs, knobs.draft_max)
            agreed = [numbers.random() < self.chance(candidate.p, emitted) for candidate in drafted]
            accepted = (*agreed[:sent], False).index(False)
            chosen = [1] * accepted + [2 - int(accepted < len(drafted) and agreed[accepted])]
            draft_s, verify_s = drift * len(drafted) * self.draft, drift * self.verify(sent + 1)
            round = timed_round(knobs, drafted, sent, chosen, draft_s, verify_s, index, reason)
            strategy.learn(round, drafted, [1.0] * len(chosen))
            yield round
            emitted += len(chosen)
            index += 1
