"""What a trace costs: microseconds of CPU time a round in the engine's thread and in the one that writes.

    python -m tests.benchmarks.trace_cost TRACE

takes the rounds of a trace, hands each to a writer as an engine does, and encodes them. Least of 20 looks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from time import thread_time

from spectui.engine.events import RoundDone
from spectui.engine.worker import Worker
from spectui.traces.format import Encoder
from spectui.traces.reader import Trace
from spectui.traces.writer import TraceWriter


def least(work: Callable[[RoundDone], object], rounds: list[RoundDone]) -> float:
    """Microseconds a round."""
    seconds = []
    for _ in range(20):
        begun = thread_time()
        for each in rounds:
            work(each)
        seconds.append(thread_time() - begun)
    return min(seconds) / len(rounds) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    trace = Trace(parser.parse_args().trace)
    rounds = [entry for entry in trace if isinstance(entry, RoundDone)]
    worker = Worker()
    writer = TraceWriter(Path("/dev/null"), worker)
    print(f"{len(rounds)} rounds, {sum(len(each.round.drafted) for each in rounds)} drafted tokens")
    print(f"engine's thread: {least(worker.listen, rounds):.2f} us a round")
    print(f"writing thread: {least(Encoder(trace.header.knobs).line, rounds):.1f} us a round")
    worker.close()
    writer.close()


if __name__ == "__main__":
    main()
