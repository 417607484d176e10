"""What it takes to choose the tokens of a pass over 1 row and over 17, in milliseconds.

    python -m tests.benchmarks.choosing

The rows are random logits of 151,936 tokens (normal, with standard deviation 2.5; a wider spread of 4 is a surer model). All
tokens of the pass are asked for, as after a draft that was accepted whole. *every token's noise* is the definition, which
calculates the noise of the whole vocabulary; the tokens are the same. A figure is the median of passes, on a quiet machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from spectui.knobs import Knobs
from spectui.speculation.choice import choose_rows
from spectui.speculation.noise import gumbel
from spectui.speculation.sampling import distribution

VOCABULARY = 151_936
ROWS = 1, 17

ALL = Knobs(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=1)

SETTINGS = {
    "temperature 0": Knobs(temperature=0.0),
    "top-k 40": Knobs(top_k=40, top_p=1.0, min_p=0.0, seed=1),
    "top-k 40, top-p .95, min-p .05": Knobs(seed=1),
    "the same with a presence penalty": Knobs(presence_penalty=1.5, seed=1),
    "top-k 0": ALL,
    "top-k 0, top-p .95": Knobs(temperature=1.0, top_k=0, top_p=0.95, min_p=0.0, seed=1),
    "top-k 0, min-p .05": Knobs(temperature=1.0, top_k=0, top_p=1.0, min_p=0.05, seed=1),
}


def chosen(rows: NDArray[np.float32], knobs: Knobs) -> list[int]:
    """The tokens of a pass."""
    history = list(range(100))
    for choice in choose_rows(rows, knobs, history):
        history.append(choice.token)
    return history[100:]


def by_every_noise(rows: NDArray[np.float32], knobs: Knobs) -> list[int]:
    """The same from the noise of every token."""
    found = []
    for position, row in enumerate(rows, 100):
        ids, log_p = distribution(row, knobs)
        found.append(int(ids[(log_p + gumbel(knobs.seed, position, ids)).argmax()]))
    return found


def milliseconds(
    choose: Callable[[NDArray[np.float32], Knobs], Sequence[int]], passes: Sequence[NDArray[np.float32]], knobs: Knobs
) -> float:
    """The median of these passes."""
    found = []
    for rows in passes:
        began = perf_counter()
        choose(rows, knobs)
        found.append(1e3 * (perf_counter() - began))
    return median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=40)
    parser.add_argument("--spread", type=float, default=2.5)
    args = parser.parse_args()
    numbers = np.random.default_rng(1)
    source = numbers.normal(0, args.spread, VOCABULARY + 64 * args.passes).astype(np.float32)
    print(f"| settings | {' | '.join(f'rows: {n}' for n in ROWS)} |")
    print("| --- " * (len(ROWS) + 1) + "|")
    ways = [(name, chosen, knobs) for name, knobs in SETTINGS.items()]
    for name, way, knobs in [*ways, ("top-k 0, every token's noise", by_every_noise, ALL)]:
        figures = []
        for n in ROWS:
            passes = [
                np.stack([source[64 * (first + each) % (64 * args.passes) :][:VOCABULARY] for each in range(n)])
                for first in range(args.passes if n == 1 else 8)
            ]
            assert chosen(passes[0], ALL) == by_every_noise(passes[0], ALL)
            figures.append(f"{milliseconds(way, passes, knobs):.2f}")
        print(f"| {name} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
