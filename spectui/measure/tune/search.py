"""Successive halving over fixed settings, then steps to neighbours, then repetitions of the finalists until the time is up.

Halving: Jamieson and Talwalkar, 2016, arXiv:1502.07943. All settings of a rung decode the same tokens of the same
prompts, since the text depends on the target and the seed alone: their speeds are compared in pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from spectui.errors import SpectuiError
from spectui.measure.bench.settings import Setting

PLAIN = Setting("off", "fixed", baseline="target")
AUTO = Setting("auto", "auto")

_FEWEST_TOKENS = 16
"""Shortest replies of a rung: shorter ones tell little of a text."""

_HALVING, _STEPS = 0.5, 0.75
"""Shares of the time after which the halving, and the steps to neighbours, end."""

_FINALISTS = 3

_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""Student's t for 95 % by degrees of freedom, from 1 on; 2 beyond."""


class Reply(NamedTuple):
    """One measured reply. `speed` in tokens per second; `seconds` it took with its prompt."""

    speed: float
    seconds: float


Measure = Callable[[Setting, str, int], Reply]
"""A reply of this setting to the prompt of this name, of at most so many tokens. Raises SpectuiError."""


class Ratio(NamedTuple):
    """How many times as fast; `low` and `high`: 95 % confidence, None from a single repetition."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        bounds = "" if self.low is None or self.high is None else f" (95 %: {self.low:.2f} to {self.high:.2f})"
        return f"{self.value:.2f}{bounds}"

    @property
    def significant(self) -> bool:
        """Whether the difference is significant: 1 lies outside the interval."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


@dataclass
class Tuned:
    """What was found. `finals`: for each finalist, auto and plain, by repetition the mean over the prompts of ln(speed)."""

    best: Setting
    finals: dict[Setting, list[float]]
    tried: int
    replies: int
    seconds: float
    finished: bool = True
    """False: the time was up, or somebody stopped it, before the finalists were repeated."""

    def ratio(self, one: Setting, other: Setting) -> Ratio:
        """How many times as fast as `other` is `one`, over the repetitions that both have."""
        logs = [a - b for a, b in zip(self.finals[one], self.finals[other], strict=False)]
        middle, n = fmean(logs), len(logs)
        if n < 2:
            return Ratio(exp(middle))
        half = (_T[n - 2] if n - 2 < len(_T) else 2.0) * stdev(logs) / sqrt(n)
        return Ratio(exp(middle), exp(middle - half), exp(middle + half))

    def speed(self, setting: Setting) -> float:
        """Geometric mean of its tokens per second."""
        return exp(fmean(self.finals[setting]))


def candidates(drafts: bool) -> list[Setting]:
    """The settings that the halving begins with."""
    found = []
    if drafts:
        found += [Setting("model", "fixed", most, 0, p) for most in (3, 5, 8, 16) for p in (0.0, 0.4, 0.6, 0.8)]
        found += [Setting("auto", "fixed", most, 0, p) for most in (8, 16) for p in (0.4, 0.7)]
    return found + [Setting("suffix", "fixed", most, 0, 0.5) for most in (4, 8, 16)]


def neighbours(setting: Setting) -> list[Setting]:
    """Settings one or two steps away."""
    found = [
        *(replace(setting, draft_max=setting.draft_max + step) for step in (-4, -2, -1, 1, 2, 4)),
        *(replace(setting, p_min=round(setting.p_min + step, 2)) for step in (-0.2, -0.1, 0.1, 0.2)),
        *(replace(setting, draft_min=setting.draft_min + step) for step in (-1, 1)),
    ]
    return [
        each
        for each in found
        if 1 <= each.draft_max <= 48 and 0 <= each.p_min <= 0.95 and 0 <= each.draft_min <= each.draft_max
    ]


