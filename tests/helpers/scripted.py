"""`python -m tests.helpers.scripted chat ...`: the program as it is, with a scripted engine in place of llama.cpp.

It writes a token each 10 ms. A prompt or a model's name says what shall happen: `assert` is a failing assert of ggml's,
`segv` a fault of its memory, `noise` something on standard error, `short` a reply of ten rounds, `loading` that never ends.
"""

import faulthandler
import os
import threading
from collections.abc import Sequence

import spectui.engine.isolation.process
from spectui.cli import main
from spectui.engine.events import FREE, Message, Terms
from spectui.engine.worker import Watch
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import StopReason
from tests.fake_engine import FakeEngine

ASSERT = "ggml.c:123: GGML_ASSERT(scripted) failed"
NOISE = "libsomething: warning: noise"


def act(words: str) -> None:
    if "noise" in words:
        os.write(2, f"{NOISE}\n".encode())
    if "assert" in words:
        os.write(2, f"{ASSERT}\n".encode())
        os.abort()
    if "segv" in words:
        faulthandler._sigsegv()  # type: ignore[attr-defined]


class ScriptedWorker(FakeEngine):
    """In the worker's place, with a thread of its own."""

    def __init__(self, knobs: Knobs, watch: Watch) -> None:
        super().__init__(knobs)
        self._watch = watch
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def load(self, setup: Setup) -> None:
        super().load(setup)
        self._watch("loading target", setup)
        act(setup.model or "")
        if "loading" in (setup.model or ""):
            return
        self._watch("", setup)
        self.finish_loading()

    def generate(self, messages: Sequence[Message], terms: Terms = FREE) -> None:
        super().generate(messages)
        self._stopped.clear()
        self._thread = threading.Thread(target=self._write, args=(messages[-1].content,))
        self._thread.start()

    def _write(self, prompt: str) -> None:
        self._watch("decoding", self.loads[-1])
        self.read_prompt(5, 5)
        for number in range(10 if "short" in prompt else 2000):
            self.emit_round(f"{number} ", bonus="\n" if number % 20 == 19 else "- ")
            if self._stopped.wait(0.01):
                break
            if number == (150 if "noise" in prompt else 400):  # what dies has had time to be kept
                act(prompt)
        self._watch("", self.loads[-1])
        self.finish(StopReason.CANCELLED if self._stopped.is_set() else StopReason.EOS)

    def stop(self) -> None:
        self.stops += 1
        self._stopped.set()

    def close(self) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()


if __name__ == "__main__":
    spectui.engine.isolation.process.engine_for = lambda _, *given: ScriptedWorker(*given)
    main()
