"""What each part of the automatic length is worth: the recorded replies, replayed without it.

    python -m tests.benchmarks.ablation [--only NAME ...]

prints a row for each part. Figures are auto / plain by the geometric mean over the machines of `tests.speculation.replaying`:
`first`, each recorded reply as a pair's first; `later`, the later replies of chats; `unmeasured`, the same chats where nothing
was measured at load; `page`, first replies behind a page that both models must read (machines that decode with a draft model).
`most` is the machine whose mean changes most, and `worst` the worst of all first replies. `tests` are those of the policy
that fail without the part. It takes three minutes for each part.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from random import Random
from statistics import geometric_mean
from typing import Any, NamedTuple

from spectui.speculation.drafters import copy_cursor, suffix
from spectui.speculation.policies import acceptance, cost_model, plan, strategy
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.records import Outcome
from tests.speculation.replaying import KNOBS, MACHINES, RECORDED, Costs, begun_at, recorded, replay
from tests.speculation.simulation import Recording, Simulator

_CHATS = 3

_PAGE = 1000
"""Tokens of the page. A reply behind it needs as many passes as any other."""

_READ = 0.08
"""Passes that the target takes to read a token of the prompt, as measured with AMX. The draft's are in proportion to d."""

_TESTS = [f"tests/speculation/{name}.py" for name in (
    "policies/test_acceptance", "policies/test_auto", "policies/test_balance", "policies/test_cost_model", "policies/test_plan",
    "policies/test_reading", "policies/test_reasons", "policies/test_situations", "drafters/test_mixed_drafts",
    "drafters/test_suffix",
)]  # fmt: skip

Change = tuple[Any, str, Any]
"""An object, the name of an attribute, and what replaces it."""


def _rate(self: strategy.Conversation) -> float:
    return 1.0


def _one_further(self: plan.Rounds, *args: Any) -> bool:
    drafted, paid = map(int, args[6:] or (0, 0))
    near = plan.Rounds(self.passes[: drafted + 2], self.drafting[: paid + 2])
    return _PAYS(near, *args)


def _suffix_first(self: plan.Draft, repeated: Sequence[Any], asks: bool) -> int:
    return len(repeated)


def _same_speed(self: cost_model.CostModel, outcome: Outcome) -> cost_model.CostModel:
    found = _LEARNED(self, outcome)
    size = outcome.pass_size
    return replace(found, passes={**self.passes, size: found.passes[size]}) if self.passes else found


def _no_size(self: cost_model.CostModel, outcome: Outcome) -> cost_model.CostModel:
    found = _LEARNED(self, outcome)
    return replace(found, passes={n: found.passes[n] for n in self.passes}) if self.passes else found


_PAYS = plan.Rounds.pays
_LEARNED = cost_model.CostModel.learned

PARTS: dict[str, list[Change]] = {
    "nothing": [],
    # the costs
    "one speed for all sizes (each its own)": [(cost_model.CostModel, "learned", _same_speed)],
    "costs of sizes that are new": [(cost_model.CostModel, "learned", _no_size)],
    "bound on what is far too slow": [(cost_model, "_MOST", inf)],
    # the acceptance
    "calibration": [(acceptance, "_LEARN", 0.0)],
    "fading of the calibration": [(acceptance, "_FADE", 1.0)],
    "match length as a confidence": [
        (acceptance, "match_prior", lambda match: 0.5),
        (suffix, "match_prior", lambda match: 0.5),
    ],
    "expectation from the target's confidence": [(acceptance, "_LATELY", 0.0)],
    # the rule
    "going rate (1 instead)": [(strategy.Conversation, "rate", property(_rate))],
    "looking further than one token": [(plan.Rounds, "pays", _one_further)],
    "suffix by value (always first)": [(plan.Draft, "worthy", _suffix_first)],
    "suffix at all": [(plan.Draft, "worthy", lambda self, repeated, asks: 0)],
    "copying across edits": [(copy_cursor.CopyCursor, "start", lambda self, position, run: None)],
    # the rest
    "balance": [(strategy, "MAY_LOSE", inf)],
    "reading only what pays (always read)": [(strategy, "_FEW", inf)],
}
"""What replaces each part."""


class Figures(NamedTuple):
    """auto / plain without one part."""

    first: dict[str, float]
    """By machine: the mean over the recorded replies."""
    worst: float
    later: float
    unmeasured: float
    page: float


