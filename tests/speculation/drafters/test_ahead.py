"""Drafting ahead: the text is plain decoding's however the two threads run, and work that proves stale is dropped."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.drafters.ahead import AheadDrafter
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.statistics import Statistics
from tests.toys import ToyModel, decode, emitted, never

PROMPT = [1, 2, 3]
FIXED = Knobs(policy="fixed", drafter="model", draft_max=4, p_min=0.0, predict=40, temperature=0.0, seed=1)
PATIENCE = 60.0


class Waiting(ToyModel):
    """A toy that calls `before` before it computes, and fails if two threads are in it."""

    before: Callable[[], None] = staticmethod(lambda: None)
    used = False

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]
        self.threads: list[str] = []

    def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        assert not self.used
        self.used = True
        try:
            self.before()
            self.threads.append(threading.current_thread().name)
            return super().evaluate(tokens, rows)
        finally:
            self.used = False

    def truncate(self, length: int) -> None:
        assert not self.used
        super().truncate(length)


@pytest.fixture
def pair(ahead) -> tuple[Waiting, Waiting, AheadDrafter]:
    """Target, a draft that is always right, and its drafter."""
    draft = Waiting(3, ends=False)
    return Waiting(3, ends=False), draft, ahead(draft)


def said_behind(text: Sequence[int], seed: int = 3) -> int:
    """What the toy of this seed drafts behind the text, without a thread."""
    return next(ModelDrafter(ToyModel(seed, ends=False), n_vocab=12).propose(text, FIXED)).id


def until_it_has(drafter: AheadDrafter, length: int) -> Callable[[], None]:
    """Hold the target until so much is drafted, or nothing is being drafted."""

    def wait() -> None:
        deadline = time.monotonic() + PATIENCE
        while (job := drafter.job) is not None and len(job.found) < length and not job.done.wait(0.001):
            assert time.monotonic() < deadline

    return wait


def guess_of(drafter: AheadDrafter) -> int:
    assert drafter.job is not None
    return drafter.job.found[0].id


@pytest.mark.parametrize("policy", ["fixed", "auto", "expected"])
@pytest.mark.parametrize("drafter", ["model", "auto"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_text_does_not_depend_on_delays(ahead, policy: str, drafter: str, temperature: float, seed: int):
    knobs = Knobs(policy=policy, drafter=drafter, draft_max=4, p_min=0.0, predict=60, temperature=temperature, seed=seed)
    plain = emitted(decode(ToyModel(seed), PROMPT, knobs)[1])
    delays = random.Random(seed)
    target, draft = Waiting(seed), Waiting(seed, noise=0.7)
    target.before = draft.before = lambda: time.sleep(delays.choice((0.0, 0.0, 0.0003, 0.001)))
    rounds = decode(target, PROMPT, knobs, ahead(draft))[1]
    assert emitted(rounds) == plain
    assert len(set(draft.threads)) == 2 or policy == "auto", "one drafts, the other goes on"


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
@pytest.mark.parametrize("seed", range(1, 5))
def test_the_text_does_not_depend_on_knobs_turned_meanwhile(ahead, temperature: float, seed: int):
    """Nor on replies stopped in the middle of a draft: here each of three goes on from its prompt anew."""
    knobs = Knobs(predict=60, temperature=temperature, seed=seed)
    plain = emitted(decode(ToyModel(seed), PROMPT, replace(knobs, drafter="off"))[1])
    numbers = random.Random(seed)
    target, draft = Waiting(seed), Waiting(seed, noise=0.7)
    target.before = draft.before = lambda: time.sleep(numbers.choice((0.0, 0.0, 0.0003, 0.001)))
    strategy = Strategy(ahead(draft), CostModel())
    for stop in (3, 7, None):
        turned = [
            replace(
                knobs, policy=numbers.choice(("fixed", "auto", "expected")), drafter=numbers.choice(("model", "auto")),
                draft_max=numbers.choice((0, 1, 4, 16)), p_min=numbers.choice((0.0, 0.5)),
            )
            for _ in range(60)
        ]  # fmt: skip
        rounds = decode(target, PROMPT, turned, strategy=strategy, cancel_after=stop)[1]
        assert emitted(rounds) == plain[: len(emitted(rounds))]
    assert len(emitted(rounds)) == len(plain)


def test_a_right_guess_begins_the_next_draft(pair):
    """With a draft that is always right, nothing but the first draft is waited for."""
    target, draft, drafter = pair
    target.before = until_it_has(drafter, FIXED.draft_max + 1)
    _, rounds, _ = decode(target, PROMPT, FIXED, drafter)
    assert [each.guessed for each in rounds] == [None] + [True] * (len(rounds) - 1)
    assert [token.fate for each in rounds for token in each.drafted].count("accepted") == 32
    assert draft.threads.count("MainThread") == FIXED.draft_max, "the first draft"
    assert rounds[0].saved_s == 0.0
    assert all(each.saved_s > 0.0 for each in rounds[1:])
    statistics = Statistics.of(rounds)
    assert (statistics.guesses, statistics.right_guesses) == (len(rounds) - 1, len(rounds) - 1)
    assert statistics.saved_s == pytest.approx(sum(each.saved_s for each in rounds))
    assert statistics.guessed == 1.0


def test_stale_work_is_dropped(ahead):
    """A draft of another mind is always wrong: its guesses are dropped, and each draft begins anew."""
    target, draft = Waiting(4, ends=False), Waiting(9, ends=False)
    drafter = ahead(draft)
    target.before = until_it_has(drafter, 3)
    _, rounds, _ = decode(target, PROMPT, FIXED, drafter)
    assert emitted(rounds) == emitted(decode(ToyModel(4, ends=False), PROMPT, FIXED)[1])
    wrong = [each for each in rounds if each.guessed is False]
    assert len(wrong) > len(rounds) / 2
    assert all(each.saved_s == 0.0 for each in wrong)
    for each in wrong:  # they draft what the model says behind the text
        text = PROMPT + emitted(rounds[: each.index])
        assert each.drafted == () or each.drafted[0].id == said_behind(text, seed=9)


def test_a_wrong_guess_behind_an_accepted_draft_is_dropped(pair):
    """The text is as long as the guess, and another one."""
    _, _, drafter = pair
    drafter.draft_ahead(PROMPT, (), FIXED, never)
    until_it_has(drafter, 3)()
    text = [*PROMPT, (guess_of(drafter) + 1) % 12]
    assert drafter.take(text, FIXED) is False
    assert not drafter.ready
    assert next(drafter.propose(text, FIXED)).id == said_behind(text)


def test_nothing_is_drafted_when_the_reply_has_ended(pair):
    """What uses the draft's context next, such as a measurement, must not meet the thread in it."""
    target, draft, drafter = pair

    def last_until_it_is_enough() -> None:
        if threading.current_thread().name == "spectui-draft":
            assert drafter.job is not None and drafter.job.enough.wait(PATIENCE)

    draft.before = last_until_it_is_enough
    decode(target, PROMPT, FIXED, drafter)
    assert drafter.job is not None and drafter.job.done.is_set() and not draft.used


