"""Key to screen while a reply streams: how long until a typed letter stands in the prompt box.

    python -m tests.benchmarks.ui_latency [--long TOKENS] [-n KEYS]

A fake engine writes 1,000 tokens a second, behind a transcript of 100,000 tokens. Printed besides: what a frame costs there
and in an empty transcript, and the memory that a token takes. The time is from the write into the pseudo-terminal to the
moment at which the program has written the letter.
"""

import argparse
import gc
import json
import os
import re
import statistics
import string
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import psutil

from spectui.chat.session import ChatSession
from spectui.engine.events import FREE, Message, Terms
from spectui.knobs import Setup
from spectui.measure.quiet import Stolen
from spectui.ui import app as window
from tests.fake_engine import FakeEngine
from tests.helpers.terminal import Terminal


def long(tokens: int, keys: int) -> list[float]:
    """Seconds from key to screen behind so many tokens; prints what the window says of itself."""
    with tempfile.TemporaryDirectory() as directory:
        results = Path(directory) / "results"
        with Terminal("--stream", str(tokens), str(results), module="tests.benchmarks.ui_latency", emulated=False) as terminal:
            terminal.wait("the window", lambda: b"sk something" in terminal.raw)
            terminal.type("go\r")
            terminal.wait("figures", lambda: results.exists() and len(results.read_text().splitlines()) == 3, 600)
            for line in results.read_text().splitlines():
                print({name: each if isinstance(each, str) else round(each, 1) for name, each in json.loads(line).items()})
            # Each letter stands alone in what is written for it, since the box is drawn for nothing else meanwhile.
            seconds = []
            for number in range(keys):
                pause = time.monotonic() + 0.05 + 0.033 * (number * 0.618 % 1)
                while (left := pause - time.monotonic()) > 0:
                    terminal.read(left)
                letter = string.ascii_uppercase[number % 26]
                before, start = len(terminal.raw), time.monotonic()
                terminal.type(letter)
                terminal.wait("the letter", partial(wrote, terminal, before, letter))
                seconds.append(time.monotonic() - start)
            terminal.press("escape", "ctrl+q")
            terminal.end()
    return seconds


def wrote(terminal: Terminal, start: int, letter: str) -> bool:
    """Whether a letter was drawn since so many bytes. The fake engine writes none of these, and no figure has one."""
    return letter.encode() in re.sub(rb"\x1b\[[\d;?<>=]*[A-Za-z]", b"", terminal.raw[start:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--keys", type=int, default=200)
    parser.add_argument("--long", type=int, nargs="?", default=100_000, const=100_000, help="tokens before it")
    options = parser.parse_args()
    stolen = Stolen()
    seconds = sorted(long(options.long, options.keys))
    cuts = statistics.quantiles(seconds, n=100)
    print(
        f"{len(seconds)} keys: p50 {1000 * cuts[49]:.1f} ms, p95 {1000 * cuts[94]:.1f} ms, "
        f"worst {1000 * seconds[-1]:.1f} ms; {os.cpu_count()} cores, of which {stolen}"
    )


RATE = 1000
"""Tokens a second."""

STREAM_S = 5.0
WORDS = (" the", " sea", " was", " calm", ",", " and", " a", " lighthouse", "\n", " keeper", " wrote", ".")
EACH = 4
"""Tokens of a round: three accepted ones and a bonus or correction; two more tokens of its draft are rejected."""


class CountingApp(window.SpectuiApp):
    """The window, with its frames counted."""

    CSS_PATH: ClassVar[str] = str(Path(window.__file__).with_name("app.tcss"))
    frames = 0

    def _display(self, screen: object, renderable: object) -> None:
        self.frames += renderable is not None
        super()._display(screen, renderable)  # type: ignore[arg-type]


class StreamingEngine(FakeEngine):
    """Writes STREAM_S seconds into an empty transcript, then `before` tokens at once, then until it is stopped."""

    def __init__(self, before: int, results: Path) -> None:
        super().__init__()
        self.app: CountingApp | None = None
        self._before = before
        self._results = results
        self._written = 0

    def load(self, setup: Setup) -> None:
        super().load(setup)
        self.finish_loading()

    def generate(self, messages: Sequence[Message], terms: Terms = FREE) -> None:
        super().generate(messages)
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        self.read_prompt(10, 10)
        self._stream("short", STREAM_S)
        memory, written = resident(), self._written
        while self._written < self._before:
            self._round()
            if len(self.events) > 500:
                self._settle()
        self._settle()
        self._note(bytes_per_token=(resident() - memory) / max(1, self._written - written), tokens=self._written)
        self._stream("long", STREAM_S)
        while not self.stops:
            self._stream("", 0.5)

    def _settle(self) -> None:
        while self.events:
            time.sleep(0.005)

    def _stream(self, name: str, seconds: float) -> None:
        assert self.app is not None
        clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
        begun, cpu, frames, written = time.perf_counter(), time.clock_gettime(clock), self.app.frames, self._written
        while (passed := time.perf_counter() - begun) < seconds and not self.stops:
            while self._written - written < RATE * passed:
                self._round()
            time.sleep(0.004)
        frames = self.app.frames - frames
        if name:
            self._note(name=name, frames=frames / seconds, frame_ms=1000 * (time.clock_gettime(clock) - cpu) / max(1, frames))

    def _round(self) -> None:
        at = self._written
        texts = [WORDS[(at * 7 + place * 5) % len(WORDS)] for place in range(EACH)]
        self.emit_round(*texts[:-1], correction=texts[-1], rejected=(" x", " y"), seconds=EACH / RATE, plain_s=0.002)
        self._written += EACH

    def _note(self, **line: object) -> None:
        with self._results.open("a") as file:
            print(json.dumps(line), file=file)


def resident() -> int:
    """Bytes of memory that are this process's own."""
    gc.collect()
    return int(psutil.Process().memory_full_info().uss)


def stream(before: int, results: Path) -> None:
    """Be the program in the terminal."""
    engine = StreamingEngine(before, results)
    engine.app = CountingApp(ChatSession(engine, Setup(model="target.gguf", draft="draft.gguf")))
    engine.app.run()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stream"]:
        stream(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
