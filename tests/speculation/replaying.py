"""Recorded texts on machines of known costs: the policy decides again as in the real program, and no noise blurs what it gains.

A recording is what a target wrote, greedily, with what its draft model would have drafted at each position of
that. A machine is a table of what passes cost.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple

from spectui.knobs import Knobs
from tests.benchmarks.prompts import PROMPTS
from tests.speculation.simulation import Machine, Recording, Simulator

RECORDED = Path(__file__).with_name("recorded")
"""Replies of 128 tokens at most to the prompts of the benchmarks: a folder for each pair."""


def recorded(folder: Path, prompts: Iterable[str] = PROMPTS) -> dict[str, Recording]:
    """The recordings of a folder, by the names of their prompts. Of `SHORT` they have the token that ended the reply."""
    files = (folder / f"{name}.json" for name in prompts)
    return {file.stem: Recording.read(file) for file in files if file.exists()}


KNOBS = Knobs(temperature=0.0, predict=128)

_AVX512 = {1: 1, 2: 1.61, 3: 1.79, 4: 1.97, 5: 2.75, 6: 3.43, 7: 3.39, 9: 3.48, 13: 4.35, 17: 5.41}
_AVX512_BUSY = {1: 1, 2: 1.18, 3: 1.49, 4: 1.56, 5: 2.13, 6: 2.7, 8: 2.75, 9: 2.8, 13: 3.57, 17: 4.33, 33: 8.3}
_SMOLLM2 = {1: 1, 2: 1.84, 3: 2.27, 4: 2.77, 5: 3.38, 6: 3.98, 7: 4.29, 9: 5.11, 13: 7.06, 17: 9.02}
_SMOLLM2_BUSY = {1: 1, 2: 1.64, 3: 2.26, 4: 2.7, 6: 2.9, 7: 3.2, 9: 3.8, 13: 5.5, 17: 8.6, 33: 15.5}


def _steps(*passes: float, draft: float, pass_s: float) -> Machine:
    """A machine from its passes over 1 to 9, 12, 15, 16 and 17 rows; what larger ones take is drawn on."""
    sizes = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17)
    return Machine(dict(zip(sizes, passes, strict=True)), draft, 1e-4, known=(1, 2, 3, 4, 5, 8, 9, 12, 16, 17), pass_s=pass_s)


def _machine(*ms: float) -> Machine:
    """A machine from the milliseconds of its passes over 1, 2, 3, 4, 6, 8, 12, 16 and 32 rows, and 13 for a drafted token."""
    table = dict(zip((1, 2, 3, 4, 6, 8, 12, 16, 32), ms, strict=True))
    return Machine({n: each / ms[0] for n, each in table.items()}, 13 / ms[0], 1e-4, pass_s=ms[0] / 1000)


MACHINES = {
    "q8": {
        "AMX": Machine(
            {1: 1, 2: 1.3, 4: 1.36, 6: 1.45, 8: 1.5, 12: 1.65, 17: 1.8, 24: 2.3, 32: 2.8, 49: 3.9}, 0.2, 1e-4, pass_s=0.06
        ),
        "AVX-512": Machine(_AVX512, 0.18, 1e-4, pass_s=0.1),
        "AVX-512, memory busy": Machine(_AVX512_BUSY, 0.17, 1e-4, pass_s=0.1),
        "AVX2": Machine(
            {1: 1, 2: 1.65, 3: 2.4, 4: 2.1, 8: 3.7, 17: 6.5, 33: 12.8}, 0.17, 1e-4, known=(1, 2, 4, 8, 17), pass_s=0.12
        ),
        "AVX-512, Q8_0 in steps": _steps(
            1, 1.11, 1.24, 1.36, 1.96, 2.11, 2.22, 1.95, 2.58, 2.37, 3.28, 2.8, 3.56, draft=0.17, pass_s=0.107
        ),
        "AVX-512, Q4_0": _steps(
            1, 1.51, 1.73, 1.31, 1.84, 2.12, 2.41, 2.21, 2.52, 3.01, 3.95, 3.03, 3.57, draft=0.32, pass_s=0.057
        ),
        "AMX, Q4_K_M": _steps(1, 1.4, 1.69, 1.58, 1.61, 1.76, 1.8, 1.9, 1.94, 2.04, 2.17, 2.24, 2.59, draft=0.5, pass_s=0.06),
        "GPU": Machine({1: 1, 2: 1.02, 4: 1.06, 8: 1.15, 9: 1.4, 17: 1.5, 33: 1.7, 49: 2}, 0.25, 1e-5, pass_s=0.008),
        "Zen 3, Q4_K_M": _machine(51.4, 91.3, 133.7, 159.9, 203.5, 340.2, 468.2, 452.6, 833.3),
        "Zen 3, Q4_K_M, spectui's kernels": _machine(35.9, 37.6, 40.4, 49.8, 72.3, 82.5, 133.9, 162.2, 343.4),
        "rows nearly free": Machine({1: 1, 2: 1.05, 5: 1.12, 9: 1.2, 17: 1.4, 33: 1.8, 49: 2.2}, 0.15, 1e-5, pass_s=0.02),
    },
    "smollm2": {
        "AMX": Machine({1: 1, 2: 1.35, 4: 1.6, 8: 2.1, 17: 3.3, 33: 5.1, 49: 7}, 0.0, 1 / 300, look=0.01, pass_s=0.005),
        "AVX-512": Machine(_SMOLLM2, 0.0, 1 / 1500, look=0.02, pass_s=0.006),
        "AVX-512, memory busy": Machine(_SMOLLM2_BUSY, 0.0, 1 / 1500, look=0.02, pass_s=0.006),
    },
}
"""Machines by pair of models, all of two cores. Those with AVX-512 are what `spectui costs` printed on an EPYC: medians of five
looks with the Q8_0 pair and three with SmolLM2, and a look while its memory was slow. Of AMX and AVX2 a few sizes were measured
and the others drawn between them. Where rows are nearly free nothing was measured: so may a GPU be. What context and a look
take are orders of magnitude.
"""


ACCEPTANCES = (0.5, 0.7, 0.9)
"""Of heads: how many of their tokens are right."""

HEADS = {
    "GPU, head of a 27B": replace(MACHINES["q8"]["GPU"], draft=0.06),
    "AMX, head of a 0.8B": replace(MACHINES["q8"]["AMX"], draft=0.36),
}
"""Machines on which a target drafts with a head. Its token takes the share of the weights that one layer and the output matrix
are, of Qwen3.5's shapes."""


