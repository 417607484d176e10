"""What the window costs the engine: the same reply without a window and in one, in alternation.

    python -m tests.benchmarks.ui_overhead [--starts 6] [--pairs 4] [-m TARGET -md DRAFT] [more arguments of spectui chat]

Without models the demo pair is measured. Two processes have the models loaded: `spectui chat` in a pseudo-terminal of 120x40,
out of which everything is read, and the same engine thread without window, journal and monitor. They answer the same prompt
in turns, and while one does the other is frozen. Drafts are of fixed length and greedy, so both write the same text in the
same rounds. Speed is over the time from the first round to the last, as the engine's thread sees it. The two are started
several times, one first and then the other: where in memory a process has its models makes it one or two in a hundred faster
or slower than another that does the same.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import click

from spectui.cli import root
from spectui.cli.options import ENGINE, Command, Options, setting_options
from spectui.engine import demo, worker
from spectui.engine.events import Event, Finished, Loaded, Message, RoundDone
from spectui.measure.quiet import Stolen, busy
from tests.helpers.terminal import Terminal, demo_flags

PROMPT = "Write a long story about a lighthouse keeper and the sea."
FIXED = ("--temp", "0", "--policy", "fixed", "--drafter", "model", "--draft-max", "8", "--p-min", "0.4")
RESULTS = "UI_OVERHEAD_RESULTS"
"""The environment variable that names the file into which a process writes a line for each reply."""

FRAMES_S = 30
"""The window looks for news so often in a second."""

READ_S = 0.25
"""What the window writes is taken so often: a reader that wakes for each of its frames takes half as much as the window."""

PATIENCE_S = 120
"""Longer than loading the models or a reply takes."""

TYPED = {"window": f"\x0e{PROMPT}\r", "bare": "\n"}
"""What has each of the two answer: a new chat and the prompt, or any line."""


class Recorder(deque[Event]):
    """The engine's events, with a note of when each reply's rounds came. The engine's thread fills it."""

    def __init__(self) -> None:
        super().__init__()
        self._rounds: list[tuple[float, int]] = []
        self._others_s = 0.0

    def append(self, event: Event) -> None:
        super().append(event)
        if isinstance(event, RoundDone):
            if not self._rounds:
                self._others_s = seconds_of_others()
            self._rounds.append((time.perf_counter(), len(event.round.tokens)))
        elif isinstance(event, Finished):
            rounds, self._rounds = self._rounds, []
            seconds = rounds[-1][0] - rounds[0][0]
            speed = sum(tokens for _, tokens in rounds[1:]) / seconds
            self._note(seconds=seconds, speed=speed, others_s=seconds_of_others() - self._others_s, text=event.text)
        elif isinstance(event, Loaded):
            self._note(loaded=True)

    @staticmethod
    def _note(**line: object) -> None:
        with Path(os.environ[RESULTS]).open("a") as file:
            print(json.dumps(line), file=file)


def seconds_of_others() -> float:
    """CPU time that this process's Python threads have had so far, but for the one that asks."""
    others = [thread.ident for thread in threading.enumerate() if thread is not threading.current_thread()]
    return sum(time.clock_gettime(time.pthread_getcpuclockid(each)) for each in others if each is not None)


