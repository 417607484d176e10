"""Which of several drafts is best: real drafts of a small target, and a draft that fails among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from spectui.engine import pair as pair_module
from spectui.engine.costs import measuring as costs
from spectui.engine.events import Finished, Loading, Message
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.llama.interrupt import Interrupt
from spectui.measure.bench.conditions import conditions
from spectui.measure.bench.prompt_files import built_in
from spectui.measure.bench.results import Run
from spectui.measure.bench.runner import EngineModels, measure
from spectui.measure.bench.settings import NO_DRAFT, Setting
from spectui.measure.bench.summary import Summary, summarise
from spectui.measure.compare import ACCEPTANCE, Comparison, Draft
from spectui.measure.divergence import divergence, kl
from spectui.speculation.drafters.ahead import AheadDrafter
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.statistics import Statistics
from tests.helpers import smollm2
from tests.llama.ggufs import WORDS, byte_names, write_model
from tests.llama.heads.headed import write_headed
from tests.measure.bench.runs import a_run
from tests.measure.models import tiny_setup

GREEDY = Knobs(temperature=0.0, seed=0)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def interrupt() -> Interrupt:
    return Interrupt()


@pytest.fixture
def session(interrupt: Interrupt) -> Iterator[Session]:
    session = Session(lambda event: None, interrupt)
    yield session
    session.close()


def test_the_divergence_of_a_row_from_itself_is_zero_and_known_rows_have_the_known_one() -> None:
    p, q = np.log(np.array([0.5, 0.25, 0.25], np.float32)), np.log(np.array([0.25, 0.25, 0.5], np.float32))
    assert kl(p, p) == pytest.approx(0.0, abs=1e-7)
    assert kl(p, q) == pytest.approx(0.5 * np.log(2) - 0.25 * np.log(2), abs=1e-6)
    assert kl(p + 3, q - 2) == pytest.approx(kl(p, q), abs=1e-6), "logits need not be normalised"


def test_the_divergence_is_of_the_draft_from_the_target_and_not_the_other_way() -> None:
    p, q = np.log(np.array([0.9, 0.1], np.float32)), np.log(np.array([0.5, 0.5], np.float32))
    assert kl(p, q) == pytest.approx(0.9 * np.log(1.8) + 0.1 * np.log(0.2), abs=1e-6)
    assert kl(q, p) == pytest.approx(0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(5), abs=1e-6)


def test_tokens_that_the_draft_lacks_are_left_out_of_the_divergence() -> None:
    p, q = np.log(np.array([0.2, 0.4, 0.4], np.float32)), np.array([-np.inf, 0.0, 0.0], np.float32)
    assert kl(p, q) == pytest.approx(0.0, abs=1e-6)
    assert kl(p, q[:2]) == 0.0


def test_a_context_too_small_for_the_text_is_a_sentence(session: Session) -> None:
    session.load(replace(smollm2.whole(), ctx_size=16))  # llama.cpp would end the process
    with pytest.raises(SpectuiError, match=r"^The context holds 16 tokens, too few to compare drafts in: "):
        divergence(session)


class Here:
    """A worker that does what it is asked at once, in this thread."""

    def __init__(self, session: Session) -> None:
        self.session, self.events = session, deque[Any]()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(self.session, *arguments))
        except Exception as error:
            done.set_exception(error)
        return done


class Compared(NamedTuple):
    """A comparison that has ended. `drafts`: suffix lookup first."""

    found: Comparison
    runs: list[Run]

    @property
    def drafts(self) -> list[Draft]:
        return self.found.drafts

    @property
    def summary(self) -> Summary:
        return summarise(self.runs)


def compare(
    session: Session, setup: Setup, drafts: Sequence[str], kinds: Sequence[str] = ("story",), tokens: int = 8,
    knobs: Knobs = GREEDY, runs: int = 3, seconds: float = float("inf"), positions: int = 8,
    tell: Callable[[Run], object] = lambda run: None,
) -> Compared:  # fmt: skip
    worker: Any = Here(session)
    alone = replace(setup, draft=None)
    knobs = replace(knobs, predict=tokens)
    found = Comparison(
        [Draft(name) for name in (NO_DRAFT, *drafts)], knobs, built_in(kinds, ""), runs, seconds, positions
    )
    made = []
    models = EngineModels(worker, alone)
    for run in measure(models.answer, found.plan(models), knobs, conditions(alone, knobs)):
        made.append(run)
        tell(run)
    return Compared(found, made)


def test_the_expected_speed_up_is_that_of_the_best_length() -> None:
    model = CostModel({n: 1.0 if n <= 4 else 3.0 for n in range(1, 18)}, first=0.1, next=0.1)
    for kept, speed_up in ((10, 17 / 4.6), (5, (1 + 0.5 + 0.25) / 1.2), (0, 1.0)):
        draft = Draft("a draft", costs=model, drafting=Statistics(reached=[10], kept=[kept]))
        assert draft.expected == pytest.approx(speed_up)


@pytest.mark.xdist_group("demo pair")
def test_the_target_as_its_own_draft_agrees_and_another_quantisation_diverges(session: Session) -> None:
    setup = smollm2.whole()
    assert setup.model is not None and setup.draft is not None
    setup = replace(setup, requantise_draft="off", no_profile="off")
    done = compare(session, setup, [setup.model, setup.draft], ["python"], tokens=16, runs=2, positions=12)
    suffix, same, lighter = done.drafts
    assert done.found.complete and not any(draft.problem for draft in done.drafts)
    assert same.divergence is not None and lighter.divergence is not None
    assert same.divergence.positions == lighter.divergence.positions == 12
    assert same.divergence.kl < 0.01 < lighter.divergence.kl
    assert same.vocabulary == lighter.vocabulary == "same"
    assert same.drafting.acceptance is not None and lighter.drafting.acceptance is not None
    assert lighter.drafting.acceptance < same.drafting.acceptance
    assert same.draft_s and lighter.draft_s and same.expected and lighter.expected
    assert suffix.draft_s is suffix.expected is suffix.divergence is None
    rows = {row.setting.label: row for row in done.summary.rows}
    assert list(rows) == ["target alone", NO_DRAFT, Path(setup.model).name, Path(setup.draft).name]
    assert all(row.gain is not None and row.gain.pairs == 2 for row in rows.values() if not row.setting.baseline)
    assert len(rows["target alone"].runs) == 6 and not rows["target alone"].statistics.drafted
    assert len({run.text for run in done.runs}) == 1, "the text is plain decoding's"
    assert [run.setting.draft for run in done.runs if run.stage] == [setup.model, setup.draft]


def test_a_draft_that_fails_has_its_sentence_and_the_target_is_loaded_once(
    models: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = tiny_setup(models)
    assert setup.draft is not None
    loads: list[str] = []
    monkeypatch.setattr(
        session, "_emit", lambda event: loads.append(event.what) if isinstance(event, Loading) else None
    )
    cut, other = models / "cut.gguf", models / "other.gguf"
    cut.write_bytes(Path(setup.draft).read_bytes()[:3000])
    other.write_bytes(Path(setup.draft).read_bytes())
    done = compare(session, setup, [str(models / "none.gguf"), setup.draft, str(cut), str(other)])
    problems = [draft.problem for draft in done.drafts]
    assert problems[0] is problems[2] is problems[4] is None
    assert "There is no draft model" in (problems[1] or "") and "damaged or cut short" in (problems[3] or "")
    assert [row.setting.label for row in done.summary.rows][1:] == [NO_DRAFT, "draft.gguf", "other.gguf"]
    assert sum(a == "target" and b != "target" for a, b in zip(loads, [*loads[1:], ""], strict=True)) == 1


@pytest.mark.parametrize("drafter", ["off", "model"])
def test_each_row_is_measured_with_its_own_drafter(
    models: Path, session: Session, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = tiny_setup(models)
    assert setup.draft is not None
    used: list[str] = []
    cold: list[None] = []
    generate, begin_cold = session.generate, session.begin_cold
    monkeypatch.setattr(session, "begin_cold", lambda: (cold.append(None), begin_cold()))

    def listening(messages: Sequence[Message]) -> Finished:
        used.append(session.knobs.drafter)
        return generate(messages)

    monkeypatch.setattr(session, "generate", listening)
    done = compare(session, setup, [setup.draft], knobs=replace(GREEDY, drafter=drafter))
    assert done.found.complete and done.found.share == 1.0
    assert len(cold) == len(used), "each reply begins from cold"
    drafters = {run.setting.label: run.setting.drafter for run in done.runs if not run.stage}
    own = "model" if drafter == "model" else "auto"
    assert drafters == {"target alone": "off", NO_DRAFT: "suffix", "draft.gguf": own}


def test_the_row_without_a_draft_leaves_heads_beside_the_target_alone(tmp_path: Path, session: Session) -> None:
    target = write_headed(tmp_path / "target.gguf", heads=0)
    heads = write_headed(tmp_path / "mtp-target.gguf", alone=True)
    setup = Setup(model=str(target), ctx_size=256, threads=1, no_profile="on")
    done = compare(session, setup, [str(heads)])
    assert [draft.info is None for draft in done.drafts] == [True, False]
    drafters = {run.setting.label: run.setting.drafter for run in done.runs if not run.stage}
    assert drafters == {"target alone": "off", NO_DRAFT: "suffix", "mtp-target.gguf": "auto"}


def test_costs_that_a_busy_machine_did_not_keep_are_measured_with_each_draft(
    models: Path, session: Session, monkeypatch: pytest.MonkeyPatch, fresh_directories: None
) -> None:
    monkeypatch.setattr(costs, "_is_noisy", lambda seconds: True)
    setup = tiny_setup(models, no_profile="off")
    assert setup.draft is not None
    done = compare(session, setup, [setup.draft])
    assert all(draft.costs is not None and draft.costs.known for draft in done.drafts)
    assert done.drafts[1].expected is not None


def test_other_vocabularies_are_mapped_or_drafted_by_text(models: Path, session: Session) -> None:
    setup = tiny_setup(models)
    words = [*WORDS, *byte_names()]
    swapped = [*words[:10], words[11], words[10], *words[12:]]
    mapped = write_model(models / "mapped.gguf", tokens=swapped)
    letters = [f"{a}{b}" for a in "abcdefgh" for b in "abcdefgh"]
    by_text = write_model(models / "by-text.gguf", tokens=[*words[:5], *letters, *words[5:]])
    target = replace(
        setup, model=str(write_model(models / "wide.gguf", tokens=[*words, *(f"x{n}" for n in range(200))]))
    )
    draft = compare(session, setup, [str(mapped)]).drafts[1]
    assert draft.vocabulary == "mapped" and draft.divergence is not None
    draft = compare(session, target, [str(by_text)]).drafts[1]
    assert draft.vocabulary == "by text" and draft.divergence is None


def test_what_was_measured_is_kept_when_it_is_stopped(models: Path, session: Session, interrupt: Interrupt) -> None:
    setup = tiny_setup(models)
    assert setup.draft is not None
    made: list[Run] = []

    def tell(run: Run) -> None:
        made.append(run)
        if run.stage == ACCEPTANCE and run.prompt == "python":
            interrupt.set()

    compare(session, setup, [setup.draft], ["story", "python"], tell=tell)
    summary = summarise(made)
    assert [len(row.runs) for row in summary.rows] == [6 + 2, 6, 2]
    assert summary.rows[2].gain is not None, "it has replies to each prompt"


def test_the_time_is_bounded_and_shared(models: Path, session: Session) -> None:
    setup = tiny_setup(models)
    assert setup.draft is not None
    done = compare(session, setup, [setup.draft], seconds=0.0)
    assert not done.runs and not done.found.complete


def test_a_target_that_cannot_be_loaded_ends_it(models: Path, session: Session) -> None:
    setup = replace(tiny_setup(models), model=str(models / "none.gguf"))
    with pytest.raises(pair_module.ModelFileError, match="There is no target model"):
        compare(session, setup, ["a.gguf"])


def speeds(*speed_ups: float, noise: float = 0.01) -> Summary:
    """Drafts with these speed-ups on four repetitions of one prompt, each with repetitions of its own."""
    runs = []
    for number, speed_up in enumerate(speed_ups):
        for repetition in range(4):
            own = Setting(draft=f"/m/draft {number}"), 10 * speed_up * (1 + noise * (-1) ** repetition)
            for setting, speed in ((Setting("off", "fixed", baseline="target", draft=own[0].draft), 10.0), own):
                runs.append(a_run(setting, speed, 4 * number + repetition, "story"))
    return summarise(runs)


def test_drafts_are_compared_by_what_they_gain_beside_plain_decoding() -> None:
    rows = {row.setting.label: row for row in speeds(1.2, 1.5, 1.5).rows}
    assert [(row.best, row.tie) for row in rows.values()] == [
        (False, False), (False, False), (True, False), (False, True),
    ]  # fmt: skip
    assert rows["draft 1"].gain.faster and rows["draft 0"].behind.slower
    assert len(rows["target alone"].runs) == 12, "one row, beside each draft"


@pytest.mark.xdist_group("demo pair")
def test_a_draft_that_drafts_ahead_has_its_vocabulary_and_its_divergence(
    models: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_module.models, "drafts_ahead", lambda *arguments: True)
    setup = tiny_setup(models)
    words = [*WORDS, *byte_names()]
    mapped = write_model(models / "mapped.gguf", tokens=[*words[:10], words[11], words[10], *words[12:]])
    done = compare(session, setup, [str(mapped), str(setup.draft)], runs=1)
    assert isinstance(session.strategy.model, AheadDrafter)
    assert [draft.vocabulary for draft in done.drafts[1:]] == ["mapped", "same"]
    assert all(draft.divergence is not None for draft in done.drafts[1:])
