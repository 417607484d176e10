"""Runs a bench: each reply from cold, the repetitions interleaved, the draft alone at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import replace
from datetime import datetime, timezone
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from spectui.engine.events import Event, Finished, Loaded, LoadFailed, Message
from spectui.engine.room import NoRoomError
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.measure.bench.conditions import Conditions
from spectui.measure.bench.prompt_files import Prompt
from spectui.measure.bench.results import Run
from spectui.measure.bench.settings import Setting
from spectui.measure.compare import expected_speed_ups
from spectui.measure.quiet import Others, Stolen
from spectui.speculation.policies.cost_model import CostModel, CostSnapshot
from spectui.speculation.records import StopReason

if TYPE_CHECKING:
    from spectui.engine.isolation.process import EngineProcess
    from spectui.engine.session import Session
    from spectui.engine.worker import Worker

Result = TypeVar("Result")

_DRAIN_S = 0.05
"""Seconds between two looks at the events."""

_WARM_UP = 8
"""Tokens of the reply after loading that does not count."""

_DRAFTED, _ACCEPTANCE = 4, 0.6
"""What is expected of fixed drafts before any was measured: their length, if draft-max allows, since p-min ends them, and the
chance that a token is accepted."""


class Cell(NamedTuple):
    """One run to be made."""

    setting: Setting
    prompt: Prompt
    repetition: int


class Models(Protocol):
    """What answers prompts: llama.cpp in a thread of its own, or the toys of tests."""

    def answer(self, setting: Setting, knobs: Knobs, messages: Sequence[Message]) -> Finished:
        """A reply from cold, by the model that the setting's baseline names. Raises SpectuiError."""


class EngineModels:
    """A pair behind the engine's thread. It loads the draft in the target's place when its baseline is asked for."""

    def __init__(self, worker: Worker | EngineProcess, setup: Setup, on_event: Callable[[Event], None]) -> None:
        self._worker = worker
        self._setup = setup
        self._on_event = on_event
        self._loaded: Setup | None = None
        self._draft: str | None = None  # the file that drafts: a copy of the draft, where that is cheaper
        self._warm = False

    def load(self, setup: Setup) -> Loaded:
        """Load models in the place of those that are loaded. Raises SpectuiError."""
        loaded = self._outcome(_load, setup)
        self._loaded, self._warm = setup, False
        if loaded.draft is not None:
            self._draft = loaded.draft.path
        return loaded

    def answer(self, setting: Setting, knobs: Knobs, messages: Sequence[Message]) -> Finished:
        setup = self._setup
        if setting.baseline == "draft":
            setup = replace(setup.draft_alone(), model=self._draft or setup.draft)
        if setup != self._loaded:
            self.load(setup)
        if not self._warm:
            # The first passes set things up, of both models: they are no sign of any setting's speed.
            drafting = replace(
                knobs, drafter="auto", policy="fixed", draft_max=4, draft_min=0, p_min=0.0, predict=_WARM_UP
            )
            first = self._outcome(_answer, setup, drafting, tuple(messages))
            if first.reason is StopReason.CANCELLED:
                return first
            self._warm = True
        return self._outcome(_answer, setup, knobs, tuple(messages))

    def _outcome(self, function: Callable[..., Result], *arguments: Any) -> Result:
        future = self._worker.call(function, *arguments)
        done = False
        while not done:
            done = bool(wait([future], _DRAIN_S).done)
            while self._worker.events:
                event = self._worker.events.popleft()
                if isinstance(event, LoadFailed):
                    raise SpectuiError(event.message)
                self._on_event(event)
        return future.result()


def _load(session: Session, setup: Setup) -> Loaded:
    return session.load(setup)


def _answer(session: Session, setup: Setup, knobs: Knobs, messages: Sequence[Message]) -> Finished:
    session.begin_cold(setup)
    session.knobs = knobs
    return session.generate(messages)


def plan(
    baselines: Sequence[Setting], settings: Sequence[Setting], prompts: Sequence[Prompt], repetitions: int
) -> list[Cell]:
    """Every run in the order in which it is made.

    Each repetition goes through all settings before the next begins, every second one backwards, so that a machine that slows
    down slows all settings. The draft alone comes last, because other models are loaded for it.
    """
    alone = [setting for setting in baselines if setting.baseline == "draft"]
    together = [*(setting for setting in baselines if setting.baseline != "draft"), *settings]
    return [
        Cell(setting, prompt, repetition)
        for group in (list(dict.fromkeys(together)), alone)
        for repetition in range(repetitions)
        for prompt in prompts
        for setting in (group if repetition % 2 == 0 else group[::-1])
    ]


def left(cells: Sequence[Cell], done: Sequence[Run]) -> list[Cell]:
    """The runs that are not among those made before, under the same conditions."""
    made = {(run.setting, run.prompt, run.repetition) for run in done}
    return [cell for cell in cells if (cell.setting, cell.prompt.name, cell.repetition) not in made]


def measure(
    models: Models, cells: Sequence[Cell], knobs: Knobs, shared: Conditions, watch: Callable[[], object] = Others
) -> Iterator[Run]:
    """Make the runs. `knobs` says what no setting does, and `shared` is kept in each. `watch` begins to watch other
    processes: what it returns says, as a string, which one used the machine since, or nothing.

    A reply that was stopped ends it, and gives no run. Raises SpectuiError.
    """
    for cell in cells:
        others, stolen, began = watch(), Stolen(), perf_counter()
        try:
            finished = models.answer(cell.setting, cell.setting.on(knobs), cell.prompt.messages)
        except NoRoomError as error:
            raise SpectuiError(f"{cell.prompt.name}: {error}") from error
        if finished.reason is StopReason.CANCELLED:
            return
        yield Run(
            **shared._asdict(),
            setting=cell.setting,
            prompt=cell.prompt.name,
            prompt_text=cell.prompt.digest,
            repetition=cell.repetition,
            prompt_tokens=finished.prompt_tokens,
            prompt_s=finished.prompt_s,
            time_to_first_token_s=finished.time_to_first_token_s,
            stop_reason=finished.reason.value,
            text=hashlib.sha256(finished.text.encode()).hexdigest()[:16],
            statistics=finished.statistics,
            wall_s=perf_counter() - began,
            stolen=stolen.share,
            busy=str(others),
            when=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )


def expected_s(first: Run, cells: Sequence[Cell], costs: CostSnapshot | None) -> float:
    """Seconds that the cells will take after a run of the target alone. Fixed drafts change them as the `costs` of the pair
    say, which may be None.
    """
    speed_ups = [1.0] * (_DRAFTED + 1)
    if costs is not None and costs.verify and costs.next > 0:
        speed_ups = expected_speed_ups(CostModel.of(costs), _ACCEPTANCE)
    decode_s = first.statistics.decode_s
    return sum(first.wall_s + decode_s * (_expected_slowdown(cell.setting, speed_ups) - 1) for cell in cells)


def _expected_slowdown(setting: Setting, speed_ups: Sequence[float]) -> float:
    """Time of a token, in plain passes; 1 for the automatic length, which is not slower. `speed_ups`: by length of draft."""
    if setting.policy != "fixed" or setting.drafter not in ("model", "auto"):
        return 1.0
    return 1 / speed_ups[min(setting.draft_max, _DRAFTED)]
