"""Speed beside busy processes: with each fixed number of threads, and with spectui's own choice.

    python -m tests.benchmarks.neighbours -m TARGET [--predict 48] [--runs 2] [--nice 0] [--most 1]

For no neighbour, one, and as many as there are cores, each a process that computes without end. Plain decoding, greedy.
A share is that of the best fixed number of threads beside the same neighbours. `--nice`: added to the nice value of the
threads that compute; the neighbours have that of this process (Linux).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median

from spectui.engine.events import Event, Message, ThreadsInUse
from spectui.engine.loading.placement import threads as cores
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup

_BUSY = "while True: pass"


@contextmanager
def neighbours(number: int) -> Iterator[None]:
    """Run so many processes that each want a whole core."""
    children = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(number)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def give_way(nice: int) -> None:
    """Add this to the nice value of the calling thread."""
    if nice:
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + nice)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--predict", type=int, default=48)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--most", type=int, default=cores(0), help="fixed numbers of threads up to this one")
    parser.add_argument("--nice", type=int, default=0, help="added to the nice value of the threads that compute")
    args = parser.parse_args()
    prompt = [Message("user", "Write a story about a lighthouse.")]
    used: list[int] = []

    def note(event: Event) -> None:
        if isinstance(event, ThreadsInUse):
            used.append(event.now)

    # Its OpenMP threads inherit the nice value. The neighbours are started by this thread, which keeps its own.
    engine = ThreadPoolExecutor(1, initializer=give_way, initargs=(args.nice,))
    session = Session(note)
    session.knobs = Knobs(drafter="off", temperature=0.0, predict=args.predict)
    print(
        "neighbours  "
        + "".join(f"{number} threads  " for number in range(1, args.most + 1))
        + "spectui  share  changes"
    )
    for number in sorted({0, 1, cores(0)}):
        speeds: dict[int, list[float]] = {}
        used.clear()
        for _ in range(args.runs):
            for threads in (0, *range(1, args.most + 1)):  # 0: spectui's own choice
                setup = Setup(model=args.model, ctx_size=1024, threads=threads, no_profile="on")
                engine.submit(session.load, setup).result()
                with neighbours(number):
                    statistics = engine.submit(session.generate, prompt).result().statistics
                speeds.setdefault(threads, []).append(statistics.tokens_per_s or 0.0)
        found = {threads: median(values) for threads, values in speeds.items()}
        best = max(speed for threads, speed in found.items() if threads)
        fixed = "".join(f"{found[threads]:9.1f}  " for threads in range(1, args.most + 1))
        print(f"{number:10}  {fixed}{found[0]:7.1f}  {found[0] / best:5.2f}  {used}", flush=True)
    engine.submit(session.close).result()


if __name__ == "__main__":
    main()
