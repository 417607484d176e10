"""Makes the runs of a plan: each reply from cold. A plan is a list of cells, or adapts to the runs that it gets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from spectui.chat.figures.format import size
from spectui.chat.sentences import kernels_used
from spectui.engine.events import Finished, Loaded, LoadFailed, Message, ModelInfo
from spectui.engine.room import NoRoomError
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.measure.bench.conditions import Conditions
from spectui.measure.bench.prompt_files import Prompt
from spectui.measure.bench.results import FINALS, Run
from spectui.measure.bench.settings import NO_DRAFT, Setting
from spectui.measure.quiet import Others, Stolen
from spectui.speculation.evaluator import Interrupted
from spectui.speculation.records import StopReason

if TYPE_CHECKING:
    from spectui.engine.protocol import SessionEngine
    from spectui.engine.session import Session

Result = TypeVar("Result")

_DRAIN_S = 0.05
"""Seconds between two looks at the events."""

_WARM_UP = 8
"""Tokens of the reply after loading that does not count."""


class Cell(NamedTuple):
    """One run to be made. `predict`: most tokens of its reply, 0: as the knobs say. `stage`: see `Run`."""

    setting: Setting
    prompt: Prompt
    repetition: int
    predict: int = 0
    stage: str = ""


Plan = Generator[Cell, Run, None]
"""Yields cells. A cell may depend on the runs of earlier cells."""


Answer = Callable[[Setting, Knobs, Sequence[Message]], Finished]
"""Gives a reply from cold, by the model that the setting's baseline names. Raises SpectuiError."""


class EngineModels:
    """A pair behind the engine's thread. It loads what a setting needs: another draft, or the draft in the target's place."""

    def __init__(self, worker: SessionEngine, setup: Setup) -> None:
        self._worker = worker
        self.setup = setup
        self._loaded: Setup | None = None
        self.facts: dict[str, Any] = {}
        """Of the models that were loaded first, what a run keeps: `kernels`, `models` and `devices` of `Run`."""
        self._draft: str | None = None  # the file that drafts: a copy of the draft, where that is cheaper
        self._warm = False

    def load(self, setup: Setup) -> Loaded:
        """Load models in the place of those that are loaded. Raises SpectuiError."""
        self._loaded, self._warm = None, False
        loaded = self.call(_load, setup)
        self._loaded = setup
        self.facts = self.facts or {
            "kernels": kernels_used(loaded.target, loaded.draft),
            "models": ", drafted by ".join(_in_words(each) for each in (loaded.target, loaded.draft) if each),
            "devices": ", ".join(f"{each.name} {each.description} ({size(each.total)})" for each in loaded.devices),
        }
        if loaded.draft is not None:
            self._draft = loaded.draft.path
        return loaded

    def beside(self, draft: str) -> Setup:
        """The set-up with this draft, or with none where it is `NO_DRAFT`."""
        return replace(self.setup, draft=None if draft == NO_DRAFT else draft)

    def answer(self, setting: Setting, knobs: Knobs, messages: Sequence[Message]) -> Finished:
        """See `Answer`."""
        setup = self.beside(setting.draft) if setting.draft else self.setup
        if setting.baseline == "draft":
            setup = replace(setup.draft_alone(), model=self._draft or setup.draft)
        if setup != self._loaded:
            self.load(setup)
        if not self._warm:
            # The first passes set things up, of both models: they are no sign of any setting's speed.
            drafting = replace(
                knobs, drafter="auto", policy="fixed", draft_max=4, draft_min=0, p_min=0.0, predict=_WARM_UP
            )
            first = self.call(_answer, drafting, tuple(messages))
            if first.reason is StopReason.CANCELLED:
                return first
            self._warm = True
        return self.call(_answer, knobs, tuple(messages))

    def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """What `function` returns for the session and the arguments, in the engine's thread. Raises SpectuiError."""
        future = self._worker.call(function, *arguments)
        done = False
        while not done:
            done = bool(wait([future], _DRAIN_S).done)
            while self._worker.events:
                event = self._worker.events.popleft()
                if isinstance(event, LoadFailed):
                    raise SpectuiError(event.message)
        try:
            return future.result()
        except Interrupted:
            raise SpectuiError("It was stopped.") from None


def _in_words(model: ModelInfo) -> str:
    """ "qwen2 1.5B Q8_0 (1.8 GB) on CUDA0"."""
    weights = f" ({size(model.bytes)})" if model.bytes else ""
    return f"{model.description}{weights}{' on ' if model.devices else ''}{', '.join(model.devices)}"


def _load(session: Session, setup: Setup) -> Loaded:
    return session.load(setup)


def _answer(session: Session, knobs: Knobs, messages: Sequence[Message]) -> Finished:
    session.begin_cold()
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


def fixed(cells: Sequence[Cell]) -> Plan:
    """The plan that makes these runs whatever comes of them."""
    for cell in cells:  # noqa: UP028 (a list cannot be sent runs)
        yield cell


def measure(
    answer: Answer, plan: Plan, knobs: Knobs, shared: Conditions, watch: Callable[[], object] = Others
) -> Iterator[Run]:
    """Make the runs of a plan. `knobs` says what no setting does, and `shared` is kept in each. `watch` begins to watch other
    processes: what it returns says, as a string, which one used the machine since, or nothing.

    A reply that was stopped ends it, and gives no run. Raises SpectuiError.
    """
    with suppress(StopIteration):
        cell = next(plan)
        while True:
            others, stolen, began = watch(), Stolen(), perf_counter()
            try:
                finished = answer(cell.setting, _knobs(cell, knobs), cell.prompt.messages)
            except NoRoomError as error:
                raise SpectuiError(f"{cell.prompt.name}: {error}") from error
            if finished.reason is StopReason.CANCELLED:
                return
            run = Run(
                **(vars(shared) | {"predict": cell.predict or shared.predict}),
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
                when=datetime.now(UTC).isoformat(timespec="seconds"),
                stage=cell.stage,
                length=shared.predict if cell.predict else 0,
            )
            yield run
            cell = plan.send(run)


def _knobs(cell: Cell, knobs: Knobs) -> Knobs:
    """Those of a run. In the finals each repetition has a seed of its own."""
    own = cell.setting.on(knobs)
    seed = own.seed + cell.repetition if cell.stage == FINALS else own.seed
    return replace(own, predict=cell.predict or own.predict, seed=seed)
