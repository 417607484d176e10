"""spectui's kernels beside llama.cpp's: passes, prompts, generation, loading, memory, and whether texts stay as likely.

    python -m tests.benchmarks.kernels -m MODEL [-m MODEL ...] [--rounds 7] [--context 64] [--behind 1000,4000] [--sets avx2]

For each model a process of its own for llama.cpp's kernels and for each instruction set of spectui's. All stay loaded, and are
asked in turn, so that what the machine does meanwhile meets all of them. A figure is the median of the rounds; with "x" it is
a ratio to llama.cpp's. Sizes of passes: tokens at once, with logits for each, behind `--context` tokens, and some sizes behind
longer ones, once.

*roofline*: the bytes of the weights that a pass over one token reads, over the bandwidth at which this machine reads memory,
which is measured in each round. No kernel can be faster. *perplexity*: of `--text`, in pages of 640 tokens. Rounding alone
moves it, in small models more: *by chance* is the standard error of the difference.
"""

import argparse
import ctypes
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import psutil

from spectui.engine.loading.placement import threads as cores
from spectui.gguf_files.check import metadata_of
from spectui.kernels.build import LIBRARY
from spectui.kernels.plugin import Kernels
from spectui.knobs import Setup
from spectui.llama import selftest
from spectui.llama.context import Context
from spectui.llama.cpu import plugin
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from spectui.measure.quiet import Stolen, busy

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 32)
FEW_SIZES = (1, 2, 4, 8, 16)
"""Behind long contexts."""
LLAMA_CPP = "llama.cpp"
PROMPT, GENERATED, PAGE, REPEATED = 512, 32, 640, 3
MOST_APART = 0.002
"""Share of a perplexity, beside twice what chance does."""

TEXT = Path(__file__).parents[2] / "docs" / "exactness.md"

Figures = Mapping[str, float]
Times = Mapping[int, float]
"""Seconds by the size of a pass."""


class Worker:
    """A model with its kernels, in this process."""

    def __init__(self, model: str, kernels: str, contexts: Sequence[int], threads: int, flash_attn: str) -> None:
        if kernels != LLAMA_CPP:
            plugin.load(only=kernels)
        usable = selftest.run().extra_buffers
        began = perf_counter()
        self._model = Model(
            model,
            on_devices=[],
            extra_buffers=usable,
            kernels=Kernels("" if kernels == LLAMA_CPP else kernels),
            threads=threads,
        )
        self.load_s = perf_counter() - began
        size = max(max(contexts) + max(SIZES), PROMPT + GENERATED, PAGE) + 1
        self._context = Context(
            self._model, Interrupt(), n_ctx=size, rows=max(SIZES), threads=threads, flash_attn=flash_attn,
            type_k=Setup().cache_type_k, type_v=Setup().cache_type_v,
        )  # fmt: skip
        self._contexts = contexts

    def passes(self) -> Times:
        """Behind the first context."""
        return self._seconds(self._contexts[0], SIZES)

    def behind(self) -> Sequence[Times]:
        """Behind each of the longer contexts."""
        return [self._seconds(context, FEW_SIZES) for context in self._contexts[1:]]

    def _seconds(self, context: int, sizes: Sequence[int]) -> Times:
        """The fastest of some, since the first pass of a size costs more."""
        tokens = self._tokens(context + max(sizes))
        self._fill(tokens[:context])
        seconds = {}
        for n in sizes:
            tried = []
            for _ in range(REPEATED):
                self._context.truncate(context)
                began = perf_counter()
                self._context.evaluate(tokens[context : context + n], n)
                tried.append(perf_counter() - began)
            seconds[n] = min(tried)
        return seconds

    def speeds(self) -> Figures:
        """Tokens per second of a prompt, and of passes over one token behind it."""
        tokens = self._tokens(PROMPT + GENERATED)
        self._context.clear()
        began = perf_counter()
        self._context.evaluate(tokens[:PROMPT], 0)
        read = perf_counter() - began
        began = perf_counter()
        for token in tokens[PROMPT:]:
            self._context.evaluate([token], 1)
        return {"prompt": PROMPT / read, "generation": GENERATED / (perf_counter() - began)}

    def memory(self) -> Figures:
        """Megabytes in memory of its own, and of the mapped file, which others share and the system may drop."""
        found = psutil.Process().memory_info()
        shared = getattr(found, "shared", 0)
        return {"own": (found.rss - shared) / 1e6, "mapped": shared / 1e6}

    def surprises(self, text: str) -> list[float]:
        """Minus the log-probabilities of the text's tokens, each behind those of its page before it."""
        tokens = self._model.tokenize(text, special=False)
        found: list[float] = []
        for first in range(0, len(tokens) - 1, max(SIZES)):
            if first % PAGE == 0:
                self._context.clear()
            part = tokens[first : min(first + max(SIZES), len(tokens) - 1)]
            rows = self._context.evaluate(part, len(part)).astype(np.float64)
            most = rows.max(axis=1)
            log_total = most + np.log(np.exp(rows - most[:, None]).sum(axis=1))
            found += (log_total - rows[np.arange(len(part)), tokens[first + 1 : first + 1 + len(part)]]).tolist()
        return found

    def _tokens(self, count: int) -> list[int]:
        return [(7 * at + 5) % min(20_000, self._model.n_vocab) for at in range(count)]

    def _fill(self, tokens: Sequence[int]) -> None:
        self._context.clear()
        if tokens:
            self._context.evaluate(tokens, 0)


