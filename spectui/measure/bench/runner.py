"""Makes runs: each is a reply from cold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from spectui.chat.figures.format import size
from spectui.chat.sentences import kernels_used
from spectui.engine.events import Finished, Loaded, Message, ModelInfo
from spectui.engine.room import NoRoomError
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.measure.bench.conditions import Conditions, conditions
from spectui.measure.bench.prompt_files import Prompt
from spectui.measure.bench.results import FINALS, Run
from spectui.measure.bench.settings import NO_DRAFT, Setting
from spectui.measure.divergence import divergence
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


class PlannedRun(NamedTuple):
    """One run to be made. `predict`: most tokens of its reply, 0: as the knobs say. `stage`: see `Run`."""

    setting: Setting
    prompt: Prompt
    repetition: int
    predict: int = 0
    stage: str = ""


class Stopped(Exception):
    """A person stopped the reply, so there is no run."""


class EngineModels:
    """A pair behind the engine's thread. It loads what a setting needs: another draft, or the draft in the target's place."""

    def __init__(self, worker: SessionEngine, setup: Setup) -> None:
        self._worker = worker
        self.setup = replace(setup, remember="off", state_memory=0, keep_read="off")  # else each run would be kept as a reply
        self._loaded: Setup | None = None
        self.facts: dict[str, str] = {}
        """`kernels`, `models` and `devices` of `Conditions`, of the models that were loaded first; nothing of servers'."""
        self.divergences: dict[str, float | None] = {}
        """The divergence of each draft that a setting named, None where it has none."""
        self._draft: str | None = None  # the file that drafts: a copy of the draft, where that is cheaper
        self._warm = False

    def load(self, setup: Setup) -> Loaded:
        """Load models in the place of those that are loaded. Raises SpectuiError."""
        self._loaded, self._warm = None, False
        loaded = self.call(_load, setup)
        self._loaded = setup
        if not self.facts and not setup.server:
            self.facts = {
                "kernels": kernels_used(loaded.target, loaded.draft),
                "models": ", drafted by ".join(_in_words(part) for part in (loaded.target, loaded.draft) if part),
                "devices": ", ".join(f"{part.name} {part.description} ({size(part.total)})" for part in loaded.devices),
            }
        if loaded.draft is not None:
            self._draft = loaded.draft.path
        return loaded

    def answer(self, setting: Setting, knobs: Knobs, messages: Sequence[Message]) -> Finished:
        """A reply from cold, by the model that the setting's baseline names. Raises SpectuiError."""
        setup = self.setup
        if setting.draft:
            setup = replace(setup, draft=None if setting.draft == NO_DRAFT else setting.draft)
        if setting.baseline == "draft":
            setup = replace(setup.draft_alone(), model=self._draft or setup.draft)
        if setup != self._loaded:
            self.load(setup)
            if setting.draft not in ("", NO_DRAFT) and setting.draft not in self.divergences:
                self.divergences[setting.draft] = self.call(divergence)
        if not self._warm:
            # The first passes set things up, of both models: they are no sign of any setting's speed.
            drafting = replace(knobs, drafter="auto", policy="fixed", draft_max=4, draft_min=0, p_min=0.0, predict=_WARM_UP)
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
            self._worker.events.clear()
        try:
            return future.result()
        except Interrupted:
            raise SpectuiError("It was stopped.") from None


def _in_words(model: ModelInfo) -> str:
    """ "qwen2 1.5B Q8_0 (1.8 GB) on CUDA0"."""
    weights = f" ({size(model.bytes)})" if model.bytes else ""
    return f"{model.description}{weights}{' on ' if model.devices else ''}{', '.join(model.devices)}"


def _load(session: Session, setup: Setup) -> Loaded:
    session.begin_cold()  # costs are measured where no text is in the contexts
    return session.load(setup)


def _answer(session: Session, knobs: Knobs, messages: Sequence[Message]) -> Finished:
    session.begin_cold()
    session.knobs = knobs
    return session.generate(messages)


def plan(
    baselines: Sequence[Setting], settings: Sequence[Setting], prompts: Sequence[Prompt], repetitions: int
) -> list[PlannedRun]:
    """Every run in the order in which it is made.

    Settings that need other models come one after the other, so that each pair is loaded once: one draft after another, and
    the draft alone last. Within such a group each repetition goes through all settings before the next begins, every second
    one backwards, so that a machine that slows down slows all settings.
    """
    groups: dict[tuple[bool, str], list[Setting]] = {}
    for setting in dict.fromkeys((*baselines, *settings)):
        groups.setdefault((setting.baseline == "draft", setting.draft), []).append(setting)
    return [
        PlannedRun(setting, prompt, repetition)
        for key in sorted(groups, key=lambda key: key[0])
        for repetition in range(repetitions)
        for prompt in prompts
        for setting in groups[key][:: 1 if repetition % 2 == 0 else -1]
    ]


def remaining(planned: Sequence[PlannedRun], done: Sequence[Run]) -> list[PlannedRun]:
    """The runs that are not among those made before, under the same conditions."""
    made = {(run.setting, run.prompt, run.repetition) for run in done}
    return [run for run in planned if (run.setting, run.prompt.name, run.repetition) not in made]


def prepare(models: EngineModels, knobs: Knobs) -> tuple[Loaded, Conditions, Callable[[PlannedRun], Run]]:
    """Load the models. Returns what is loaded, the conditions, and a function that makes runs under these. Raises
    SpectuiError."""
    loaded = models.load(models.setup)
    shared = conditions(models.setup, knobs, models.facts)

    def make(planned: PlannedRun) -> Run:
        run = make_run(planned, models.answer, knobs, shared)
        return replace(run, divergence=models.divergences.get(run.setting.draft))

    return loaded, shared, make


def make_run(
    planned: PlannedRun,
    answer: Callable[[Setting, Knobs, Sequence[Message]], Finished],
    knobs: Knobs,
    shared: Conditions,
    watch: Callable[[], object] = Others,
) -> Run:
    """Make a run. `answer`: see `EngineModels.answer`. `knobs` says what no setting does. `watch` begins to watch other
    processes: what it returns says, as a string, which one used the machine since, or nothing.

    Raises SpectuiError, and Stopped where a person stopped the reply.
    """
    others, stolen, began = watch(), Stolen(), perf_counter()
    try:
        finished = answer(planned.setting, _knobs(planned, knobs), planned.prompt.messages)
    except NoRoomError as error:
        raise SpectuiError(f"{planned.prompt.name}: {error}") from error
    if finished.reason is StopReason.CANCELLED:
        raise Stopped
    return Run(
        conditions=shared,
        setting=planned.setting,
        prompt=planned.prompt.name,
        prompt_text=planned.prompt.digest,
        repetition=planned.repetition,
        predict=planned.predict or shared.predict,
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
        stage=planned.stage,
    )


def _knobs(planned: PlannedRun, knobs: Knobs) -> Knobs:
    """Those of a run. In the finals each repetition has a seed of its own."""
    own = planned.setting.on(knobs)
    seed = own.seed + planned.repetition if planned.stage == FINALS else own.seed
    return replace(own, predict=planned.predict or own.predict, seed=seed)