def remove(part: str) -> None:
    """Leave this part out in this process."""
    for owner, name, replacement in PARTS[part]:
        assert hasattr(owner, name), f"{owner} has no {name}"
        setattr(owner, name, replacement)


def figures() -> Figures:
    """Replay everything."""
    first: dict[str, float] = {}
    worst, later, unmeasured, page = inf, [], [], []
    for pair, machines in MACHINES.items():
        recordings = list(recorded(RECORDED / pair).values())
        for name, costs in machines.items():
            pays = [replay(each, costs, KNOBS) for each in recordings]
            first[f"{pair} {name}"] = geometric_mean(pays)
            worst = min(worst, *pays)
            later.append(_later(recordings, costs, costs.simulator))
            unmeasured.append(_later(recordings, costs, partial(_unmeasured, costs)))
            if costs.draft:
                page.append(geometric_mean(_behind_a_page(each, costs) for each in recordings))
    return Figures(first, worst, geometric_mean(later), geometric_mean(unmeasured), geometric_mean(page))


def _later(recordings: list[Recording], costs: Costs, load: Callable[[list[Recording]], Simulator]) -> float:
    """The mean of the later replies of chats of six."""
    pays: list[float] = []
    for seed in range(_CHATS):
        chance = Random(seed)
        simulator = load(recordings)
        for number, each in enumerate(chance.sample(recordings, 6)):
            begun = begun_at(each, chance.randrange(0, min(each.length - 48, 65)))
            pays += [replay(begun, costs, KNOBS, simulator)] * (number > 0)
    return geometric_mean(pays)


def _unmeasured(costs: Costs, recordings: list[Recording]) -> Simulator:
    """A pair whose costs were not measured at load (--no-profile)."""
    return Simulator(recordings, costs.machine(), CostModel())


def _behind_a_page(recording: Recording, costs: Costs) -> float:
    """auto / plain of a reply behind a page of a text that is never repeated, with the time to read."""
    page = list(range(10**6, 10**6 + _PAGE))
    read = _READ * costs.pass_s
    machine = replace(costs.machine(), read=read, draft_read=costs.draft * read)
    behind = replace(recording, tokens=[*page, *recording.tokens], prompt=_PAGE + recording.prompt)
    simulator = Simulator([behind], machine, costs.model(True))
    simulator.decode(behind, lambda position: KNOBS)
    truth = costs.truth()
    plain = sum(truth.verify(1, behind.prompt + index) for index in range(behind.length))
    return (read * behind.prompt + plain) / simulator.strategy._clock()


def failing_tests(part: str) -> list[str]:
    """Tests of the policy that fail without the part; the replays, whose figures are here, are none of them."""
    command = [sys.executable, "-m", "tests.benchmarks.ablation", "--tests-without", part]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    names = (
        line.split("::", 1)[1].split(" ")[0].split("[")[0] for line in found.stdout.splitlines() if "FAILED" in line
    )
    return sorted(set(names))


def row(part: str, base: Figures | None) -> Figures:
    """Print the row of a part."""
    now = figures()
    base = base or now
    changes = {name: mean / base.first[name] - 1 for name, mean in now.first.items()}
    most = max(changes, key=lambda name: abs(changes[name]))
    cells = [
        part,
        f"{geometric_mean(now.first.values()):.3f}",
        f"{100 * changes[most]:+.1f} % ({most})",
        *(f"{each:.3f}" for each in (now.worst, now.later, now.unmeasured, now.page)),
        ", ".join(failing_tests(part)) if PARTS[part] else "",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)
    return now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--tests-without", choices=PARTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.tests_without:
        import pytest

        remove(args.tests_without)
        options = ["-q", "-rf", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
        raise SystemExit(pytest.main([*_TESTS, *options]))
    print("| without | first | most | worst | later | unmeasured | page | tests that fail |\n" + "| --- " * 8 + "|")
    base = row("nothing", None)
    kept = {id(owner): dict(vars(owner)) for part in PARTS.values() for owner, _, _ in part}
    for part in args.only:
        if part == "nothing":
            continue
        remove(part)
        row(part, base)
        for owner, name, _ in PARTS[part]:
            setattr(owner, name, kept[id(owner)][name])


if __name__ == "__main__":
    main()