class Process:
    """A worker in a process of its own."""

    _worker: Worker
    """In that process."""

    def __init__(self, *given: Any) -> None:
        """`given`: what `Worker` takes."""
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), self._load, given)

    def ask(self, what: str, *given: str) -> Any:
        """What the worker's method of this name, or its attribute, is."""
        return self._pool.submit(self._answer, what, *given).result()

    def end(self) -> None:
        self._pool.shutdown()

    @classmethod
    def _load(cls, *given: Any) -> None:
        cls._worker = Worker(*given)

    @classmethod
    def _answer(cls, what: str, *given: str) -> Any:
        asked = getattr(cls._worker, what)
        return asked(*given) if callable(asked) else asked


class Memory:
    """Reads memory as fast as it can, with as many threads as passes have."""

    def __init__(self, threads: int) -> None:
        self._parts = [np.ones(2**26, np.int32) for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads)

    def bandwidth(self) -> float:
        """Gigabytes per second."""
        began = perf_counter()
        list(self._pool.map(np.max, self._parts))
        return sum(part.nbytes for part in self._parts) / (perf_counter() - began) / 1e9


def read_bytes(model: str) -> float:
    """Bytes of the weights that a pass over one token multiplies by: of a mixture, those of the experts that it uses."""
    file = metadata_of(model)
    share = {True: float(file.number("expert_used_count") or 1), False: 1.0}
    return sum(each.size * share[each.matrices[2] > 1] / each.matrices[2] for each in file.tensors.matrices)


def instruction_sets() -> list[str]:
    """Those that the library has and this CPU too, the best first."""
    library = ctypes.CDLL(str(LIBRARY))
    library.spectui_kernels_sets.restype = ctypes.c_char_p
    return str(library.spectui_kernels_sets().decode()).split()


class Measured(NamedTuple):
    """Of a model: by kernels, and where there are several rounds, of each."""

    passes: Mapping[str, Sequence[Times]]
    behind: Mapping[str, Sequence[Times]]
    speeds: Mapping[str, Sequence[Figures]]
    loads: Mapping[str, Sequence[float]]
    memory: Mapping[str, Figures]
    surprises: Mapping[str, Sequence[float]]
    bandwidths: Sequence[float]


def measure(model: str, kinds: Sequence[str], args: argparse.Namespace) -> Measured:
    """Load this model with each of these kernels, and ask them in turn."""
    contexts = [args.context, *numbers(args.behind)]
    memory = Memory(args.threads)
    loads: dict[str, list[float]] = {kind: [] for kind in kinds}
    processes: dict[str, Process] = {}
    for again in (False, True):  # the file is in the system's cache the second time
        for kind in kinds:
            if again:
                processes[kind].end()
            processes[kind] = Process(model, kind, contexts, args.threads, args.flash_attn)
            loads[kind].append(processes[kind].ask("load_s"))
    passes: dict[str, list[Times]] = {kind: [] for kind in kinds}
    speeds: dict[str, list[Figures]] = {kind: [] for kind in kinds}
    bandwidths = []
    for _ in range(args.rounds):
        bandwidths.append(max(memory.bandwidth() for _ in range(REPEATED)))
        for kind in kinds:
            passes[kind].append(processes[kind].ask("passes"))
            speeds[kind].append(processes[kind].ask("speeds"))
    behind = {kind: processes[kind].ask("behind") for kind in kinds}
    sizes = {kind: processes[kind].ask("memory") for kind in kinds}
    text = args.text.read_text(encoding="utf-8")
    surprises = {kind: processes[kind].ask("surprises", text) for kind in kinds}
    for process in processes.values():
        process.end()
    return Measured(passes, behind, speeds, loads, sizes, surprises, bandwidths)