@dataclass
class Search:
    """One search, for once. `budget_s`: seconds for all of it, by `clock`.

    `predict`: most tokens of a reply; fewer where the time is short."""

    measure: Measure
    prompts: Sequence[str]
    predict: int
    budget_s: float
    clock: Callable[[], float]
    progress: Callable[[float, str], None] = lambda done, what: None
    stopped: Callable[[], bool] = lambda: False
    replies: int = 0
    plain_and_auto: tuple[float, float] | None = None
    """Their tokens per second at the beginning."""
    _scores: dict[Setting, float] = field(default_factory=dict)

    def run(self, settings: Sequence[Setting]) -> Tuned:
        """Find the best of these settings and their neighbours. Raises SpectuiError where nothing could be measured."""
        self._begun = self.clock()
        self._fit()
        finals: dict[Setting, list[float]] = {PLAIN: [], AUTO: []}
        self._repeat([PLAIN, AUTO], finals, inf)
        if not finals[AUTO]:
            raise SpectuiError("The time was up before plain decoding and auto were measured: give more --minutes.")
        plain, auto = exp(finals[PLAIN][0]), exp(finals[AUTO][0])
        self.plain_and_auto = plain, auto
        alive, tried = self._halve(list(settings), plain), set(settings)
        tried |= self._climb(alive)
        order = sorted(self._scores, key=lambda each: -self._scores[each]) or alive
        finalists = order[:_FINALISTS]
        finals |= {each: [] for each in finalists}
        at_first = {PLAIN: finals[PLAIN], AUTO: finals[AUTO]}
        finals[PLAIN], finals[AUTO] = [], []
        first = True
        while self._repeat([PLAIN, AUTO, *finalists], finals, inf if first else 1.0):
            first = False
        if not finals[AUTO] and self._scores:  # it was stopped: what was measured once is all there is
            finals = {**at_first, **{each: [self._scores[each]] for each in finalists}}
        complete = [each for each in finalists if finals[each]]
        if not complete:
            raise SpectuiError("The time was up before any setting was measured: give more --minutes.")
        best = max(complete, key=lambda each: fmean(finals[each]))
        kept = {each: logs for each, logs in finals.items() if logs}
        return Tuned(best, kept, len(tried), self.replies, self.clock() - self._begun, len(finals[best]) > 1)

    def _fit(self) -> None:
        """Shorten the longest replies so that the finalists can be repeated at least once in the time left for them.

        One short reply tells how fast the target is; it is not counted, since the first one of all is also the slowest.
        """
        first = self.measure(PLAIN, self.prompts[0], _FEWEST_TOKENS)
        if first.speed > 0:
            prompt_s = max(0.0, first.seconds - _FEWEST_TOKENS / first.speed)
            reply_s = (1 - _STEPS) * self.budget_s / ((_FINALISTS + 2) * len(self.prompts))
            self.predict = min(self.predict, max(_FEWEST_TOKENS, int((reply_s - prompt_s) * first.speed)))

    @property
    def _used(self) -> float:
        return (self.clock() - self._begun) / self.budget_s

    def _score(self, setting: Setting, tokens: int, end: float) -> float | None:
        """Mean over the prompts of ln(speed); None when the share `end` of the time is used, or it was stopped."""
        logs = []
        for prompt in self.prompts:
            if self.stopped() or self._used >= end:
                return None
            reply = self.measure(setting, prompt, tokens)
            self.replies += 1
            if reply.speed <= 0:
                return None
            logs.append(log(reply.speed))
            self.progress(min(1.0, self._used), f"{setting.label}: {reply.speed:.1f} t/s")
        return fmean(logs)

    def _repeat(self, settings: Sequence[Setting], finals: dict[Setting, list[float]], end: float) -> bool:
        """One more repetition of all of these. False: it could not be finished, and counts for none of them."""
        logs = {}
        for setting in settings:
            score = self._score(setting, self.predict, end)
            if score is None:
                return False
            logs[setting] = score
        for setting, score in logs.items():
            finals[setting].append(score)
        return self._used < 1.0

    def _halve(self, alive: list[Setting], plain: float) -> list[Setting]:
        """Drop the slower half, again and again, with replies that grow longer. Returns the last ones, the best first."""
        rungs = max(1, (len(alive) // _FINALISTS).bit_length())
        for rung in range(rungs):
            share_s = max(0.0, _HALVING - self._used) * self.budget_s / (rungs - rung)
            tokens = int(share_s * plain / (len(alive) * len(self.prompts)))
            tokens = min(self.predict, max(_FEWEST_TOKENS, tokens))
            scores: dict[Setting, float] = {}
            for setting in alive:
                score = self._score(setting, tokens, _STEPS)
                if score is None:
                    break
                scores[setting] = score
            if not scores:
                return alive
            ranked = sorted(scores, key=lambda each: -scores[each])
            if tokens == self.predict:
                self._scores.update(scores)
            alive = ranked[: max(_FINALISTS, (len(alive) + 1) // 2)]
        for setting in alive:
            if setting not in self._scores and (score := self._score(setting, self.predict, _STEPS)) is not None:
                self._scores[setting] = score
        return alive

    def _climb(self, alive: Sequence[Setting]) -> set[Setting]:
        """Measure the neighbours of the best until none is better. Returns those that were measured."""
        seen: set[Setting] = set()
        while self._scores:
            best = max(self._scores, key=lambda each: self._scores[each])
            fresh = [each for each in neighbours(best) if each not in self._scores]
            for setting in fresh:
                score = self._score(setting, self.predict, _STEPS)
                if score is None:
                    return seen
                self._scores[setting] = score
                seen.add(setting)
            if max(self._scores, key=lambda each: self._scores[each]) == best:
                break
        return seen
