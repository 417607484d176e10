"""spectui's kernels beside llama.cpp's: passes, prompts, generation, loading, memory, and whether texts stay as likely.

    python -m tests.benchmarks.kernels -m MODEL [-m MODEL ...] [--rounds 7] [--context 64] [--behind 1000,4000] [--sets avx2]

For each model a process of its own for llama.cpp's kernels and for each instruction set of spectui's. All stay loaded, and are
asked in turn, so that what the machine does meanwhile meets all of them. A figure is the median of the rounds; with "x" it is
a ratio to llama.cpp's. Sizes of passes: tokens at once, with logits for each, behind `--context` tokens, and some sizes behind
longer ones, once.

*roofline*: the bytes of the weights that a pass over one token reads, over the bandwidth at which this machine reads memory,
which is measured in each round. No kernel can be faster. *perplexity*: of `--text`, in pages of 640 tokens. Rounding alone
moves it, in small models more: *by chance* is the standard error of the difference. *greedy*: where llama.cpp's greedy text
has another token than spectui's kernels would choose, and how far apart the two logits are.
"""

import argparse
import ctypes
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
BEFORE, GREEDY = 100, 400
MOST_APART = 0.002
"""Share of a perplexity, beside twice what chance does."""

TEXT = Path(__file__).parents[2] / "docs" / "exactness.md"

Figures = Mapping[str, float]


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

    def passes(self) -> Figures:
        """Seconds by size behind the first context."""
        return self._seconds(self._contexts[0], SIZES)

    def behind(self) -> Sequence[Figures]:
        """Seconds by size behind each of the longer contexts."""
        return [self._seconds(context, FEW_SIZES) for context in self._contexts[1:]]

    def _seconds(self, context: int, sizes: Sequence[int]) -> Figures:
        """By size: the fastest of some, since the first pass of a size costs more."""
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
            seconds[str(n)] = min(tried)
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

    def greedy(self, text: str) -> list[int]:
        """The tokens of the greatest logits behind the text's first tokens."""
        self._context.clear()
        token = int(self._context.evaluate(self._model.tokenize(text, special=False)[:BEFORE], 1)[0].argmax())
        found = [token]
        while len(found) < GREEDY:
            token = int(self._context.evaluate([token], 1)[0].argmax())
            found.append(token)
        return found

    def choose(self, text: str, greedy: Sequence[int]) -> list[float]:
        """Where these kernels would choose another token than this greedy text has: by how much its logit is greater."""
        self._context.clear()
        tokens = [*self._model.tokenize(text, special=False)[:BEFORE], *greedy]
        self._context.evaluate(tokens[: BEFORE - 1], 0)
        gaps = []
        for first in range(BEFORE - 1, len(tokens) - 1, max(SIZES)):
            part = tokens[first : min(first + max(SIZES), len(tokens) - 1)]
            rows = self._context.evaluate(part, len(part))
            right = rows[np.arange(len(part)), tokens[first + 1 : first + 1 + len(part)]]
            gaps += [float(gap) for gap in rows.max(axis=1) - right if gap > 0]
        return gaps

    def _tokens(self, count: int) -> list[int]:
        return [(7 * at + 5) % min(20_000, self._model.n_vocab) for at in range(count)]

    def _fill(self, tokens: Sequence[int]) -> None:
        self._context.clear()
        if tokens:
            self._context.evaluate(tokens, 0)

    def answer(self, asked: str, text: str) -> Any:
        what, *numbers = asked.split()
        if what == "choose":
            return self.choose(text, [int(each) for each in numbers])
        return getattr(self, what)(text) if what in ("surprises", "greedy") else getattr(self, what)()


class Process:
    """A worker in a process of its own."""

    def __init__(self, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.kernels", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load_s: float = self._answer()

    def ask(self, what: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("A process ended: its last lines are above.")
        return json.loads(line)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


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

    passes: Mapping[str, Sequence[Figures]]
    behind: Mapping[str, Sequence[Figures]]
    speeds: Mapping[str, Sequence[Figures]]
    loads: Mapping[str, Sequence[float]]
    memory: Mapping[str, Figures]
    surprises: Mapping[str, Sequence[float]]
    gaps: Mapping[str, Sequence[float]]
    bandwidths: Sequence[float]


def measure(model: str, kinds: Sequence[str], args: argparse.Namespace) -> Measured:
    """Load this model with each of these kernels, and ask them in turn."""
    names = ("context", "behind", "threads", "flash_attn", "text")
    shared = [f"--{name.replace('_', '-')}={getattr(args, name)}" for name in names]
    memory = Memory(args.threads)
    loads: dict[str, list[float]] = {kind: [] for kind in kinds}
    processes: dict[str, Process] = {}
    for again in (False, True):  # the file is in the system's cache the second time
        for kind in kinds:
            if again:
                processes[kind].end()
            processes[kind] = Process(["-m", model, "--worker", kind, *shared])
            loads[kind].append(processes[kind].load_s)
    passes: dict[str, list[Figures]] = {kind: [] for kind in kinds}
    speeds: dict[str, list[Figures]] = {kind: [] for kind in kinds}
    bandwidths = []
    for _ in range(args.rounds):
        bandwidths.append(max(memory.bandwidth() for _ in range(REPEATED)))
        for kind in kinds:
            passes[kind].append(processes[kind].ask("passes"))
            speeds[kind].append(processes[kind].ask("speeds"))
    behind = {kind: processes[kind].ask("behind") for kind in kinds}
    sizes = {kind: processes[kind].ask("memory") for kind in kinds}
    surprises = {kind: processes[kind].ask("surprises") for kind in kinds}
    chosen = " ".join(map(str, processes[LLAMA_CPP].ask("greedy")))
    gaps = {kind: processes[kind].ask(f"choose {chosen}") for kind in kinds[1:]}
    for process in processes.values():
        process.end()
    return Measured(passes, behind, speeds, loads, sizes, surprises, gaps, bandwidths)


def print_passes(times: Mapping[str, Mapping[int, float]], sizes: Sequence[int]) -> None:
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
    times = {kind: {n: median(each[str(n)] for each in found.passes[kind]) for n in SIZES} for kind in kinds}
    print_passes(times, SIZES)
    for number, context in enumerate(numbers(args.behind)):
        print(f"behind {context} tokens, once")
        print_passes({kind: {n: found.behind[kind][number][str(n)] for n in FEW_SIZES} for kind in kinds}, FEW_SIZES)
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
    for kind, gaps in found.gaps.items():
        most = max(gaps, default=0.0)
        print(f"greedy: {kind} would choose {len(gaps)} of {GREEDY} tokens otherwise, by {most:.3f} of a logit at most")
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
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.threads = cores(args.threads)
    if args.worker:
        worker = Worker(args.model[0], args.worker, [args.context, *numbers(args.behind)], args.threads, args.flash_attn)
        print(json.dumps(worker.load_s), flush=True)
        text = args.text.read_text(encoding="utf-8")
        for line in sys.stdin:
            print(json.dumps(worker.answer(line.strip(), text)), flush=True)
        return
    kinds = [LLAMA_CPP, *(args.sets.split(",") if args.sets else instruction_sets())]
    stolen, other = Stolen(), busy()
    if other:
        print(f"the machine is not quiet: {other}")
    for model in args.model:
        report(model, measure(model, kinds, args), args)
    print(stolen)


if __name__ == "__main__":
    main()
