"""The search of tune: successive halving over fixed settings, then one setting beside plain decoding and auto until the time
is up.

Halving: Jamieson and Talwalkar, 2016, arXiv:1502.07943. All settings of a rung decode the same tokens of the same
prompts, since the text depends on the target and the seed alone. The best of many was lucky too, so no reply by which it was
chosen counts in the verdict on it: the replies of the stage `FINALS` alone are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log
from statistics import fmean

from spectui.errors import SpectuiError
from spectui.measure.bench.prompt_files import Prompt
from spectui.measure.bench.results import FINALS, Run
from spectui.measure.bench.runner import PlannedRun
from spectui.measure.bench.settings import Setting
from spectui.speculation.policies.cost_model import CostModel

PLAIN = Setting("off", "fixed", baseline="target")
AUTO = Setting("auto", "auto")

_FEWEST_TOKENS = 16
"""Shortest replies of a rung: shorter ones tell little of a text."""

_HALVING = 0.4
"""Share of the time after which the halving ends."""

_FINALISTS, _REPEATED = 3, 3
"""Settings that answer at full length in the end, and how often, at least, the chosen one is to be repeated."""


_DEAR_DRAFT = 0.3
"""Share of a plain pass from which a drafted token is called dear."""

_DEAR_ROWS = 2.0
"""Plain passes from which a pass over four rows is called dear: then the weights have no kernel for several rows here."""


def candidates(drafts: bool) -> list[Setting]:
    """The settings that the halving begins with. (Of the replayed machines none has a better one between these by more than
    the noise, so no neighbours are tried afterwards.)"""
    settings = []
    if drafts:
        settings += [Setting("model", "fixed", most, 0, p) for most in (3, 5, 8, 12, 16, 24) for p in (0.0, 0.3, 0.5, 0.7)]
        settings += [Setting("auto", "fixed", most, 0, p) for most in (5, 8, 12, 16, 24) for p in (0.2, 0.4, 0.6)]
    return settings + [Setting("suffix", "fixed", most, 0, 0.5) for most in (4, 8, 16)]


@dataclass
class Search:
    """One search, for once. `budget_s`: seconds for all of it, by `clock`. `predict`: most tokens of a reply; fewer where the
    time is short. `best`: the fixed setting that is judged; None before one was chosen."""

    prompts: Sequence[Prompt]
    predict: int
    budget_s: float
    clock: Callable[[], float]
    temperature: float = 0.0
    runs: list[Run] = field(default_factory=list)
    best: Setting | None = None
    _scores: dict[Setting, float] = field(default_factory=dict)
    _stage: str = "start"
    _begun: float = 0.0
    _make: Callable[[PlannedRun], Run] = field(init=False)

    @property
    def plain(self) -> Setting:
        """Plain decoding, at this temperature."""
        return replace(PLAIN, temperature=self.temperature)

    @property
    def auto(self) -> Setting:
        """The automatic length, at this temperature."""
        return replace(AUTO, temperature=self.temperature)

    @property
    def tried(self) -> int:
        """How many fixed settings were measured."""
        return len({run.setting for run in self.runs} - {self.plain, self.auto})

    @property
    def used(self) -> float:
        """Share of the time that is over."""
        return (self.clock() - self._begun) / self.budget_s

    @property
    def finished(self) -> bool:
        """The chosen setting was repeated, so it can be judged."""
        finals = [(run.setting, run.prompt, run.repetition) for run in self.runs if run.stage == FINALS]
        return len(finals) >= 2 * 3 * len(self.prompts)

    def run(self, settings: Sequence[Setting], make: Callable[[PlannedRun], Run]) -> None:
        """Find the best of these settings. `make` makes a run; what it raises ends the search.

        Raises SpectuiError if a reply is empty.
        """
        self._begun, self._make = self.clock(), make
        settings = [replace(setting, temperature=self.temperature) for setting in settings]
        self._fit_length()
        plain = self._score(self.plain, self.predict, inf)
        self._score(self.auto, self.predict, inf)
        assert plain is not None
        self._stage = "halving"
        alive = self._halve(list(settings), exp(plain))
        self.best = max(self._scores, key=lambda setting: self._scores[setting], default=next(iter(alive), None))
        self._stage = FINALS
        number = 1
        while self._repeat([self.plain, self.auto, *filter(None, [self.best])], number) and self.used < 1.0:
            number += 1

    def _fit_length(self) -> None:
        """Shorten the longest replies so that the chosen setting can be repeated a few times in the time left for that.

        One short reply tells how fast the target is; it does not count, since the first one of all is also the slowest.
        """
        first = self._make(PlannedRun(self.plain, self.prompts[0], 0, _FEWEST_TOKENS, self._stage))
        if first.decoding > 0:
            reply_s = (1 - _HALVING) * self.budget_s / (_REPEATED * 3 * len(self.prompts))
            tokens = int((reply_s - (first.prompt_s or 0.0)) * first.decoding)
            self.predict = min(self.predict, max(_FEWEST_TOKENS, tokens))

    def _reply(self, setting: Setting, prompt: Prompt, tokens: int, repetition: int = 0) -> float:
        """The speed of a reply. Raises SpectuiError if it is empty."""
        run = self._make(PlannedRun(setting, prompt, repetition, tokens, self._stage))
        if run.speed <= 0:
            raise SpectuiError(f"The reply to the prompt {prompt.name!r} is empty, so it has no speed: take other prompts.")
        self.runs.append(run)
        return run.speed

    def _score(self, setting: Setting, tokens: int, end: float) -> float | None:
        """Mean over the prompts of ln(speed); None when the share `end` of the time is used."""
        logs = []
        for prompt in self.prompts:
            if self.used >= end:
                return None
            logs.append(log(self._reply(setting, prompt, tokens)))
        return fmean(logs)

    def _score_each(self, settings: Sequence[Setting], tokens: int) -> dict[Setting, float]:
        """The scores of as many of these settings as there is time for."""
        scores: dict[Setting, float] = {}
        for setting in settings:
            score = self._score(setting, tokens, _HALVING)
            if score is None:
                break
            scores[setting] = score
        return scores

    def _halve(self, alive: list[Setting], plain: float) -> list[Setting]:
        """Drop the slower half, again and again, with replies that grow longer. Returns the last ones, the best first."""
        rungs = max(1, (len(alive) // _FINALISTS).bit_length())
        for rung in range(rungs):
            share_s = max(0.0, _HALVING - self.used) * self.budget_s / (rungs - rung)
            tokens = int(share_s * plain / (len(alive) * len(self.prompts)))
            tokens = min(self.predict, max(_FEWEST_TOKENS, tokens))
            scores = self._score_each(alive, tokens)
            if not scores:
                return alive
            if tokens == self.predict:
                self._scores.update(scores)
            ranked = sorted(scores, key=lambda setting: -scores[setting])
            alive = ranked[: max(_FINALISTS, (len(alive) + 1) // 2)]
        self._scores.update(self._score_each([setting for setting in alive if setting not in self._scores], self.predict))
        return alive

    def _repeat(self, settings: Sequence[Setting], number: int) -> bool:
        """One more repetition of all, every second one backwards. False: the time was up before its end."""
        for prompt in self.prompts:
            for setting in settings if number % 2 else settings[::-1]:
                if number > 1 and self.used >= 1.0:
                    return False
                self._reply(setting, prompt, self.predict, number)
        return True


def flags(setting: Setting) -> str:
    """The setting as flags."""
    return (
        f"--drafter {setting.drafter} --policy {setting.policy} --draft-max {setting.draft_max} "
        f"--draft-min {setting.draft_min} --p-min {setting.p_min:g}"
    )


def sentences(search: Search, chosen: Setting | None, costs: CostModel | None) -> Iterator[str]:
    """The best fixed setting, what is used, and advice. `chosen`: see `Summary.chosen`. `costs`: those measured at load."""
    if search.best is None:
        yield "It ended before a fixed setting was compared with plain decoding."
    else:
        yield f"The best of {search.tried} fixed settings: {flags(search.best)}."
        if chosen is None or not search.finished:
            yield "It ended before that one was repeated: --minutes gives more time."
        elif chosen.baseline:
            yield "So no draft is used (--drafter off, and no -md): nothing is known to be faster than the target alone."
        else:
            yield f"So {'auto' if chosen == search.auto else 'that setting'} is used."
    if costs is None or not costs.known:
        return
    one = costs.verify(1, 0)
    share = (costs.drafting(2) - costs.drafting(1)) / one if costs.next else 0.0
    if share > _DEAR_DRAFT:
        yield (
            f"A drafted token takes {share:.0%} of a plain pass: try smaller drafts (spectui bench --draft a.gguf,b.gguf), or "
            "this one in a type with fewer bits (spectui draft make)."
        )
    four = costs.verify(4, 0) / one
    if four > _DEAR_ROWS:
        yield (
            f"A pass over four rows takes {four:.1f} plain passes, so only short drafts pay: another type of the target may "
            "have a better kernel."
        )
