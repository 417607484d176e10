"""Successive halving over fixed settings, then steps to neighbours, then one setting beside plain decoding and auto until the
time is up.

Halving: Jamieson and Talwalkar, 2016, arXiv:1502.07943. All settings of a rung decode the same tokens of the same
prompts, since the text depends on the target and the seed alone. The best of many was lucky too, so no reply by which it was
chosen counts in the verdict on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log
from statistics import fmean, geometric_mean
from typing import Literal, NamedTuple

from spectui.errors import SpectuiError
from spectui.measure.bench.settings import Setting
from spectui.measure.verdict import Verdict, chosen, judge

PLAIN = Setting("off", "fixed", baseline="target")
AUTO = Setting("auto", "auto")

_FEWEST_TOKENS = 16
"""Shortest replies of a rung: shorter ones tell little of a text."""

_HALVING, _STEPS, _CHOICE = 0.3, 0.4, 0.5
"""Shares of the time after which the halving, the steps to neighbours, and the choice among the finalists end."""

_FINALISTS, _REPEATED = 3, 3
"""Settings to choose from at the end, and how often, at least, the chosen one is to be repeated."""

_VERDICTS = 3
"""On the best setting and auto against plain decoding, and on these two."""


class Reply(NamedTuple):
    """One measured reply: its tokens, and the seconds in which the prompt was read and the reply was decoded."""

    tokens: int
    prompt_s: float
    decode_s: float

    @property
    def decoding(self) -> float:
        """Tokens per second of decoding."""
        return self.tokens / self.decode_s if self.decode_s > 0 else 0.0

    def speed(self, tokens: int) -> float:
        """Tokens per second of a whole reply of so many tokens, decoded at this speed, with the reading of the prompt."""
        return 1 / (self.prompt_s / tokens + 1 / self.decoding)


Measure = Callable[[Setting, str, int, int], Reply | None]
"""A reply of this setting to the prompt of this name, of at most so many tokens, with the seed of this number; None if it was
stopped.

