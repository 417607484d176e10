"""spectui against llama.cpp's own speculative decoder: same files, same kernels, same settings, in alternation.

    LLAMA_CPP_LIB_PATH=DIR/bin python -m tests.benchmarks.versus_llama_cpp --peers DIR --models DIR --pair q8

DIR/bin holds llama-speculative-simple and the shared libraries that it and Python both use. Every figure is tokens per second
of decoding, greedy. A row: plain decoding; llama.cpp's best over a sweep of its settings; spectui with a fixed draft and
llama.cpp with the same; spectui auto, cold (it has learned nothing but the pass costs). Lines of results are kept in a file, so
that an interrupted run goes on where it was; `--report` prints the table of what is there.
"""

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import Any

from spectui.engine.events import Event, Message
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.measure.quiet import Stolen, busy
from tests.benchmarks.prompts import PROMPTS

_Q8 = ("qwen2.5-coder-1.5b-instruct-q8_0.gguf", "qwen2.5-coder-0.5b-instruct-q4_0.gguf")
_SMOLLM2 = ("SmolLM2-135M-Instruct.Q4_1.gguf", None)

PAIRS = {
    "q8": (*_Q8, "auto"),
    "q8-fa-off": (*_Q8, "off"),
    "q4": ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "auto"),
    "smollm2": (*_SMOLLM2, "auto"),
    "smollm2-fa-off": (*_SMOLLM2, "off"),
}
"""Target, draft and flash attention, which both sides get."""

FIXED = (8, 0.7)
"""draft-max and p-min of the comparison at equal settings."""

Record = dict[str, Any]
"""A run: prompt, who, number, speed and what else was noted; a line of the file of results."""

PLAIN = Knobs(drafter="off", policy="fixed", temperature=0.0)
AUTO = Knobs(drafter="auto", policy="auto", temperature=0.0)
EQUAL = Knobs(drafter="model", policy="fixed", temperature=0.0, draft_max=FIXED[0], p_min=FIXED[1])


class Spectui:
    """One side: the engine, loaded once."""

    def __init__(self, setup: Setup, predict: int) -> None:
        self._setup = setup
        self._predict = predict
        self.listen: Callable[[Event], None] = lambda _: None
        self.session = Session(lambda event: self.listen(event))
        self.session.load(setup)
        pair = self.session.pair
        assert pair is not None and pair.template is not None
        self.pair, self.template = pair, pair.template

    def run(self, knobs: Knobs, prompt: str) -> Record:
        """One reply from cold: what was learned before is forgotten, what passes cost is not."""
        self.pair.clear_caches()  # with a conversation in memory, the look at how fast the machine is today is left out
        self.session.load(self._setup)
        self.session.knobs = replace(knobs, predict=self._predict)
        finished = self.session.generate([Message("user", prompt)])
        statistics = finished.statistics
        return {
            "speed": statistics.tokens_per_s,
            "acceptance": statistics.acceptance,
            "per_pass": statistics.tokens_per_pass,
            "text": finished.text,
        }


@dataclass(frozen=True)
class Peer:
    """One setting of llama-speculative-simple. `flags` are its own."""

    name: str
    flags: tuple[str, ...]


def drafting(most: int, p_min: float, types: str = "draft-simple") -> Peer:
    """A draft model with draft-max and p-min, perhaps after a draft-free type."""
    flags = ("--spec-type", types, "--spec-draft-n-max", str(most), "--spec-draft-p-min", str(p_min))
    return Peer(f"{types.replace('draft-simple', 'draft')} {most}/{p_min:g}", flags)


def sweep(quick: bool) -> list[Peer]:
    """The settings among which llama.cpp's best is looked for, per prompt."""
    fixed = [(3, 0.0), (8, 0.7), (16, 0.8)] if quick else [(n, p) for n in (3, 8, 16) for p in (0.0, 0.4, 0.8)]
    free = ("ngram-simple", "ngram-mod", "ngram-map-k4v")
    short = ("--spec-ngram-simple-size-n", "4", "--spec-ngram-simple-size-m", "16")
    return [
        *(drafting(most, p_min) for most, p_min in fixed),
        *(Peer(kind, ("--spec-type", kind)) for kind in free),
        Peer("ngram-simple 4/16", ("--spec-type", "ngram-simple", *short)),
        *(drafting(8, 0.7, f"{kind},draft-simple") for kind in (free[:1] if quick else free)),
    ]


def run_peer(args: argparse.Namespace, peer: Peer, prompt: str) -> Record:
    """One reply of llama.cpp's, as fast as it prints."""
    target, draft, flash_attn = PAIRS[args.pair]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(prompt + "\n")  # llama.cpp drops the last newline of a file
        file.flush()
        command = [
            str(args.peers / "bin" / "llama-speculative-simple"), "-m", str(args.models / target), "-f", file.name,
            "-n", str(args.predict), "--temp", "0", "-c", str(args.ctx), "-t", str(args.threads), "-fa", flash_attn,
            *peer.flags,
        ]  # fmt: skip
        if draft is not None and "draft" in peer.name:
            command += ["-md", str(args.models / draft), "-td", str(args.threads)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600)
    printed = done.stdout + done.stderr
    speed = re.search(r"decoded\s+\d+ tokens in\s+[\d.]+ seconds, speed:\s+([\d.]+) t/s", printed)
    if speed is None:
        raise SystemExit(f"{peer.name} printed no speed:\n{printed[-2000:]}")
    return {"speed": float(speed.group(1)), "setting": peer.name}