def print_passes(times: Mapping[str, Times], sizes: Sequence[int]) -> None:
    """By kernels: milliseconds, how many passes of one token that is, and the ratio to llama.cpp's."""
    print(f"{'ms a pass (of one token)':24}" + "".join(f"{n:>14}" for n in sizes))
    for kind, of in times.items():
        print(f"{kind:24}" + "".join(f"{f'{1e3 * of[n]:.1f} ({of[n] / of[1]:.2f})':>14}" for n in sizes))
    for kind, of in list(times.items())[1:]:
        print(f"{f'{kind}, x':24}" + "".join(f"{of[n] / times[LLAMA_CPP][n]:>14.2f}" for n in sizes))


def numbers(text: str) -> list[int]:
    """Whole numbers, by commas."""
    return [int(part) for part in text.split(",") if part]


def report(model: str, found: Measured, args: argparse.Namespace) -> None:
    """Print the tables."""
    kinds = list(found.passes)
    print(f"\n{Path(model).name}, {args.threads} threads, context {args.context}, medians of {args.rounds} rounds")
    times = {kind: {n: median(each[n] for each in found.passes[kind]) for n in SIZES} for kind in kinds}
    print_passes(times, SIZES)
    for number, context in enumerate(numbers(args.behind)):
        print(f"behind {context} tokens, once")
        print_passes({kind: {n: found.behind[kind][number][n] for n in FEW_SIZES} for kind in kinds}, FEW_SIZES)
    bandwidth, weights = median(found.bandwidths), read_bytes(model)
    least = weights / bandwidth / 1e9
    print(f"roofline: {weights / 1e6:.0f} MB a pass at {bandwidth:.1f} GB/s is {1e3 * least:.1f} ms; one token takes")
    print("    " + ", ".join(f"{times[kind][1] / least:.2f} of it with {kind}" for kind in kinds))

    def medians(what: str) -> Figures:
        return {kind: median(each[what] for each in found.speeds[kind]) for kind in kinds}

    rows: dict[str, Figures] = {
        f"prompt of {PROMPT}, tokens/s": medians("prompt"),
        "generation, tokens/s": medians("generation"),
        "loading, s": {kind: min(found.loads[kind]) for kind in kinds},
        "memory of its own, MB": {kind: found.memory[kind]["own"] for kind in kinds},
        "memory mapped, MB": {kind: found.memory[kind]["mapped"] for kind in kinds},
        "perplexity": {kind: float(np.exp(np.mean(found.surprises[kind]))) for kind in kinds},
    }
    print(f"{'':24}" + "".join(f"{kind:>20}" for kind in kinds))
    for name, values in rows.items():
        digits = 4 if name == "perplexity" else 1
        ratios = {kind: f" (x{values[kind] / values[LLAMA_CPP]:.{max(2, digits)}f})" for kind in kinds[1:]}
        print(f"{name:24}" + "".join(f"{f'{values[kind]:.{digits}f}' + ratios.get(kind, ''):>20}" for kind in kinds))
    for kind in kinds[1:]:
        apart = np.subtract(found.surprises[kind], found.surprises[LLAMA_CPP])
        mean, error = abs(float(apart.mean())), float(apart.std()) / len(apart) ** 0.5
        said = "well" if mean - 2 * error <= MOST_APART else "too much"
        print(f"perplexity: {kind} is {100 * mean:.2f} % apart, {100 * error:.2f} % of it by chance: {said}")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", action="append", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--behind", default="1000,4000", help="longer contexts, by commas")
    parser.add_argument("--threads", type=int, default=0, help="as spectui's -t; 0: the fast cores")
    parser.add_argument("--flash-attn", default=Setup().flash_attn)
    parser.add_argument("--sets", help="instruction sets, by commas; without it all that the library and this CPU have")
    parser.add_argument("--text", type=Path, default=TEXT)
    args = parser.parse_args()
    args.threads = cores(args.threads)
    kinds = [LLAMA_CPP, *(args.sets.split(",") if args.sets else instruction_sets())]
    stolen, other = Stolen(), busy()
    if other:
        print(f"the machine is not quiet: {other}")
    for model in args.model:
        report(model, measure(model, kinds, args), args)
    print(stolen)


if __name__ == "__main__":
    main()
