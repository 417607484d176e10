"""Which of several drafts is best: real drafts of a small target, and a draft that fails among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest

from spectui.engine import costs
from spectui.engine import pair as pair_module
from spectui.engine.events import Finished, Loading, Message
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.llama.interrupt import Interrupt
from spectui.measure.compare import SUFFIX, Answer, Comparison, Replies, Row, compare, expected_speed_ups
from spectui.measure.divergence import kl, target_rows
from spectui.speculation.drafters.ahead import AheadDrafter
from spectui.speculation.policies.cost_model import CostModel, DraftCost, VerifyCost
from spectui.speculation.statistics import Statistics
from tests.helpers import smollm2
from tests.llama.ggufs import WORDS, byte_names, write_model
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
    session.load(replace(smollm2.alone(), ctx_size=16))  # llama.cpp would end the process
    with pytest.raises(SpectuiError, match=r"^The context holds 16 tokens, too few to compare drafts in: "):
        target_rows(session)


def test_the_expected_speed_up_is_that_of_the_best_length() -> None:
    model = CostModel(VerifyCost({n: 1.0 if n <= 4 else 3.0 for n in range(1, 18)}, 1.0), DraftCost(0.1, 0.1))
    assert max(expected_speed_ups(model, 1.0)) == pytest.approx(17 / 4.6)
    assert max(expected_speed_ups(model, 0.5)) == pytest.approx((1 + 0.5 + 0.25) / 1.2)
    assert max(expected_speed_ups(model, 0.0)) == 1.0


@pytest.mark.xdist_group("demo pair")
def test_the_target_as_its_own_draft_agrees_and_another_quantisation_diverges(session: Session) -> None:
    setup = smollm2.whole()
    assert setup.model is not None and setup.draft is not None
    setup = replace(setup, requantise_draft="off", no_profile="off")
    found = compare(session, setup, [setup.model, setup.draft], GREEDY, ["python"], tokens=16, runs=2, positions=12)
    assert [row.name for row in found.rows] == [SUFFIX, Path(setup.model).name, Path(setup.draft).name]
    suffix, same, lighter = found.rows
    assert all(row.complete and row.problem is None for row in found.rows)
    assert same.divergence is not None and lighter.divergence is not None
    assert same.divergence.positions == lighter.divergence.positions == 12
    assert same.divergence.kl < 0.01 < lighter.divergence.kl
    assert same.divergence.agreement == 1.0
    assert same.vocabulary == lighter.vocabulary == "same"
    assert same.drafting.acceptance is not None and lighter.drafting.acceptance is not None
    assert lighter.drafting.acceptance < same.drafting.acceptance
    assert same.draft_s and lighter.draft_s and same.expected and lighter.expected
    assert suffix.draft_s is suffix.expected is suffix.divergence is None and found.gain(suffix)
    for row in found.rows:
        replies = row.replies["python"]
        assert len(replies.plain) == len(replies.measured) == 2
        texts = {answer.tokens for answer in (*replies.plain, *replies.measured)}
        assert len(texts) == 1 and len(texts.pop()) == 16, "the text is plain decoding's"
        assert not any(answer.statistics.drafted for answer in replies.plain)
        assert (replies.drafted is None) == (row is suffix)
        pairs = zip(replies.measured, replies.plain, strict=True)
        assert replies.pairs() == pytest.approx([log(drafted.speed / plain.speed) for drafted, plain in pairs])


def test_a_draft_that_fails_is_a_row_with_its_sentence_and_the_target_is_loaded_once(
    models: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = tiny_setup(models)
    assert setup.draft is not None
    loads: list[str] = []
    monkeypatch.setattr(
        session, "_emit", lambda event: loads.append(event.what) if isinstance(event, Loading) else None
    )
    cut = models / "cut.gguf"
    cut.write_bytes(Path(setup.draft).read_bytes()[:3000])
    drafts = [str(models / "none.gguf"), setup.draft, str(cut), setup.draft]
    found = compare(session, setup, drafts, GREEDY, ["story"], tokens=8, positions=8)
    problems = [row.problem for row in found.rows]
    assert problems[0] is problems[2] is problems[4] is None
    assert "There is no draft model" in (problems[1] or "") and "damaged or cut short" in (problems[3] or "")
    assert found.rows[2].complete and found.rows[4].complete
    assert sum(a == "target" and b != "target" for a, b in zip(loads, [*loads[1:], ""], strict=True)) == 1


@pytest.mark.parametrize("drafter", ["off", "model"])
def test_each_row_is_measured_with_its_own_drafter(
    models: Path, session: Session, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = tiny_setup(models)
    assert setup.draft is not None
    used: list[str] = []
    cold: list[Setup] = []
    generate, begin_cold = session.generate, session.begin_cold
    monkeypatch.setattr(session, "begin_cold", lambda setup: (cold.append(setup), begin_cold(setup)))

    def listening(messages: Sequence[Message]) -> Finished:
        used.append(session.knobs.drafter)
        return generate(messages)

    monkeypatch.setattr(session, "generate", listening)
    found = compare(session, setup, [setup.draft], replace(GREEDY, drafter=drafter), ["story"], tokens=8, positions=8)
    assert all(row.complete for row in found.rows) and len(cold) == len(used), "each reply begins from cold"
    assert used[:1] == ["suffix"] and set(used) == {"off", "suffix", "model", "model" if drafter == "model" else "auto"}


def test_costs_that_a_busy_machine_did_not_keep_are_measured_with_each_draft(
    models: Path, session: Session, monkeypatch: pytest.MonkeyPatch, fresh_directories: None
) -> None:
    monkeypatch.setattr(costs, "_is_noisy", lambda seconds: True)
    setup = tiny_setup(models, no_profile="off")
    assert setup.draft is not None
    found = compare(session, setup, [setup.draft], GREEDY, ["story"], tokens=8, positions=8)
    assert all(row.costs is not None and row.costs.verify.known for row in found.rows)
    assert found.rows[1].expected is not None


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
    found = compare(session, setup, [str(mapped)], GREEDY, ["story"], tokens=8, positions=8)
    assert found.rows[1].vocabulary == "mapped" and found.rows[1].divergence is not None
    found = compare(session, target, [str(by_text)], GREEDY, ["story"], tokens=8, positions=8)
    assert found.rows[1].vocabulary == "by text" and found.rows[1].divergence is None


def test_what_was_measured_is_kept_when_it_is_stopped(models: Path, session: Session, interrupt: Interrupt) -> None:
    setup = tiny_setup(models)
    assert setup.draft is not None

    def progress(done: float, what: str) -> None:
        if what.startswith("draft.gguf: python, acceptance"):
            interrupt.set()

    found = compare(
        session, setup, [setup.draft, setup.draft], GREEDY, ["story", "python"], 8, progress=progress, positions=8
    )
    assert found.stopped
    assert [[len(each.measured) for each in row.replies.values()] for row in found.rows] == [[3, 3], [1, 1], []]
    assert found.rows[0].complete and not found.rows[1].complete
    assert found.gain(found.rows[1]) is not None
    assert found.rows[1].divergence is not None, "it comes after the first prompt"


def test_the_time_is_bounded_and_shared(models: Path, session: Session) -> None:
    setup = tiny_setup(models)
    assert setup.draft is not None
    found = compare(session, setup, [setup.draft], GREEDY, ["story"], 8, seconds=0.0, positions=8)
    assert not found.stopped
    assert [row.replies for row in found.rows] == [{}, {}]


def test_a_target_that_cannot_be_loaded_ends_it(models: Path, session: Session) -> None:
    setup = replace(tiny_setup(models), model=str(models / "none.gguf"))
    with pytest.raises(pair_module.ModelFileError, match="There is no target model"):
        compare(session, setup, ["a.gguf"], GREEDY)


def answered(speed: float, prompt_s: float = 0.0) -> Answer:
    """64 tokens at this speed."""
    return Answer(tuple(range(64)), Statistics(emitted=64, decode_s=64 / speed), prompt_s)


def compared(*speed_ups: float, noise: float = 0.01) -> Comparison:
    """Rows with these speed-ups on four repetitions of one prompt."""
    rows = [
        Row(f"draft {n}", "path", replies={"story": Replies([answered(10) for _ in range(4)], [
            answered(10 * speed_up * (1 + noise * (-1) ** run)) for run in range(4)])})
        for n, speed_up in enumerate(speed_ups)
    ]  # fmt: skip
    return Comparison(kinds=("story",), rows=rows)


def test_the_ranking_is_by_speed_up_and_ties_are_what_cannot_be_told_from_the_best() -> None:
    found = compared(1.2, 1.5, 1.5)
    assert [row.name for row in found.ranked()] == ["draft 1", "draft 2", "draft 0"]
    assert [found.ties(row) for row in found.ranked()] == [False, True, False]
    assert found.gain(found.rows[1]).faster and found.behind(found.rows[0], found.rows[1]).slower


def test_what_a_draft_costs_before_the_first_token_counts() -> None:
    """It decodes faster by a fifth, and reads the prompt for five seconds."""
    found = compared(1.2)
    for answer in found.rows[0].replies["story"].measured:
        assert answer.speed == answer.statistics.tokens_per_s
    found.rows[0].replies["story"].measured = [answered(12, 5.0) for _ in range(4)]
    assert found.gain(found.rows[0]).slower and found.gain(found.rows[0], decoding=True).faster


@pytest.mark.xdist_group("demo pair")
def test_a_draft_that_drafts_ahead_has_its_vocabulary_and_its_divergence(
    models: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_module.models, "drafts_ahead", lambda *arguments: True)
    setup = tiny_setup(models)
    words = [*WORDS, *byte_names()]
    mapped = write_model(models / "mapped.gguf", tokens=[*words[:10], words[11], words[10], *words[12:]])
    found = compare(session, setup, [str(mapped), str(setup.draft)], GREEDY, ["story"], tokens=8, runs=1, positions=8)
    assert isinstance(session.strategy.model, AheadDrafter)
    assert [row.vocabulary for row in found.rows[1:]] == ["mapped", "same"]
    assert all(row.divergence is not None for row in found.rows[1:])
