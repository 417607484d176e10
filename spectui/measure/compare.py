"""Which of several drafts is best for a target: a bench over drafts, and what is known of each draft beside its speed.

The target is loaded once, the drafts one after the other. With each of them every prompt is answered plainly and with the knobs
as they are, several times in turn, and once with a short draft of a fixed length: so each speed-up has its baseline beside it,
and acceptances do not depend on what the automatic length chose.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from spectui.engine.events import ModelInfo
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.measure.bench.prompt_files import Prompt
from spectui.measure.bench.results import Run
from spectui.measure.bench.runner import Cell, EngineModels, Plan
from spectui.measure.bench.settings import NO_DRAFT, Setting
from spectui.measure.divergence import POSITIONS, Divergence, divergence, drafter_of
from spectui.speculation.drafters.cross_vocabulary.drafters import IntersectionDrafter, RetokenisingDrafter
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.plan import Rounds
from spectui.speculation.statistics import Statistics, ratio, total

DRAFT_MAX = 4
"""Length of the drafts with which the acceptance is measured."""

ACCEPTANCE = "acceptance"
"""The stage of those replies."""

_LONGEST = 16
"""Draft lengths for which the expected speed-up is computed."""


@dataclass
class Draft:
    """What is known of one draft. `name`: its file, or `NO_DRAFT`. `problem`: why it cannot be used. `vocabulary`: same,
    mapped (over shared tokens) or by text. `costs`: as measured when it was loaded. `drafting`: of the replies with drafts of
    a fixed length."""

    name: str
    info: ModelInfo | None = None
    vocabulary: str | None = None
    problem: str | None = None
    divergence: Divergence | None = None
    costs: CostModel | None = None
    drafting: Statistics = field(default_factory=Statistics)

    @property
    def draft_s(self) -> float | None:
        """Seconds per drafted token."""
        return ratio(self.drafting.draft_s, self.drafting.drafted)

    @property
    def expected(self) -> float | None:
        """Estimate: the best speed-up of a fixed length, from the measured costs and the chance that a token is accepted; None
        if these are unknown."""
        chance = ratio(sum(self.drafting.kept), sum(self.drafting.reached))
        if chance is None or self.costs is None or not self.costs.known:
            return None
        rounds = Rounds.of(self.costs, 0, _LONGEST)
        return max(rounds.speed_up(chance, length) for length in range(len(rounds.drafting)))


@dataclass
class Comparison:
    """One comparison: its plan, and what is known of the drafts. `seconds`: most time, which the drafts share evenly."""

    drafts: list[Draft]
    knobs: Knobs
    prompts: Sequence[Prompt]
    repetitions: int
    seconds: float = float("inf")
    positions: int = POSITIONS
    target: ModelInfo | None = None
    complete: bool = True
    """False: the time was over before all replies."""
    made: int = 0

    @property
    def share(self) -> float:
        """How much of the work is done, 0..1."""
        return min(1.0, self.made / (len(self.drafts) * self.repetitions * 2 * len(self.prompts)))

    def plan(self, models: EngineModels) -> Plan:
        """Suffix lookup first, then the drafts as they were named. Raises SpectuiError if the target cannot be loaded."""
        until = perf_counter() + self.seconds
        for at, draft in enumerate(self.drafts):
            # The drafts after this one share the time that it leaves.
            deadline = perf_counter() + max(0.0, until - perf_counter()) / (len(self.drafts) - at)
            try:
                self._load(models, draft)
            except SpectuiError as error:
                from spectui.llama.model import LoadCancelled

                models.call(_empty)  # raises where the engine has ended
                if draft.name == NO_DRAFT or isinstance(error, LoadCancelled):
                    raise
                draft.problem = str(error)
            else:
                complete = yield from self._replies(models, draft, at * self.repetitions, deadline)
                self.complete &= complete
            self.made = (at + 1) * self.repetitions * 2 * len(self.prompts)

    def _load(self, models: EngineModels, draft: Draft) -> None:
        models.call(_empty)
        loaded = models.load(models.beside(draft.name))
        self.target, draft.costs = loaded.target, loaded.costs
        draft.info = loaded.draft if draft.name != NO_DRAFT else None  # heads of the target's own are not asked there
        if draft.info is not None:
            draft.vocabulary = models.call(_vocabulary)

    def _replies(self, models: EngineModels, draft: Draft, first: int, deadline: float) -> Generator[Cell, Run, bool]:
        """Whether the time sufficed. Each draft's repetitions have numbers of their own, from `first` on."""
        knobs, drafts = self.knobs, draft.info is not None
        heat, name = knobs.temperature, draft.name
        drafter = ("model" if knobs.drafter == "model" else "auto") if drafts else "suffix"
        own = Setting(drafter, knobs.policy, knobs.draft_max, knobs.draft_min, knobs.p_min, heat, draft=name)
        plain = Setting("off", "fixed", temperature=heat, baseline="target", draft=name)
        fixed = Setting("model", "fixed", DRAFT_MAX, temperature=heat, draft=name)
        for number in range(first, first + self.repetitions):
            for prompt in self.prompts:
                for setting in (plain, own) if number % 2 == 0 else (own, plain):
                    if perf_counter() >= deadline:
                        return False
                    yield Cell(setting, prompt, number)
                    self.made += 1
                if drafts and number == first:
                    run = yield Cell(fixed, prompt, number, stage=ACCEPTANCE)
                    draft.drafting = total([draft.drafting, run.statistics])
                if drafts and draft.divergence is None:
                    # After the first prompt, because the time may be over before the last one.
                    draft.divergence = models.call(divergence, self.positions, deadline - perf_counter())
        return True


def _empty(session: Session) -> None:
    """Empty the target's context. Only there costs are measured again that were not kept, because the machine was busy."""
    if (context := session.target_context) is not None:
        context.truncate(0)


def _vocabulary(session: Session) -> str:
    drafter = drafter_of(session)
    if isinstance(drafter, RetokenisingDrafter):
        return "by text"
    return "mapped" if isinstance(drafter, IntersectionDrafter) else "same"
