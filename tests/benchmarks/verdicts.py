"""How often the verdicts of bench and tune are right, on simulated machines whose truth is known.

    python -m tests.benchmarks.verdicts

prints the share of trials, the same everywhere, in which a bench of four prompts and eight settings says that one of them is
faster than the target alone; and what a search saves. It takes a minute.
"""

from collections import Counter
from random import Random

from spectui.measure.tune import AUTO, PLAIN
from tests.measure.verdicts.simulated import SETTINGS, bench, comparison, level, pays, share, tuned

TRIALS = 100
SPEEDS = (1.0, 1.05, 1.1, 1.2)


def main() -> None:
    """Print the tables."""
    truth = "".join(f"{100 * (speed - 1):>7.0f} %" for speed in SPEEDS)
    print(f"bench, 4 prompts: called faster where the truth is faster by\n  noise  runs{truth}   any false verdict at 0 %")
    for noise in (0.02, 0.04, 0.08):
        for runs in (2, 3, 5, 10):
            found = "".join(f"{_benched(noise, runs, speed):>9.0%}" for speed in SPEEDS)
            print(f"{noise:>6.0%} {runs:>6}{found}{_false(noise, runs):>20.0%}")
    print("\ndrafts, 4 % noise: a draft is called faster where the best one's truth is faster by")
    print(f"prompts  runs{truth}")
    for prompts, runs in ((4, 1), (4, 3), (14, 1), (14, 3)):
        print(f"{prompts:>7} {runs:>5}" + "".join(f"{_compared(prompts, runs, speed):>9.0%}" for speed in SPEEDS))
    print("\ntune, 3 prompts, 4 % noise: what is saved")
    for auto, fixed in ((0.97, 0.97), (1.0, 1.0), (1.03, 1.0), (1.3, 1.26), (1.2, 1.32), (0.95, 1.1)):
        saved = Counter(_kind(Random(trial), auto, fixed) for trial in range(TRIALS))
        of = "  ".join(f"{kind} {count / TRIALS:.0%}" for kind, count in saved.most_common())
        print(f"auto {100 * (auto - 1):+.0f} %, fixed {100 * (fixed - 1):+.0f} %:  {of}")


def _benched(noise: float, runs: int, speed: float) -> float:
    def faster(random: Random) -> bool:
        rows = bench(random, level(SETTINGS[1], speed), runs, noise).rows
        return next(row for row in rows if row.setting == SETTINGS[1]).gain.faster  # type: ignore[union-attr]

    return share(faster, TRIALS)


def _false(noise: float, runs: int) -> float:
    def told(random: Random) -> bool:
        rows = bench(random, level(), runs, noise).rows
        return any(verdict is not None and verdict.told for row in rows for verdict in (row.gain, row.beside_best))

    return share(told, TRIALS)


def _compared(prompts: int, runs: int, speed: float) -> float:
    drafts = [0.9, speed, 0.9, 0.9] if speed > 1 else [1.0] * 4
    return share(lambda random: pays(comparison(random, drafts, prompts, runs, 0.04)), TRIALS)


def _kind(random: Random, auto: float, fixed: float) -> str:
    chosen = tuned(random, auto, fixed, 0.04)
    return {PLAIN: "no draft", AUTO: "auto", None: "nothing"}.get(chosen, "a fixed setting")


if __name__ == "__main__":
    main()