Raises SpectuiError.
"""


Stage = Literal["start", "halving", "neighbours", "choice", "finals"]
"""`start`: plain decoding and auto, once. `finals`: the chosen setting, plain decoding and auto in turn, which are judged."""


class Trial(NamedTuple):
    """A reply of a search. `tokens`: its length at most. `speed`: of the whole reply, see `Reply.speed`, and `decoding`, in
    tokens per second. `seed`: its number."""

    setting: Setting
    prompt: str
    tokens: int
    speed: float
    decoding: float
    stage: Stage = "finals"
    seed: int = 0


class Leader(NamedTuple):
    """A setting of the halving: the geometric mean of its tokens per second over replies of at most so many `tokens`."""

    setting: Setting
    speed: float
    tokens: int


@dataclass
class Tuned:
    """What was found. `best`: None if the search ended before a fixed setting was chosen."""

    best: Setting | None
    tried: int
    seconds: float
    finished: bool = True
    """False: the time was up, or somebody stopped it, before the chosen setting was repeated."""
    leaders: tuple[Leader, ...] = ()
    """The fastest of the halving, the best first; only if there is no `best`."""
    trials: Sequence[Trial] = ()

    def finals(self, setting: Setting) -> dict[str, list[Trial]]:
        """Its replies that are judged, by prompt."""
        found: dict[str, list[Trial]] = {}
        for trial in self.trials:
            if trial.stage == "finals" and trial.setting == setting:
                found.setdefault(trial.prompt, []).append(trial)
        return found

    def verdict(self, one: Setting, other: Setting, decoding: bool = False) -> Verdict:
        """Of whole replies, or of `decoding` alone, over the repetitions that both have."""
        own, its = self.finals(one), self.finals(other)
        pairs = {
            prompt: [
                log(a.decoding / b.decoding if decoding else a.speed / b.speed)
                for a, b in zip(own[prompt], its[prompt], strict=False)
            ]
            for prompt in own.keys() & its.keys()
        }
        return judge(pairs, _VERDICTS)

    def decoding(self, setting: Setting) -> float:
        """Geometric mean of its tokens per second of decoding, in the finals if it came to them; 0 if not measured."""
        own = [trial for trial in self.trials if trial.setting == setting]
        own = [trial for trial in own if trial.stage == "finals"] or own
        return geometric_mean(trial.decoding for trial in own) if own else 0.0

    @property
    def chosen(self) -> Setting | None:
        """What to use; None if the search ended too early to tell."""
        if self.best is None or not self.finished:
            return None
        fixed, auto = (self.verdict(each, PLAIN) for each in (self.best, AUTO))
        name = chosen(fixed, auto, self.verdict(self.best, AUTO))
        return {"fixed": self.best, "auto": AUTO, "plain": PLAIN}[name]


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
    length: int = field(init=False)
    """Tokens of the replies that a person wants: the time of the prompt counts as it does in one of these."""
    _scores: dict[Setting, float] = field(default_factory=dict)
    _rung: tuple[Leader, ...] = ()
    _stage: Stage = "start"

    def __post_init__(self) -> None:
        self.length = self.predict

    def run(self, settings: Sequence[Setting]) -> Tuned:
        """Find the best of these settings and their neighbours; if it is stopped or a reply fails, what is known until then.

        Raises SpectuiError if a reply is empty.
        """
        self._begun = self.clock()
        self._fit()
        plain = self._score(PLAIN, self.predict, inf)
        if plain is None or self._score(AUTO, self.predict, inf) is None:
            return self._found(None, 0)
        self._stage = "halving"
        alive = self._halve(list(settings), exp(plain))
        self._stage = "neighbours"
        self._climb()
        self._stage = "choice"
        order = sorted(self._scores, key=lambda each: -self._scores[each]) or alive
        best = self._choose(order[:_FINALISTS])
        self._stage = "finals"
        repeated = 0
        while self._repeat([PLAIN, AUTO, *([best] if best is not None else [])], repeated):
            repeated += 1
            if self._used >= 1.0:
                break
        return self._found(best, repeated)

    def _found(self, best: Setting | None, repeated: int) -> Tuned:
        if best not in self._scores and not repeated:
            best = None  # it has no replies as long as plain decoding's
        fixed = {trial.setting for trial in self.trials} - {PLAIN, AUTO}
        leaders = self._rung if best is None else ()
        return Tuned(best, len(fixed), self.clock() - self._begun, repeated > 1, leaders, self.trials)

    def _fit(self) -> None:
        """Shorten the longest replies so that the chosen setting can be repeated a few times in the time left for that.

        One short reply tells how fast the target is; it is not counted, since the first one of all is also the slowest.
        """
        first = self._reply(PLAIN, self.prompts[0], _FEWEST_TOKENS, 0)
        if first is not None:
            reply_s = (1 - _CHOICE) * self.budget_s / (_REPEATED * 3 * len(self.prompts))
            self.predict = min(self.predict, max(_FEWEST_TOKENS, int((reply_s - first.prompt_s) * first.decoding)))

    @property
    def _used(self) -> float:
        return (self.clock() - self._begun) / self.budget_s

    def _reply(self, setting: Setting, prompt: str, tokens: int, seed: int) -> Reply | None:
        """None: it was stopped, or it failed, which ends the search. Raises SpectuiError if it is empty."""
        if self.stopped() or self.problem is not None:
            return None
        try:
            reply = self.measure(setting, prompt, tokens, seed)
        except SpectuiError as error:
            self.problem = error
            return None
        if reply is not None and reply.decoding <= 0:
            raise SpectuiError(f"The reply to the prompt {prompt!r} is empty, so it has no speed: take other prompts.")
        return reply

    def _score(self, setting: Setting, tokens: int, end: float, seed: int = 0) -> float | None:
        """Mean over the prompts of ln(speed); None when the share `end` of the time is used, or it was stopped."""
        logs = []
        for prompt in self.prompts:
            reply = self._reply(setting, prompt, tokens, seed) if self._used < end else None
            if reply is None:
                return None
            logs.append(log(self._count(reply, setting, prompt, tokens, seed)))
        return fmean(logs)

    def _count(self, reply: Reply, setting: Setting, prompt: str, tokens: int, seed: int) -> float:
        """Keep the reply, and return its speed."""
        speed = reply.speed(self.length)
        self.trials.append(Trial(setting, prompt, tokens, speed, reply.decoding, self._stage, seed))
        self.progress(min(1.0, self._used), f"{setting.label}: {reply.decoding:.1f} t/s")
        return speed

    def _choose(self, finalists: Sequence[Setting]) -> Setting | None:
        """The best of the finalists after another reply of each to each prompt, if the time suffices."""
        for setting in finalists:
            again = self._score(setting, self.predict, _CHOICE) if len(finalists) > 1 else None
            if again is None:
                break
            self._scores[setting] = (self._scores.get(setting, again) + again) / 2
        known = [each for each in finalists if each in self._scores]
        return max(known, key=lambda each: self._scores[each], default=finalists[0] if finalists else None)

    def _repeat(self, settings: Sequence[Setting], number: int) -> bool:
        """One more repetition of all, with a seed of its own, every second one backwards. False: it was not finished."""
        for prompt in self.prompts:
            for setting in settings if number % 2 == 0 else settings[::-1]:
                late = number > 0 and self._used >= 1.0
                reply = None if late else self._reply(setting, prompt, self.predict, number + 1)
                if reply is None:
                    return False
                self._count(reply, setting, prompt, self.predict, number + 1)
        return True

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
