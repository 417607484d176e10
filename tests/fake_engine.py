"""An engine without a thread and without a model: it writes down what it was asked and says what it is told to say.

User interface tests and pictures run on it. The events are the real records with fixed seconds, so a picture never
depends on the clock.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress

from spectui.engine.events import (
    FREE,
    Device,
    Devices,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    Loading,
    Message,
    ModelInfo,
    Notice,
    Prompt,
    RoundDone,
    Terms,
    Unloaded,
)
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import DraftToken, Fate, Likeliest, Origin, Reason, Round, StopReason, Token
from spectui.speculation.statistics import Statistics

CPU = Device("CPU", "AMD EPYC 9B14", "cpu", 20_400_000_000, 24_000_000_000)
GPU = Device("CUDA0", "NVIDIA GeForce RTX 3090", "gpu", 22_800_000_000, 24_000_000_000, "0000:c1:00.0")
TICK_S = 0.05
"""How much later a late engine ends what was stopped: the window has looked for events meanwhile."""
_WORDS = (" the", " a", "\n", ".", ",", " and")


class _Told(deque[Event]):
    """The listener hears each event before it is appended."""

    def __init__(self, engine: FakeEngine) -> None:
        super().__init__()
        self._engine = engine

    def append(self, event: Event, /) -> None:
        self._engine.listen(event)
        super().append(event)


class FakeEngine:
    """Implements `protocol.Engine`. `loads`, `unloads`, `generates` (on which `terms`), `stops` and `closed` are
    what it was asked.

    What is stopped ends at once, or `late`: `TICK_S` later, as in the worker, which is in the middle of a pass. Without a
    running event loop `settle` is that later moment. What a test says with `finish` and the like happens at once.
    """

    def __init__(self, knobs: Knobs | None = None, *, devices: tuple[Device, ...] = (CPU,), late: bool = False) -> None:
        self.knobs = knobs or Knobs()
        self.wants_probabilities = False
        self.guess = ""
        self.listen: Callable[[Event], None] = lambda event: None
        self.events: deque[Event] = _Told(self)
        self.devices = devices
        self.loads: list[Setup] = []
        self.generates: list[tuple[Message, ...]] = []
        self.terms: list[Terms] = []
        self.stops = 0
        self.forgets = 0
        self.thinks: bool | None = None
        """Whether the target's template has it think where nothing is said; None: it has no switch."""
        self.unloads = 0
        self.closed = False
        self.late = late
        self._ends: list[Callable[[], None]] = []  # of what was stopped
        self.loading = False
        self.replying = False
        self._text: list[str] = []
        self._statistics = Statistics()
        self.position = 0
        self._n_ctx = 4096

    def load(self, setup: Setup) -> None:
        """Write the set-up down; what is in progress ends first, as in the worker."""
        self._stop()
        self.loads.append(setup)
        self.loading = True

    def unload(self) -> None:
        """Free the models at once."""
        self._stop()
        self.unloads += 1
        self.events.append(Unloaded())

    def generate(self, messages: Sequence[Message], terms: Terms = FREE) -> None:
        """Write the conversation down and wait for `emit_round`."""
        self.generates.append(tuple(messages))
        self.terms.append(terms)
        self.replying = True
        self._text = []
        self._statistics = Statistics()

    def count(self, text: str) -> Future[int | None]:
        """A token for each word."""
        counted = Future[int | None]()
        counted.set_result(len(text.split()))
        return counted

    def forget(self) -> None:
        """Note it."""
        self.forgets += 1

    def stop(self) -> None:
        """End what is going on and what was asked for."""
        self.stops += 1
        self._stop()

    def _stop(self) -> None:
        if self.replying:
            self.replying = False
            self._end(lambda: self.finish(StopReason.CANCELLED))
        if self.loading:
            self.loading = False
            self._end(lambda: self.fail_loading("Loading was stopped."))

    def _end(self, end: Callable[[], None]) -> None:
        if not self.late:
            end()
            return
        self._ends.append(end)
        with suppress(RuntimeError):
            asyncio.get_running_loop().call_later(TICK_S, self.settle)

    def settle(self) -> None:
        """End what was stopped."""
        loading, replying = self.loading, self.replying
        while self._ends:
            self._ends.pop(0)()
        self.loading, self.replying = loading, replying  # begun since

    def close(self) -> None:
        """Write down that it was closed."""
        self.closed = True

    def report_loading(self, what: str, progress: float, size: int = 0) -> None:
        """Tell how far loading is: `progress` in 0..1, `size` in bytes."""
        self.events.append(Loading(what, progress, size))

    def finish_loading(self, draft_remark: str = "", sampling: Mapping[str, float] | None = None) -> None:
        """The last set-up that was asked for is loaded; `draft_remark` is how the draft's vocabulary differs, and `sampling`
        what the target's file recommends."""
        self.settle()
        setup = self.loads[-1]
        self.loading = False
        self._n_ctx = setup.ctx_size or 4096
        draft = self._model(setup.draft, 500_000_000, 400_000_000, draft_remark) if setup.draft else None
        found = "passes of up to 16 tokens round as single ones do, in an empty context"
        target = self._model(setup.model or "target.gguf", 1_500_000_000, 1_900_000_000, found)
        self.events.append(Loaded(setup, target._replace(thinks=self.thinks), draft, self.devices, sampling=sampling or {}))

    def fail_loading(self, message: str, *, without_draft: bool = False) -> None:
        """Loading ends with a sentence."""
        self.settle()
        self.loading = False
        self.events.append(LoadFailed(message, without_draft))

    def report_devices(self, *devices: Device) -> None:
        """The devices as they are now."""
        self.devices = devices
        self.events.append(Devices(devices))

    def read_prompt(self, done: int, total: int, *, reused: int = 0, seconds: float = 0.5) -> None:
        """`done` of `total` tokens of the prompt are read."""
        self.settle()
        self.position = done
        self.events.append(Prompt(done, total, reused, seconds))

    def emit_round(
        self,
        *accepted: str,
        correction: str | None = None,
        bonus: str | None = None,
        plain: str | None = None,
        rejected: Sequence[str] = (),
        ignored: Sequence[str] = (),
        seconds: float = 0.2,
        draft_s: float | None = None,
        source: str = "model",
        reason: Reason | None = None,
        plain_s: float | None = None,
        thought: bool | None = None,
    ) -> Round:
        """One round with these texts: accepted tokens, then the target's own one. A sixth of it went into drafting, if
        nothing else is said. What the target rejected was second to its own choice."""
        fates: list[tuple[str, Fate]] = [(text, "accepted") for text in accepted]
        fates += [(text, "rejected") for text in rejected] + [(text, "ignored") for text in ignored]
        drafted = tuple(DraftToken(self._id(text), text, 0.9, source, fate) for text, fate in fates)
        emitted: list[tuple[str, Origin]] = [(text, "accepted") for text in accepted]
        own: list[tuple[str | None, Origin]] = [(correction, "correction"), (bonus, "bonus"), (plain, "plain")]
        emitted += [(text, origin) for text, origin in own if text is not None]
        self.settle()
        index = self._statistics.rounds
        tokens = tuple(
            Token(
                self._id(text), text, origin, source if origin == "accepted" else None, index,
                self.position + place, 0.9 if origin == "accepted" else None, 0.95, thought,
            )
            for place, (text, origin) in enumerate(emitted)
        )  # fmt: skip
        if draft_s is None:
            draft_s = seconds / 6 if drafted else 0.0
        choose_s = (seconds if plain_s is None else plain_s) / 100
        # A round without a draft is one target pass, which is most of what a round takes.
        verify_s = seconds - draft_s - 3 * choose_s
        pass_size = 1 + len(drafted) - len(ignored)
        round = Round(
            index, self.position, self.knobs, drafted, tokens, draft_s, verify_s, choose_s, seconds, pass_size,
            reason, self._likeliest([text for text, _ in emitted], rejected), plain_s and plain_s * 0.97,
        )  # fmt: skip
        self._text += [token.text for token in tokens]
        self._statistics.add(round)
        self.position += len(tokens)
        self.events.append(RoundDone(round, self.position))
        return round

    def finish(self, reason: StopReason = StopReason.EOS, to_drop: int = 0) -> None:
        """The reply ends; `to_drop` as in `Finished`."""
        self.settle()
        self.replying = False
        statistics = self._statistics
        prompt_tokens = self.position - statistics.emitted
        text = "".join(self._text)
        self.events.append(Finished(reason, text, statistics, self.knobs, prompt_tokens, 0.5, 0.62, to_drop))

    def fail(self, message: str, to_drop: int = 0, *, no_room: bool = False) -> None:
        """The reply breaks off with a sentence; the others as in `Failed`."""
        self.settle()
        self.replying = False
        self.events.append(Failed(message, to_drop, no_room or to_drop > 0))

    def notify(self, message: str, *, draft_failed: bool = False) -> None:
        """A line to show, in passing."""
        self.events.append(Notice(message, draft_failed))

    def _model(self, path: str, parameters: int, size: int, remark: str = "") -> ModelInfo:
        return ModelInfo(path, "fake 1.5B Q8_0", parameters, size, 32_000, self._n_ctx, 32_768, remark, bool(remark))

    def _likeliest(self, texts: Sequence[str], rejected: Sequence[str]) -> Likeliest:
        """Each text at .95, and after it what was rejected in its place, if anything was, and words that are always likely."""
        rows = [[text, *(word for word in _WORDS if word != text)][:5] for text in texts]
        if rejected:
            rows[-1] = [texts[-1], rejected[0], *rows[-1][1:4]]
        words = [word for row in rows for word in row]
        p = array("f", (0.95, 0.03, 0.008, 0.003, 0.001) * len(rows))
        return Likeliest(5, array("i", map(self._id, words)).tobytes(), p.tobytes(), tuple(words))

    @staticmethod
    def _id(text: str) -> int:
        return sum(text.encode()) % 32_000
