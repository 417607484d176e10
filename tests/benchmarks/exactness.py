"""What it costs that a text does not depend on drafts, by length of the context: passes and prompts, for each way to have it.

On a CPU with flash attention ggml rounds a single row differently from several, from 257 tokens of context on. Ways out:

    kernels     the reference kernels for single rows (what spectui does: see spectui/llama/cpu/reference_path.py)
    V in bf16   cells of two types, for which ggml has one kernel
    two rows    a second row beside each single one, which nobody reads
    no flash    no flash attention: single rows round differently at every length, shown for comparison

A pass is printed in ms, with its ratio to llama.cpp's usual pass over one row, and whether a single row is equal to the first
of eight. The ways take turns, and each figure is a median. `--replies N` decodes N seeded replies with drafts and without,
and counts those that are equal.

    python -m tests.benchmarks.exactness -m TARGET [--lengths 100,300,600,1500] [-n 9]
    python -m tests.benchmarks.exactness -m TARGET -md DRAFT --replies 40

`--passes` prints, for the kernels that GGML_CPU_TILED_MM in the environment and --no-repack choose: ms of passes by their rows
in a short context, up to how many rows all are equal to single ones, and tokens of a prompt a second.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from statistics import median
from time import perf_counter

import numpy as np

from spectui.engine.events import Event, Message
from spectui.engine.loading.placement import threads as cores
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.llama import selftest
from spectui.llama.context import Context
from spectui.llama.cpu.reference_path import ReferencePath
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from spectui.measure.quiet import Stolen, busy

ROWS = 8, 16
LONGEST = max(ROWS)


class Way:
    """One way to evaluate a single row. Ways of one kind of cells share a context, since they read prompts alike."""

    def __init__(self, name: str, context: Context, reference: bool = False, rows: int = 1) -> None:
        self.name, self.context, self.rows = name, context, rows
        self._kernels = ReferencePath(context.handle)
        self._reference = reference

    def evaluate(self, tokens: list[int]) -> tuple[float, np.ndarray]:
        """Seconds of a pass over these tokens, and the first of its rows. The context is cut back."""
        before = len(self.context.tokens)
        passed = tokens if len(tokens) > 1 else tokens * self.rows
        self._kernels.use(self._reference and len(passed) == 1)
        seconds = float("inf")
        for _ in range(2):  # the first pass after one of another size costs more
            self.context.truncate(before)
            began = perf_counter()
            rows = self.context.evaluate(passed, len(passed))
            seconds = perf_counter() - began
        row: np.ndarray = rows[0].copy()
        self.context.truncate(before)
        self._kernels.use(False)
        return seconds, row


def compare(options: argparse.Namespace) -> None:
    """Print a table for each length."""
    model = Model(options.model, "target", extra_buffers=selftest.run().extra_buffers)
    lengths = [int(length) for length in options.lengths.split(",")]

    def opened(type_v: str = "f16", flash_attn: str = "on", ubatch: int = 512) -> Context:
        size = {"n_ctx": max(lengths) + LONGEST, "rows": LONGEST, "ubatch": ubatch, "threads": cores(options.threads)}
        return Context(model, Interrupt(), type_v=type_v, flash_attn=flash_attn, **size)  # type: ignore[arg-type]

    usual = opened()
    ways = [Way("usual", usual), Way("kernels", usual, reference=True), Way("two rows", usual, rows=2),
            Way("V in bf16", opened("bf16"))]  # fmt: skip
    if options.no_flash:
        ways.append(Way("no flash", opened(flash_attn="off", ubatch=128)))
    numbers = random.Random(1)
    text = [numbers.randrange(100, min(5000, model.n_vocab)) for _ in range(max(lengths) + LONGEST)]
    print(f"{model.description}, {cores(options.threads)} threads" + (f"; {busy()}" if busy() else ""))
    for length in lengths:
        read: dict[int, float] = {}
        for way in ways:
            context, began = way.context, perf_counter()
            start = len(context.tokens)
            for at in range(start, length, context.chunk):
                context.evaluate(text[at : min(length, at + context.chunk)], 0)
            if start < length:
                read[id(context)] = (length - start) / (perf_counter() - began)
        found: dict[tuple[str, int], list[float]] = {(way.name, n): [] for way in ways for n in (1, *ROWS)}
        equal = dict.fromkeys((way.name for way in ways), False)
        for _ in range(options.n):
            for way in ways:
                rows = []
                for n in (1, *ROWS):
                    seconds, row = way.evaluate(text[length : length + n])
                    found[way.name, n].append(seconds)
                    rows.append(row)
                equal[way.name] = np.array_equal(rows[0], rows[1])
        print(f"\n{length} tokens  prompt t/s   1 row" + "".join(f"{n:>16} rows" for n in ROWS) + "   equal")
        base = median(found["usual", 1])
        for way in ways:
            passes = [median(found[way.name, n]) for n in (1, *ROWS)]
            cells = "".join(f"{1000 * seconds:9.1f} ms x{seconds / base:5.3f}" for seconds in passes)
            print(f"{way.name:<12}{read[id(way.context)]:12.0f} {cells}  {'yes' if equal[way.name] else 'no'}")


def time_passes(options: argparse.Namespace) -> None:
    """Print what passes take by their rows, and up to which all rows are equal to those of single passes."""
    sizes = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32
    before, prompt = 16, 256
    fast = selftest.run().extra_buffers and not options.no_repack
    model = Model(options.model, "target", on_devices=[], extra_buffers=fast)
    size = {"n_ctx": 512, "rows": max(sizes), "threads": cores(options.threads)}
    context = Context(model, Interrupt(), flash_attn="on", equal_rows=True, **size)  # type: ignore[arg-type]
    numbers = random.Random(1)
    text = [numbers.randrange(100, min(5000, model.n_vocab)) for _ in range(prompt)]
    reading = []
    for _ in range(2):
        context.truncate(0)
        began = perf_counter()
        context.evaluate(text, 0)
        reading.append(perf_counter() - began)
    context.truncate(before)
    singles = [context.evaluate([token], 1)[0].copy() for token in text[before : before + max(sizes)]]
    seconds: dict[int, list[float]] = {n: [] for n in sizes}
    equal = dict.fromkeys(sizes, True)
    for _ in range(options.n):
        for n in sizes:
            for _ in range(
                2 if n == 1 else 1
            ):  # plain decoding repeats passes over one row, for which llama.cpp keeps its graph
                context.truncate(before)
                began = perf_counter()
                rows = context.evaluate(text[before : before + n], n)
                took = perf_counter() - began
            seconds[n].append(took)
            equal[n] &= all(np.array_equal(row, single) for row, single in zip(rows, singles, strict=False))
    print(f"{model.description}, {cores(options.threads)} threads" + (f"; {busy()}" if busy() else ""))
    print("rows " + "".join(f"{n:7}" for n in sizes) + "   equal up to   prompt t/s")
    up_to = max(n for n in sizes if all(equal[m] for m in sizes if m <= n))
    print(
        "ms   "
        + "".join(f"{1000 * median(seconds[n]):7.1f}" for n in sizes)
        + f"{up_to:15}{prompt / min(reading):13.0f}"
    )


def count_replies(options: argparse.Namespace) -> None:
    """Decode seeded replies with drafts of random lengths and without, and count those that are equal."""
    session = Session(lambda event: turn(event))
    lengths = random.Random(2)

    def turn(_: Event) -> None:
        if session.knobs.drafter != "off":
            session.knobs = replace(session.knobs, draft_max=lengths.randrange(17))

    session.load(
        Setup(model=options.model, draft=options.draft, ctx_size=1024, threads=options.threads, no_profile="on")
    )
    messages = [Message("user", "Write a long story about a lighthouse keeper who finds a map.")]
    knobs = Knobs(temperature=0.7, predict=options.tokens, policy="fixed", draft_max=8, p_min=0.0)
    equal = 0
    for seed in range(options.replies):
        texts, longest = [], 0
        for drafter in ("off", knobs.drafter):
            session.knobs = replace(knobs, seed=seed, drafter=drafter)
            finished = session.generate(messages)
            texts.append(finished.text)
            longest = (finished.prompt_tokens or 0) + finished.statistics.emitted
        equal += texts[0] == texts[1]
        print(
            f"seed {seed}: {'equal' if texts[0] == texts[1] else 'different'}, to {longest} tokens of context",
            flush=True,
        )
    print(f"{equal} of {options.replies} replies are plain decoding's")
    session.close()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-md", "--draft")
    parser.add_argument("-t", "--threads", type=int, default=0)
    parser.add_argument("--lengths", default="100,300,600,1500")
    parser.add_argument("-n", type=int, default=9, help="passes of each kind, median")
    parser.add_argument("--passes", action="store_true", help="passes by their rows, for the kernels in use")
    parser.add_argument("--no-repack", action="store_true", help="with --passes: no repacked weights")
    parser.add_argument("--no-flash", action="store_true", help="also without flash attention")
    parser.add_argument("--replies", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=400, help="of a reply")
    options = parser.parse_args()
    stolen = Stolen()
    if options.replies:
        count_replies(options)
    elif options.passes:
        time_passes(options)
    else:
        compare(options)
    print(stolen)


if __name__ == "__main__":
    main()
