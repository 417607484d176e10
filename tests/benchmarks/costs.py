"""spectui's T(n) against llama-batched-bench: same file, same kernels, same context, in alternation.

    LD_LIBRARY_PATH=DIR/bin LLAMA_CPP_LIB_PATH=DIR/bin python -m tests.benchmarks.costs --peers DIR -m MODEL.gguf

What of llama-batched-bench compares: its generation of one token (-ntg 1) in n parallel sequences (-npl n) that share a prompt
(-pps) in one KV buffer (-kvu). That is one pass over n tokens with logits for each, as for a draft of n - 1. Its prompt
processing does not compare: it computes logits for the last token alone. Without -kvu each sequence has cells of its own, so
attention is computed sequence by sequence. An empty context is a shared prompt of one token there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from statistics import median

from spectui.engine.session import Session
from spectui.knobs import Setup
from spectui.measure.costs import SIZES, measure
from spectui.measure.quiet import Stolen, busy


def batched_bench(
    peers: Path, model: Path, context: int, threads: int, flash_attn: str, repetitions: int
) -> dict[int, list[float]]:
    """Size -> seconds of each pass, without the first series, which sets things up."""
    sizes = ",".join(str(n) for _ in range(repetitions + 1) for n in SIZES)
    command = [
        str(peers / "bin" / "llama-batched-bench"),
        "-m",
        str(model),
        "-c",
        str(context + 256),
        "-t",
        str(threads),
        "-tb",
        str(threads),
        "-fa",
        flash_attn,
        "-npp",
        str(max(context, 1)),
        "-ntg",
        "1",
        "-npl",
        sizes,
        "-pps",
        "-kvu",
        "--output-format",
        "jsonl",
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=900)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(lines) != len(SIZES) * (repetitions + 1):
        raise SystemExit(f"llama-batched-bench printed {len(lines)} results:\n{(done.stdout + done.stderr)[-2000:]}")
    found: dict[int, list[float]] = {}
    for line in lines[len(SIZES) :]:
        found.setdefault(line["pl"], []).append(line["t_tg"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("-m", "--model", type=Path, required=True)
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--flash-attn", choices=("on", "off"), default="on")
    parser.add_argument("--repetitions", type=int, default=3, help="passes of each size in each series")
    parser.add_argument("--series", type=int, default=2)
    args = parser.parse_args()
    stolen, other = Stolen(), busy()
    if other:
        print(f"the machine is not quiet: {other}")
    session = Session(lambda event: None)
    setup = Setup(model=str(args.model), threads=args.threads, flash_attn=args.flash_attn, no_profile="on")
    session.load(setup)
    ours: dict[int, list[float]] = {}
    theirs: dict[int, list[float]] = {}
    for _ in range(args.series):
        (cell,) = measure(lambda function, *rest: function(session, *rest), [args.context], args.repetitions).cells
        bench = batched_bench(args.peers, args.model, args.context, args.threads, args.flash_attn, args.repetitions)
        for n in SIZES:
            ours.setdefault(n, []).extend(cell.seconds[n])
            theirs.setdefault(n, []).extend(bench[n])
    session.close()
    print(
        f"{args.model.name}, context {args.context}, flash attention {args.flash_attn}, medians of {len(ours[1])}; {stolen}"
    )
    print(f"{'n':>4}{'spectui ms':>14}{'batched-bench ms':>18}{'ratio':>8}")
    ratios = []
    for n in SIZES:
        a, b = median(ours[n]), median(theirs[n])
        ratios.append(a / b)
        print(f"{n:>4}{a * 1e3:>14.2f}{b * 1e3:>18.2f}{a / b:>8.3f}")
    within = sum(0.9 <= ratio <= 1.1 for ratio in ratios)
    print(f"median ratio {median(ratios):.3f}; {within} of {len(ratios)} sizes within 10 %")


if __name__ == "__main__":
    main()
