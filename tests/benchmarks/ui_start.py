"""From the start of the process to the first painted window: `python -m tests.benchmarks.ui_start [-n STARTS]`.

By hand, on a quiet machine, in a pseudo-terminal of 120x40. The models are loaded after the window stands, and a person can
type by then; the time ends when the prompt's box has been written to the terminal.
"""

from __future__ import annotations

import argparse
import os
import time
from statistics import median

from spectui.measure.quiet import Stolen, busy
from tests.helpers.terminal import Terminal, demo_flags

SIGN = b"sk something"
"""What stands in the empty box, behind the cursor."""


def start(arguments: list[str]) -> float:
    """Seconds of one start."""
    begun = time.perf_counter()
    with Terminal("chat", "--no-history", *demo_flags(), *arguments, emulated=False) as terminal:
        terminal.wait("the window", lambda: SIGN in terminal.raw)
        seconds = time.perf_counter() - begun
        terminal.press("ctrl+q")
        terminal.end()
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--starts", type=int, default=10)
    parser.add_argument("--noisy", action="store_true", help="measure although something else runs")
    options, extra = parser.parse_known_args()
    if not options.noisy and (other := busy()):
        raise SystemExit(f"The machine is not quiet ({other}): run again when it is, or with --noisy.")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a person's Python keeps what it has compiled
    start(extra)  # to have the files in memory
    stolen = Stolen()
    seconds = sorted(start(extra) for _ in range(options.starts))
    print(f"{len(seconds)} starts: median {median(seconds):.2f} s, {seconds[0]:.2f} to {seconds[-1]:.2f} s, "
          f"{os.cpu_count()} cores, of which {stolen}: {median(seconds) * (1 - stolen.share):.2f} s without that")  # fmt: skip


if __name__ == "__main__":
    main()