def foreseen(acceptance: float, length: int) -> Recording:
    """A made-up reply in which nothing is repeated, and of whose tokens a head foresees so many, by chance.

    Its confidence is always that chance, and tells nothing of the single token.
    """
    chance, wrong, prompt = Random(1), -1, 8
    tokens = list(range(prompt + length))

    def chain(position: int) -> list[tuple[int, float]]:
        right = next((n for n in range(16) if chance.random() > acceptance), 16)
        return [(position + n if n < right else wrong, acceptance) for n in range(16)]

    chains = [chain(position) for position in range(prompt, prompt + length)]
    return Recording(tokens, prompt, [acceptance] * length, chains)


def drafted_by(recording: Recording, machine: Machine, knobs: Knobs) -> tuple[float, float]:
    """Tokens drafted in a round by the mean, and how many times as fast as plain decoding the whole reply comes."""
    rounds = Simulator([recording], machine).decode(recording, knobs)
    return fmean(len(each.drafted) for each in rounds), machine.plain_s(recording) / sum(each.seconds for each in rounds)


class WithHeads(NamedTuple):
    """A machine's replies with a head of this acceptance, / plain."""

    machine: str
    acceptance: float
    drafted: float
    """Tokens in a round that auto drafts, by the mean."""
    auto: float
    fixed: list[float]
    """With drafts of these lengths."""


def with_heads(machine: str, acceptance: float, lengths: Iterable[int] = range(1, 9), tokens: int = 1024) -> WithHeads:
    """A made-up reply of so many tokens."""
    made_up, costs = foreseen(acceptance, tokens), HEADS[machine]
    knobs = replace(KNOBS, policy="fixed", drafter="model", p_min=0.0)
    fixed = [drafted_by(made_up, costs, replace(knobs, draft_max=length))[1] for length in lengths]
    return WithHeads(machine, acceptance, *drafted_by(made_up, costs, KNOBS), fixed)


def begun_at(recording: Recording, position: int) -> Recording:
    """The reply from this position of it on; what stood before it counts as prompt."""
    chains = None if recording.chains is None else recording.chains[position:]
    return replace(recording, prompt=recording.prompt + position, confidences=recording.confidences[position:], chains=chains)


def replay(recording: Recording, machine: Machine, knobs: Knobs, simulator: Simulator | None = None) -> float:
    """How many times as fast as plain decoding the reply comes, up to `knobs.predict` tokens of it.

    `simulator`: that of the replies before this one; None for a pair's first.
    """
    simulator, length = simulator or Simulator([recording], machine), min(knobs.predict, recording.length)
    if length < recording.length:
        recording = replace(recording, tokens=recording.tokens[: recording.prompt + length], ends=False)
    return machine.plain_s(recording) / sum(round.seconds for round in simulator.decode(recording, knobs))
