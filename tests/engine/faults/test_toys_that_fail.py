"""Failures within a reply: the text so far stays, a sentence says what failed, and the next prompt works."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.engine import worker as worker_module
from spectui.engine.events import Event, Failed, Finished, Message, Notice, RoundDone
from spectui.engine.session import Session
from spectui.engine.worker import Worker
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.llama.tokens.reply_text import ReplyMarks
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from tests.engine.waiting import PATIENCE, Events
from tests.toys import END, ToyModel

KNOBS = Knobs(temperature=0.8, seed=3, predict=30, draft_max=4, p_min=0.0, drafter="model", policy="fixed")
PROMPT = [3, 1, 4, 1, 5]


class Memory(ToyModel):
    """A toy that can fail at a pass or compute NaN behind a number of tokens, and that spoils what it keeps of it."""

    nan_at: int | None = None
    spoilt = False

    def logits(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        row = super().logits(tokens)
        self.spoilt = self.spoilt or len(tokens) == self.nan_at
        return np.full_like(row, np.nan) if self.spoilt else row

    def clear(self) -> None:
        self.tokens.clear()
        self.spoilt = False

    def truncate(self, length: int) -> None:
        super().truncate(length)
        self.spoilt = self.spoilt and length > 0


class ToyPair:
    """Stands for `pair.Pair`, on toys."""

    def __init__(self) -> None:
        self.context = Memory(5, ends=False)
        self.draft_context = Memory(5, noise=0.5, ends=False)
        self.target: Any = SimpleNamespace(
            n_vocab=12, piece=lambda token: b"%d " % token, is_end=lambda token: token == END, template=None,
            tokenize=lambda text, special: [], control_name=lambda token: "",
        )  # fmt: skip
        self.marks = ReplyMarks(self.target, lambda thought, answer: "")
        self.template = SimpleNamespace(
            tokens=lambda messages: [int(part) for part in messages[-1][1].split()], read_values=lambda *_: None
        )
        self.strategy = Strategy(ModelDrafter(self.draft_context, 12), CostModel())
        self.replies = None

    def adapt_threads(self) -> None:
        pass

    def clear_caches(self) -> None:
        self.context.clear()
        self.draft_context.clear()

    def close(self) -> None:
        pass


@pytest.fixture
def pair() -> ToyPair:
    return ToyPair()


@pytest.fixture
def expected() -> str:
    """The reply when nothing fails."""
    return answer(session_on(ToyPair(), [])).text


def session_on(pair: Any, events: list[Event]) -> Session:
    session = Session(events.append)
    session.pair = pair
    session.knobs = KNOBS
    return session


def answer(session: Session) -> Finished:
    return session.generate([Message("user", " ".join(map(str, PROMPT)))])


def text_of(events: Sequence[Event]) -> str:
    return "".join(token.text for event in events if isinstance(event, RoundDone) for token in event.round.tokens)


@pytest.mark.parametrize(
    ("prompts", "begun"), [(["1 2 3"], True), (["1 2 3", "4 5 6"], False), (["1 2 4", "4 5 6"], True)]
)
def test_each_conversation_has_a_balance_of_its_own(pair: ToyPair, prompts: list[str], begun: bool):
    """What one conversation gained or lost does not count in another; a follow-up is of the same one."""
    session = session_on(pair, [])
    session.knobs = replace(KNOBS, drafter="off", predict=3)
    session.generate([Message("user", "1 2 3")])
    pair.strategy.budget.balance = -900.0
    session.generate([Message("user", prompt) for prompt in prompts])
    assert (pair.strategy.budget.balance > 0) == begun


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_target_that_fails_at_a_pass(pair: ToyPair, expected: str, k: int):
    events: list[Event] = []
    session = session_on(pair, events)
    pair.context.fails_after = k
    with pytest.raises(SpectuiError, match="the toy failed"):
        answer(session)
    until = text_of(events)
    assert expected.startswith(until)
    assert len([event for event in events if isinstance(event, RoundDone)]) == k - 1
    assert not [event for event in events if isinstance(event, Finished)]
    pair.context.fails_after = None
    assert answer(session).text == expected


def test_a_target_whose_logits_are_nan(pair: ToyPair, expected: str):
    events: list[Event] = []
    session = session_on(pair, events)
    pair.context.nan_at = len(PROMPT) + 9
    with pytest.raises(SpectuiError, match="logits that are not numbers"):
        answer(session)
    assert text_of(events)
    assert expected.startswith(text_of(events))
    # what it keeps is spoilt: nothing of it may serve the next reply
    pair.context.nan_at = None
    assert pair.context.tokens == []
    assert answer(session).text == expected


@pytest.mark.parametrize("fault", ["fails_after", "nan_at"])
def test_a_draft_that_fails_costs_no_token_and_drafts_again_in_the_next_reply(pair: ToyPair, expected: str, fault: str):
    events: list[Event] = []
    session = session_on(pair, events)
    setattr(pair.draft_context, fault, 9)
    finished = answer(session)
    assert finished.text == expected
    notices = [event.message for event in events if isinstance(event, Notice)]
    assert len(notices) == 1
    assert notices[0].startswith("The draft failed, so the reply goes on without it: ")
    assert [event.round.drafted for event in events if isinstance(event, RoundDone)][-1] == ()
    setattr(pair.draft_context, fault, None)
    again = answer(session)
    assert again.text == expected
    assert again.statistics.accepted > 0


def test_a_draft_that_fails_on_the_prompt(pair: ToyPair, expected: str):
    events: list[Event] = []
    pair.draft_context.fails_after = 0
    assert answer(session_on(pair, events)).text == expected
    assert any(isinstance(event, Notice) and "The draft failed" in event.message for event in events)


@pytest.fixture
def worker(pair: ToyPair, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker that loads the toys."""
    monkeypatch.setattr(worker_module, "deque", Events)
    monkeypatch.setattr(Session, "load", lambda session, *_: setattr(session, "pair", pair))
    worker = Worker(KNOBS)
    worker.load(Setup())
    yield worker
    worker.close(PATIENCE)


@pytest.mark.parametrize(
    ("fault", "says"), [("fails_after", "the toy failed"), ("nan_at", "logits that are not numbers")]
)
def test_the_worker_emits_failed_and_answers_the_next_prompt(
    worker: Worker, pair: ToyPair, expected: str, fault: str, says: str
):
    assert isinstance(worker.events, Events)
    setattr(pair.context, fault, 3 if fault == "fails_after" else len(PROMPT) + 9)
    question = [Message("user", " ".join(map(str, PROMPT)))]
    worker.generate(question)
    assert says in worker.events.wait(Failed).message
    until = text_of(list(worker.events))
    assert until
    assert expected.startswith(until)
    setattr(pair.context, fault, None)
    worker.generate(question)
    assert worker.events.wait(Finished).text == expected
