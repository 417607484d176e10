"""The chat on a fake engine that writes 1,000 tokens a second, behind a transcript of any length: what a frame costs.

python -m tests.benchmarks.ui_latency --long runs it in a pseudo-terminal and types keys meanwhile.
"""

import gc
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import psutil

from spectui.engine.events import FREE, Message, Terms
from spectui.knobs import Knobs, Setup
from spectui.ui import app as window
from tests.fake_engine import FakeEngine

RATE = 1000
"""Tokens a second."""

STREAM_S = 5.0
WORDS = (" the", " sea", " was", " calm", ",", " and", " a", " lighthouse", "\n", " keeper", " wrote", ".")
EACH = 4
"""Tokens of a round, of which three are accepted; two more are rejected."""


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


if __name__ == "__main__":
    engine = StreamingEngine(int(sys.argv[1]), Path(sys.argv[2]))
    engine.app = CountingApp(engine, Setup(model="target.gguf", draft="draft.gguf"), Knobs())
    engine.app.run()
