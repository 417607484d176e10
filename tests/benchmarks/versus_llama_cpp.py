"""spectui against llama.cpp's own speculative decoder: same files, same kernels, same settings, in alternation.

    LLAMA_CPP_LIB_PATH=DIR/bin python -m tests.benchmarks.versus_llama_cpp --peers DIR --models DIR --pair q8

DIR/bin holds llama-speculative-simple and the shared libraries that it and Python both use. Every figure is tokens per second
of decoding, greedy. A row: plain decoding; llama.cpp's best over a sweep of its settings; spectui with a fixed draft and
llama.cpp with the same; spectui auto, cold (it has learned nothing but the pass costs); spectui's best over a sweep of its own
fixed settings. Lines of results are kept in a file, so that an interrupted run goes on where it was; `--report` prints the
table of what is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import Any

from spectui.engine.events import Message
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.measure.quiet import Stolen, busy
from tests.benchmarks import peer
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

OWN_SWEEP = [
    *(("model", most, p_min) for most, p_min in ((3, 0.0), (3, 0.4), (8, 0.4), (8, 0.7), (16, 0.8))),
    ("suffix", 8, 0.5),
    ("suffix", 16, 0.5),
]
"""Drafter, draft-max and p-min of spectui's own fixed settings, among which its best per prompt is looked for."""

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
        self.session = Session(lambda _: None)
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
            "python_s": statistics.choose_s / max(1, statistics.rounds),
            "text": finished.text,
        }


def measure(args: argparse.Namespace) -> Iterator[Record]:
    """A record per run; those already in the file are not made again."""
    target_name, draft_name, flash_attn = PAIRS[args.pair]
    target = args.models / target_name
    draft = args.models / draft_name if draft_name else None
    setup = Setup(
        model=str(target),
        draft=str(draft) if draft else None,
        ctx_size=args.ctx,
        threads=args.threads,
        flash_attn=flash_attn,
    )
    done = {(each["prompt"], each["who"], each["number"]) for each in read(args.results) if each["pair"] == args.pair}
    spectui = Spectui(setup, args.predict)
    equal = peer.drafting(*FIXED)
    for name in args.prompts:
        prompt = PROMPTS[name]
        rendered = peer.rendered(spectui.template, prompt)

        def run(setting: Knobs | peer.Peer, prompt: str = prompt, rendered: str = rendered) -> Record:
            if isinstance(setting, Knobs):
                return spectui.run(setting, prompt)
            speed = peer.run(
                args.peers, setting, target, draft, rendered, args.predict, args.threads, args.ctx, flash_attn
            )
            return {"speed": speed, "setting": setting.name}

        # Who, the setting and the number of the run; None for the best of a sweep, which is known when its runs are made.
        wanted: list[tuple[str, Knobs | peer.Peer | None, int]] = []
        settings = [each for each in peer.sweep(args.quick) if draft is not None or "draft" not in each.name]
        if not args.alone:
            wanted += [("sweep", each, number) for number, each in enumerate(settings)]
        own = [setting for setting in OWN_SWEEP if draft is not None or setting[0] != "model"] * (not args.without_own)
        wanted += [("own sweep", fixed(*setting), number) for number, setting in enumerate(own)]
        for number in range(args.runs):
            wanted += [("plain", PLAIN, number), ("auto", AUTO, number)]
            wanted += [("best", None, number)] * (not args.alone)
            if draft is not None:
                wanted += [("fixed", EQUAL, number), *[("same", equal, number)] * (not args.alone)]
            if own:
                wanted.append(("own best", None, number))
        for who, setting, number in wanted:
            if (name, who, number) in done:
                continue
            if not args.noisy and (other := busy()):
                raise SystemExit(f"The machine is not quiet ({other}): run again when it is, or with --noisy.")
            if setting is None and who == "best":
                best = fastest(args, name, "sweep")
                setting = next(each for each in settings if each.name == best["setting"])
            elif setting is None:
                setting = fixed(*own[fastest(args, name, "own sweep")["number"]])
            stolen = Stolen()
            made = run(setting)
            yield {"pair": args.pair, "prompt": name, "who": who, "number": number, **made, "stolen": stolen.share}


def fixed(drafter: str, most: int, p_min: float) -> Knobs:
    """A fixed setting of spectui's."""
    return Knobs(drafter=drafter, policy="fixed", temperature=0.0, draft_max=most, p_min=p_min)


def fastest(args: argparse.Namespace, prompt: str, who: str) -> Record:
    """The fastest run of a sweep."""
    swept = [
        each for each in read(args.results) if (each["pair"], each["prompt"], each["who"]) == (args.pair, prompt, who)
    ]
    return max(swept, key=lambda each: float(str(each["speed"])))


def read(results: Path) -> list[Record]:
    """The records so far."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def report(results: Path) -> None:
    """The table, a block per pair."""
    records = read(results)
    for pair in dict.fromkeys(each["pair"] for each in records):
        *files, flash_attn = PAIRS[pair]
        print(f"\n{pair}: {' + '.join(filter(None, files))}, -fa {flash_attn}\n")
        columns = (
            "prompt", "plain", "llama.cpp's best", "spectui auto", "auto / plain", "auto / best", "fixed / same",
            "auto / best fixed", "acc.", "per pass",
        )  # fmt: skip
        print(f"| {' | '.join(columns)} |")
        print("| --- " * len(columns) + "|")
        ratios: dict[str, list[float]] = {"auto/plain": [], "auto/best": [], "fixed/same": [], "auto/own best": []}
        for prompt in dict.fromkeys(each["prompt"] for each in records if each["pair"] == pair):
            rows = [each for each in records if (each["pair"], each["prompt"]) == (pair, prompt)]
            _row(prompt, rows, ratios)
        shares = [float(str(each["stolen"])) for each in records if each["pair"] == pair and "stolen" in each]
        if shares:
            print(f"\nthe host took {100 * mean(shares):.0f} % of the cores, {100 * max(shares):.0f} at most")
            print(f"auto / plain without its part of each run: {_without_host(pair, records)}")
        for name, values in ratios.items():
            if values:
                print(f"\n{name}: geometric mean {geometric_mean(values):.2f}, worst {min(values):.2f}", end="")
        print()


def _without_host(pair: str, records: list[Record]) -> str:
    """Each prompt's median of auto over that of plain, had the host left the cores to every run."""
    speeds: dict[tuple[str, str], list[float]] = {}
    for each in records:
        if each["pair"] == pair and "stolen" in each:
            speed = float(str(each["speed"])) / (1 - float(str(each["stolen"])))
            speeds.setdefault((str(each["prompt"]), str(each["who"])), []).append(speed)
    return ", ".join(
        f"{prompt} {median(auto) / median(speeds[prompt, 'plain']):.2f}"
        for (prompt, who), auto in speeds.items()
        if who == "auto" and (prompt, "plain") in speeds
    )


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
        *(paired(*each) for each in (("auto", "plain"), ("auto", "best"), ("fixed", "same"), ("auto", "own best"))),
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
    parser.add_argument("--without-own", action="store_true", help="without the sweep of spectui's own fixed settings")
    parser.add_argument("--alone", action="store_true", help="without llama.cpp's programs")
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