class RecordingWorker(worker.Worker):
    """The engine, recorded."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.events = Recorder()


@click.command("bare", cls=Command)
@setting_options(*ENGINE, "ui")
def bare(options: Options) -> None:
    """The engine alone: it answers whenever a line comes in."""
    settings = options.settings
    engine = RecordingWorker(settings.knobs)
    engine.load(demo.default_setup(settings.setup))
    for _ in sys.stdin:
        engine.generate([Message("user", PROMPT)])


def be(side: str, arguments: list[str]) -> None:
    """Be one of the two processes."""
    if side == "bare":
        bare.main(arguments)  # and end
    from spectui.engine import worker
    from spectui.ui.textual_patches.driver import TerminalDriver

    worker.deque = Recorder  # type: ignore[assignment,attr-defined]
    # On waking the driver would set up a terminal that is as it was, and lose what has been typed.
    TerminalDriver._sigcont_application = lambda *_: None  # type: ignore[method-assign]
    root.main(["chat", *demo_flags(), *arguments])


class Side:
    """One of the two processes, from outside."""

    def __init__(self, name: str, results: Path, arguments: list[str]) -> None:
        self._name = name
        self._results = results
        self._seen = 0
        os.environ[RESULTS] = str(results)
        self.terminal = Terminal("--be", name, *arguments, module="tests.benchmarks.ui_overhead", emulated=False)
        self._next("the models")
        self.reply()  # to be warm

    def reply(self) -> dict[str, Any]:
        """Wake it, have it answer, and freeze it."""
        os.kill(self.terminal.child.pid, signal.SIGCONT)
        before = len(self.terminal.raw)
        self.terminal.type(TYPED[self._name])
        result = self._next("the reply") | {"written": len(self.terminal.raw) - before}
        while self.terminal.read(0.3):  # until it is at rest
            pass
        os.kill(self.terminal.child.pid, signal.SIGSTOP)
        return result

    def _next(self, what: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while not (lines := self._lines()):
            if time.monotonic() > deadline or not self.terminal.child.isalive():
                raise SystemExit(f"The process {self._name} has ended, or taken {PATIENCE_S} s, before {what} came.")
            time.sleep(READ_S)
            while self.terminal.read(0):
                pass
        self._seen += 1
        result: dict[str, Any] = json.loads(lines[0])
        return result

    def _lines(self) -> list[str]:
        """The results that nobody has asked for yet."""
        return self._results.read_text().splitlines()[self._seen :] if self._results.exists() else []


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=6, help="of the two processes")
    parser.add_argument("--pairs", type=int, default=4, help="of replies in each start, one without a window and one in it")
    parser.add_argument("--noisy", action="store_true", help="measure although something else runs")
    options, extra = parser.parse_known_args()
    replies: dict[str, list[dict[str, Any]]] = {name: [] for name in TYPED}
    stolen = Stolen()
    for number in range(options.starts):
        measure(replies, options.pairs, ["-n", "256", *extra], swapped=number % 2 == 1, noisy=options.noisy)
    report(replies["bare"], replies["window"], options.pairs)
    print(f"meanwhile {stolen} of the cores")


def measure(replies: dict[str, list[dict[str, Any]]], pairs: int, arguments: list[str], *, swapped: bool, noisy: bool) -> None:
    """Start both, have them answer in turns, and add what comes to `replies`."""
    order = list(reversed(TYPED)) if swapped else list(TYPED)
    with tempfile.TemporaryDirectory() as directory:
        for kind in ("CONFIG", "DATA", "STATE"):
            os.environ[f"SPECTUI_{kind}_DIR"] = f"{directory}/{kind}"
        sides: dict[str, Side] = {}
        try:
            for name in order:
                sides[name] = Side(name, Path(directory) / name, [*FIXED, *arguments])
            for number in range(pairs):
                if not noisy and (other := busy()):
                    raise SystemExit(f"The machine is not quiet ({other}): run again when it is, or with --noisy.")
                for name in (order, reversed(order))[number % 2]:
                    replies[name].append(sides[name].reply())
        finally:
            for side in sides.values():
                side.terminal.child.close(force=True)


def report(bare: list[dict[str, Any]], window: list[dict[str, Any]], pairs: int) -> None:
    """Both speeds, the loss, and what a frame costs."""
    if len({reply["text"] for reply in (*bare, *window)}) > 1:
        print("The texts differ, so the speeds are not of the same work.")
    losses = [100 * (1 - b["speed"] / a["speed"]) for a, b in zip(bare, window, strict=True)]
    starts = [mean(losses[first : first + pairs]) for first in range(0, len(losses), pairs)]
    error = stdev(starts) / len(starts) ** 0.5 if len(starts) > 1 else float("nan")
    others, seconds = (sum(reply[key] for reply in window) for key in ("others_s", "seconds"))
    print(f"without a window {median(reply['speed'] for reply in bare):7.1f} t/s")
    print(f"in the window    {median(reply['speed'] for reply in window):7.1f} t/s")
    print(f"lost             {mean(losses):7.1f} %, standard error {error:.1f}, of {len(starts)} starts, {pairs} pairs each:",
          *(f"{loss:.1f}" for loss in starts))  # fmt: skip
    print(f"the window's threads take {100 * others / seconds:.1f} % of a core, "
          f"{1000 * others / seconds / FRAMES_S:.2f} ms for 1/{FRAMES_S} s, and write "
          f"{sum(reply['written'] for reply in window) / seconds / 1000:.0f} kB/s")  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["--be"]:
        be(sys.argv[2], sys.argv[3:])
    else:
        main()