def test_plain_rounds_are_guessed_too(pair):
    """A round that sends nothing leaves the model time to go on from its guess of the one token."""
    target, _, drafter = pair
    target.before = until_it_has(drafter, 2)
    knobs = [Knobs(policy="fixed", drafter="model", draft_max=4, draft_min=4, p_min=1.0, predict=9, temperature=0.0)]
    _, rounds, _ = decode(target, PROMPT, knobs, drafter)
    assert all(not each.drafted for each in rounds)
    assert [each.guessed for each in rounds[1:]] == [True] * 8


def test_a_draft_that_fails_in_its_thread(pair):
    target, draft, drafter = pair
    target.before = until_it_has(drafter, 3)

    def fail() -> None:
        if threading.current_thread().name == "spectui-draft" and len(draft.passes) > 8:
            raise SpectuiError("the device is lost")

    draft.before = fail
    _, rounds, notices = decode(target, PROMPT, FIXED, drafter)
    assert notices == ["The draft failed, so the reply goes on without it: the device is lost"]
    assert emitted(rounds) == emitted(decode(ToyModel(3, ends=False), PROMPT, FIXED)[1])
    assert draft.tokens == []


def test_a_failure_that_nobody_asked_about_is_not_the_next_replys(pair):
    _, draft, drafter = pair
    draft.fails_after = 0
    drafter.draft_ahead(PROMPT, (), FIXED, never)
    assert drafter.job is not None and drafter.job.done.wait(PATIENCE)
    drafter.drop()
    draft.fails_after = None
    assert next(drafter.propose(PROMPT, FIXED)).id == said_behind(PROMPT)


def test_turned_knobs_and_another_reply_drop_it(pair):
    _, _, drafter = pair
    drafter.draft_ahead(PROMPT, (), FIXED, never)
    until_it_has(drafter, 3)()
    guess = guess_of(drafter)
    assert drafter.take([*PROMPT, guess], FIXED) is True
    assert drafter.ready
    assert drafter.take([*PROMPT, guess], Knobs(seed=5)) is None
    assert not drafter.ready
    strategy = Strategy(drafter, CostModel())
    strategy.prepare(PROMPT, 0, 0.0, lambda: False, never)
    assert drafter.take([*PROMPT, guess], FIXED) is None


def test_a_round_without_a_draft_does_not_wait_for_a_pass(pair):
    """The draft's device may take longer than the target's."""
    _, draft, drafter = pair
    entered, go = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        assert go.wait(PATIENCE)

    draft.before = hold
    drafter.draft_ahead(PROMPT, (), FIXED, never)
    assert entered.wait(PATIENCE)
    text = list(PROMPT)
    for token in (7, 8):
        text.append(token)
        assert drafter.take(text, FIXED) is None
        assert drafter.lag(text) == 1
        drafter.draft_ahead(text, (), FIXED, never)
    go.set()
    until_it_has(drafter, 1)()
    assert guess_of(drafter) == said_behind(text), "it goes on behind the last text"


def test_the_pass_that_the_thread_is_in_gives_the_next_candidate(pair):
    _, draft, drafter = pair

    def second_until_it_is_enough() -> None:
        assert drafter.job is not None and (not drafter.job.found or drafter.job.enough.wait(PATIENCE))

    draft.before = second_until_it_is_enough
    drafter.draft_ahead(PROMPT, (), FIXED, never)
    until_it_has(drafter, 1)()
    text = [*PROMPT, guess_of(drafter)]
    assert next(drafter.propose(text, FIXED)).id == said_behind(text)
    assert draft.threads == ["spectui-draft"] * 2


def test_the_model_is_free_when_it_is_asked_for(pair):
    """Such as to close it."""
    _, draft, drafter = pair
    entered = threading.Event()

    def until_it_is_enough() -> None:
        entered.set()
        assert drafter.job is not None and drafter.job.enough.wait(PATIENCE)

    draft.before = until_it_is_enough
    drafter.draft_ahead(PROMPT, (), FIXED, never)
    assert entered.wait(PATIENCE)
    assert drafter.model is draft
    assert not draft.used
    assert draft.passes == [len(PROMPT)], "it does not go on to the end"