def measure(args: argparse.Namespace) -> Iterator[Record]:
    """A record per run; those already in the file are not made again."""
    target, draft, flash_attn = PAIRS[args.pair]
    setup = Setup(
        model=str(args.models / target),
        draft=str(args.models / draft) if draft else None,
        ctx_size=args.ctx,
        threads=args.threads,
        flash_attn=flash_attn,
    )
    done = {(each["prompt"], each["who"], each["number"]) for each in read(args.results) if each["pair"] == args.pair}
    spectui = Spectui(setup, args.predict)
    settings = [peer for peer in sweep(args.quick) if draft is not None or "draft" not in peer.name]
    for name in args.prompts:
        rendered = spectui.template.text([("user", PROMPTS[name])])
        # Who, the setting and the number of the run; None for the best of the sweep, which is known when its runs are made.
        wanted: list[tuple[str, Knobs | Peer | None, int]] = [("sweep", peer, number) for number, peer in enumerate(settings)]
        for number in range(args.runs):
            wanted += [("plain", PLAIN, number), ("auto", AUTO, number), ("best", None, number)]
            if draft is not None:
                wanted += [("fixed", EQUAL, number), ("same", drafting(*FIXED), number)]
        for who, setting, number in wanted:
            if (name, who, number) in done:
                continue
            if not args.noisy and (other := busy()):
                raise SystemExit(f"The machine is not quiet ({other}): run again when it is, or with --noisy.")
            if setting is None:
                best = fastest(args, name)
                setting = next(peer for peer in settings if peer.name == best["setting"])
            stolen = Stolen()
            made = spectui.run(setting, PROMPTS[name]) if isinstance(setting, Knobs) else run_peer(args, setting, rendered)
            yield {"pair": args.pair, "prompt": name, "who": who, "number": number, **made, "stolen": stolen.share}


def fastest(args: argparse.Namespace, prompt: str) -> Record:
    """The fastest run of the sweep."""
    asked = (args.pair, prompt, "sweep")
    swept = [record for record in read(args.results) if (record["pair"], record["prompt"], record["who"]) == asked]
    return max(swept, key=lambda record: float(record["speed"]))


def read(results: Path) -> list[Record]:
    """The records so far."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def report(results: Path) -> None:
    """The table, a block per pair."""
    records = read(results)
    for pair in dict.fromkeys(record["pair"] for record in records):
        *files, flash_attn = PAIRS[pair]
        print(f"\n{pair}: {' + '.join(filter(None, files))}, -fa {flash_attn}\n")
        columns = (
            "prompt", "plain", "llama.cpp's best", "spectui auto", "auto / plain", "auto / best", "fixed / same", "acc.",
            "per pass",
        )  # fmt: skip
        print(f"| {' | '.join(columns)} |")
        print("| --- " * len(columns) + "|")
        ratios: dict[str, list[float]] = {"auto/plain": [], "auto/best": [], "fixed/same": []}
        of_pair = [record for record in records if record["pair"] == pair]
        for prompt in dict.fromkeys(record["prompt"] for record in of_pair):
            _row(prompt, [record for record in of_pair if record["prompt"] == prompt], ratios)
        shares = [record["stolen"] for record in of_pair]
        print(f"\nthe host took {100 * mean(shares):.0f} % of the cores, {100 * max(shares):.0f} at most")
        for name, values in ratios.items():
            if values:
                print(f"\n{name}: geometric mean {geometric_mean(values):.2f}, worst {min(values):.2f}", end="")
        print()


def _row(prompt: str, rows: list[Record], ratios: dict[str, list[float]]) -> None:
    def speeds(who: str) -> list[float]:
        return [float(each["speed"]) for each in sorted(rows, key=lambda each: each["number"]) if each["who"] == who]

    def paired(a: str, b: str) -> str:
        values = [x / y for x, y in zip(speeds(a), speeds(b), strict=False)]
        if not values:
            return "–"
        ratios[f"{a}/{b}"].append(median(values))
        return f"{median(values):.2f}"

    def middle(who: str) -> str:
        return f"{median(speeds(who)):.1f}" if speeds(who) else "–"

    best = next((str(each["setting"]) for each in rows if each["who"] == "best"), "")
    auto = next((each for each in rows if each["who"] == "auto"), {})
    texts = {str(each["text"]) for each in rows if "text" in each}
    alike = "" if len(texts) == 1 else " (texts differ)"
    acceptance, per_pass = auto.get("acceptance"), auto.get("per_pass")
    cells = (
        prompt + alike,
        middle("plain"),
        f"{middle('best')} ({best})",
        middle("auto"),
        *(paired(*each) for each in (("auto", "plain"), ("auto", "best"), ("fixed", "same"))),
        "–" if acceptance is None else f"{acceptance:.2f}",
        "–" if per_pass is None else f"{per_pass:.1f}",
    )
    print(f"| {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="directory whose bin/ holds llama.cpp's programs")
    parser.add_argument("--models", type=Path, help="directory of the GGUF files")
    parser.add_argument("--pair", choices=sorted(PAIRS), default="q8")
    parser.add_argument("--prompts", nargs="+", choices=sorted(PROMPTS), default=list(PROMPTS))
    parser.add_argument("--runs", type=int, default=3, help="pairs of runs per prompt")
    parser.add_argument("--predict", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--quick", action="store_true", help="a shorter sweep of llama.cpp's settings")
    parser.add_argument("--noisy", action="store_true", help="measure although something else runs")
    parser.add_argument("--results", type=Path, default=Path("versus_llama_cpp.jsonl"))
    parser.add_argument("--report", action="store_true", help="print the table of the results so far and end")
    args = parser.parse_args()
    if not args.report:
        with args.results.open("a") as out:
            for record in measure(args):
                print(json.dumps(record), file=out, flush=True)
                shown = {key: value for key, value in record.items() if key != "text"}
                print(shown, flush=True)
    report(args.results)


if __name__ == "__main__":
    main()
