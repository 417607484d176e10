"""Successive halving over fixed settings, then steps to neighbours, then repetitions of the finalists until the time is up.

Halving: Jamieson and Talwalkar, 2016, arXiv:1502.07943. All settings of a rung decode the same tokens of the same
prompts, since the text depends on the target and the seed alone: their speeds are compared in pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log, sqrt
from statistics import fmean, stdev
from typing import Literal, NamedTuple

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


Measure = Callable[[Setting, str, int], Reply | None]
"""A reply of this setting to the prompt of this name, of at most so many tokens; None if it was stopped.

Raises SpectuiError.
"""


Stage = Literal["start", "halving", "neighbours", "finals"]
"""`start`: plain decoding and auto, once. `finals`: the repetitions of the finalists, of plain decoding and of auto."""


class Trial(NamedTuple):
    """A reply of a search. `tokens`: its length at most. `speed` in tokens per second; `seconds` it took with its prompt."""

    setting: Setting
    prompt: str
    tokens: int
    speed: float
    seconds: float = 0.0
    stage: Stage = "finals"


class Leader(NamedTuple):
    """A setting of the halving: the geometric mean of its tokens per second over replies of at most so many `tokens`."""

    setting: Setting
    speed: float
    tokens: int


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
    """What was found. `finals`: for each finalist, auto and plain, by repetition the mean over the prompts of ln(speed).

    `best`: None if the search ended before a fixed setting had replies as long as plain decoding's.
    """

    best: Setting | None
    finals: dict[Setting, list[float]]
    tried: int
    replies: int
    seconds: float
    finished: bool = True
    """False: the time was up, or somebody stopped it, before the finalists were repeated."""
    leaders: tuple[Leader, ...] = ()
    """The fastest of the halving, the best first; only if there is no `best`."""
    trials: Sequence[Trial] = ()

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
    trials: list[Trial] = field(default_factory=list)
    problem: SpectuiError | None = None
    """Why the search ended early."""
    _scores: dict[Setting, float] = field(default_factory=dict)
    _rung: tuple[Leader, ...] = ()
    _stage: Stage = "start"

    def run(self, settings: Sequence[Setting]) -> Tuned:
        """Find the best of these settings and their neighbours; if it is stopped or a reply fails, what is known until then.

        Raises SpectuiError if a reply is empty.
        """
        self._begun = self.clock()
        self._fit()
        at_first: dict[Setting, list[float]] = {}
        for setting in (PLAIN, AUTO):
            if (score := self._score(setting, self.predict, inf)) is not None:
                at_first[setting] = [score]
        if AUTO not in at_first:
            return self._found(None, at_first)
        self._stage = "halving"
        alive = self._halve(list(settings), exp(at_first[PLAIN][0]))
        self._stage = "neighbours"
        self._climb()
        self._stage = "finals"
        order = sorted(self._scores, key=lambda each: -self._scores[each]) or alive
        finalists = order[:_FINALISTS]
        finals: dict[Setting, list[float]] = {each: [] for each in (PLAIN, AUTO, *finalists)}
        first = True
        while self._repeat([PLAIN, AUTO, *finalists], finals, inf if first else 1.0):
            first = False
        if not finals[AUTO]:  # it was stopped: what was measured once is all there is
            finals = {**at_first, **{each: [self._scores[each]] for each in finalists if each in self._scores}}
        complete = [each for each in finalists if finals.get(each)]
        return self._found(max(complete, key=lambda each: fmean(finals[each]), default=None), finals)

    def _found(self, best: Setting | None, finals: dict[Setting, list[float]]) -> Tuned:
        fixed = {trial.setting for trial in self.trials} - {PLAIN, AUTO}
        finished = best is not None and len(finals[best]) > 1
        kept = {each: logs for each, logs in finals.items() if logs}
        return Tuned(best, kept, len(fixed), len(self.trials), self.clock() - self._begun, finished,
                     self._rung if best is None else (), self.trials)  # fmt: skip

    def _fit(self) -> None:
        """Shorten the longest replies so that the finalists can be repeated at least once in the time left for them.

        One short reply tells how fast the target is; it is not counted, since the first one of all is also the slowest.
        """
        first = self._reply(PLAIN, self.prompts[0], _FEWEST_TOKENS)
        if first is not None:
            prompt_s = max(0.0, first.seconds - _FEWEST_TOKENS / first.speed)
            reply_s = (1 - _STEPS) * self.budget_s / ((_FINALISTS + 2) * len(self.prompts))
            self.predict = min(self.predict, max(_FEWEST_TOKENS, int((reply_s - prompt_s) * first.speed)))

    @property
    def _used(self) -> float:
        return (self.clock() - self._begun) / self.budget_s

    def _reply(self, setting: Setting, prompt: str, tokens: int) -> Reply | None:
        """None: it was stopped, or it failed, which ends the search. Raises SpectuiError if it is empty."""
        if self.stopped() or self.problem is not None:
            return None
        try:
            reply = self.measure(setting, prompt, tokens)
        except SpectuiError as error:
            self.problem = error
            return None
        if reply is not None and reply.speed <= 0:
            raise SpectuiError(f"The reply to the prompt {prompt!r} is empty, so it has no speed: take other prompts.")
        return reply

    def _score(self, setting: Setting, tokens: int, end: float) -> float | None:
        """Mean over the prompts of ln(speed); None when the share `end` of the time is used, or it was stopped."""
        logs = []
        for prompt in self.prompts:
            reply = self._reply(setting, prompt, tokens) if self._used < end else None
            if reply is None:
                return None
            self.trials.append(Trial(setting, prompt, tokens, reply.speed, reply.seconds, self._stage))
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
            if len(scores) == len(alive) or not self._rung:
                self._rung = tuple(Leader(each, exp(scores[each]), tokens) for each in ranked[:_FINALISTS])
            if tokens == self.predict:
                self._scores.update(scores)
            alive = ranked[: max(_FINALISTS, (len(alive) + 1) // 2)]
        for setting in alive:
            if setting not in self._scores and (score := self._score(setting, self.predict, _STEPS)) is not None:
                self._scores[setting] = score
        return alive

    def _climb(self) -> None:
        """Measure the neighbours of the best until none is better."""
        while self._scores:
            best = max(self._scores, key=lambda each: self._scores[each])
            fresh = [each for each in neighbours(best) if each not in self._scores]
            for setting in fresh:
                score = self._score(setting, self.predict, _STEPS)
                if score is None:
                    return
                self._scores[setting] = score
            if max(self._scores, key=lambda each: self._scores[each]) == best:
                break
