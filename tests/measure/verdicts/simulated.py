"""Machines of known truth: the speed of each setting is given, and each reply is off by seeded noise."""

from collections.abc import Callable, Mapping
from math import exp
from random import Random

from spectui.measure.bench.prompt_files import built_in
from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import Summary, summarise
from spectui.measure.tune import AUTO, PLAIN, Search, candidates
from tests.measure.bench.runs import a_run, searched

SETTINGS = [Setting(), *(Setting("model", "fixed", most, 0, p) for most in (4, 8, 16) for p in (0.4, 0.75))]
"""Those of a bench without flags."""

PROMPTS = {"python": 2.0, "toaster": 1.0, "table": 0.7, "story": 1.3}
"""Four prompts, and by how much drafts are worth more on one than on another: that is no noise."""


def share(true: Callable[[Random], bool], trials: int) -> float:
    """In which share of so many seeded trials it is true."""
    return sum(true(Random(trial)) for trial in range(trials)) / trials


def bench(
    random: Random, speeds: Mapping[Setting, float], runs: int, noise: float, disturbed: Setting | None = None,
    noisier: float = 1.0, unsteady: float = 1.0,
) -> Summary:  # fmt: skip
    """A bench of these settings. `noise`: of a reply's ln(speed), and `noisier` times that in those to one prompt, `unsteady`
    times in those of one setting. One reply of `disturbed` has half of its speed."""
    made = []
    for run in range(runs):
        for prompt, kind in PROMPTS.items():
            for setting, speed in speeds.items():
                scatter = noise * (noisier if prompt == "table" else 1.0) * (unsteady if setting == SETTINGS[1] else 1.0)
                own = speed * exp(random.gauss(0, scatter)) * (1.0 if setting.baseline else kind)
                if setting == disturbed and run == 0 and prompt == "python":
                    own /= 2
                made.append(a_run(setting, own, run, prompt))
    return summarise(made)


def level(setting: Setting = SETTINGS[1], speed: float = 1.0) -> dict[Setting, float]:
    """All settings are as fast as plain decoding over all prompts, and this one so many times as fast."""
    mean = 1.0
    for kind in PROMPTS.values():
        mean *= kind ** (1 / len(PROMPTS))
    return {PLAIN: 10.0, **{each: (10.0 * speed if each == setting else 10.0) / mean for each in SETTINGS}}


def comparison(random: Random, speed_ups: list[float], prompts: int, runs: int, noise: float) -> Summary:
    """A comparison of drafts, each beside plain decoding on its prompts."""
    made = []
    for number, speed_up in enumerate(speed_ups):
        draft = f"/m/draft {number}.gguf"
        for repetition in range(runs):
            for prompt in map(str, range(prompts)):
                for setting, speed in ((Setting("off", "fixed", baseline="target", draft=draft), 10.0),
                                       (Setting(draft=draft), 10 * speed_up)):  # fmt: skip
                    made.append(a_run(setting, speed * exp(random.gauss(0, noise)), repetition, prompt))
    return summarise(made)


def pays(summary: Summary) -> bool:
    """Is the best drafter known to be faster than the target alone?"""
    best = next(row for row in summary.rows if row.best)
    return best.gain is not None and best.gain.faster and not best.setting.baseline


def tuned(random: Random, auto: float, fixed: float, noise: float, budget: float = 60.0) -> Setting | None:
    """What a search uses where auto and all fixed settings are so many times as fast as plain decoding, in the time of
    `budget` plain replies to each of three prompts."""
    now = [0.0]

    def speed(setting: Setting, prompt: str, tokens: int) -> float:
        found = 10 * {PLAIN: 1.0, AUTO: auto}.get(setting, fixed) * exp(random.gauss(0, noise))
        now[0] += tokens / found
        return found

    search = Search(built_in(["python", "chess", "story"], ""), 96, budget * 3 * 9.6, lambda: now[0])
    runs = searched(search, candidates(True), speed)
    return summarise(runs).chosen if search.finished else None
