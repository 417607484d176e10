"""What reading a draft's output matrix by signs first saves, and how often the likeliest token is another one for it.

    python -m tests.benchmarks.signs -m DRAFT [--rounds 4]

Passes over one token each through a page of English, as the draft model's are: in turn with signs and without.
"""

import argparse
from statistics import median
from time import perf_counter

import numpy as np

from spectui.engine.loading import placement
from spectui.kernels.plugin import Kernels
from spectui.llama import selftest
from spectui.llama.context import Context
from spectui.llama.cpu import plugin
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from spectui.measure.prompts import PAGE

SETTLED = 20
"""Tokens of a round that are not timed: the other context's weights were read last."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    usable = selftest.run().extra_buffers
    own = plugin.load()
    contexts = []
    for signs in (False, True):
        kernels = Kernels(own.set, signs=signs)
        model = Model(args.model, "draft", on_devices=[], extra_buffers=usable, kernels=kernels)
        contexts.append(Context(model, Interrupt(), n_ctx=1024, rows=1, threads=placement.threads(0), flash_attn="on"))
    text = model.tokenize(PAGE, special=False)[:300]
    took = np.zeros((2, args.rounds))
    likeliest = np.zeros((2, len(text)), int)
    for turn in range(args.rounds):
        for number in (0, 1) if turn % 2 == 0 else (1, 0):
            context, times = contexts[number], list[float]()
            context.truncate(0)
            for place, token in enumerate(text):
                begun = perf_counter()
                (row,) = context.evaluate([token], 1)
                times.append(perf_counter() - begun)
                likeliest[number, place] = np.argmax(row)
            took[number, turn] = median(times[SETTLED:])
    shares = took[1] / took[0]
    print(f"{len(text)} tokens, {args.rounds} rounds in turn:")
    print(f"  ms a token, weights as they are  {' '.join(f'{each:.2f}' for each in took[0] * 1e3)}")
    print(f"  ms a token, signs first          {' '.join(f'{each:.2f}' for each in took[1] * 1e3)}")
    print(f"  share                            {' '.join(f'{each:.2f}' for each in shares)}, mean {shares.mean():.2f}")
    print(f"  same likeliest token             {(likeliest[0] == likeliest[1]).mean():.3f}")


if __name__ == "__main__":
    main()
