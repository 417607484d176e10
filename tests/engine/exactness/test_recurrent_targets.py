"""`--verify` with a target whose context cannot be truncated: its rows are those of the reply's own passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.engine.events import Event, Finished, Message, RoundDone
from spectui.engine.exactness.verify import verify
from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.llama.context import Context
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from spectui.speculation.records import Round, StopReason
from spectui.speculation.statistics import Statistics
from tests.llama.test_recurrent import Drafting, HalfRight, write_lfm2, write_mamba
from tests.toys import decode

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
KNOBS = Knobs(policy="fixed", temperature=0.9, seed=3, predict=40, draft_max=8, p_min=0.0)
QUESTION = [Message("user", "")]


class Recording(Context):
    """Keeps the text before each row that `evaluate` returns, and stops itself in the pass of this number from now on."""

    def __init__(self, model: Model) -> None:
        self.interrupt = Interrupt()
        super().__init__(model, self.interrupt, n_ctx=256, rows=9, threads=1)
        self.texts: set[tuple[int, ...]] = set()
        self.left = -1

    def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        self.count()
        found = super().evaluate(tokens, rows)
        end = len(self.tokens)
        self.texts |= {tuple(self.tokens[: end - n]) for n in range(rows)}
        return found

    def submit(self, tokens: Sequence[int], rows: int, k: int | None) -> Any:
        self.count()
        return super().submit(tokens, rows, k)

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.interrupt.set()


class Toy:
    """What `verify` needs of a session, with a drafter that is half right."""

    strict = False

    def __init__(self, context: Recording) -> None:
        self.context, self.knobs = context, KNOBS
        self.emit: Any = lambda event: None
        plain, _, _ = decode(context, PROMPT, replace(KNOBS, drafter="off"))
        self.text = plain.tokens
        context.clear()

    @property
    def stopped(self) -> bool:
        return self.context.interrupt.is_set()

    @contextmanager
    def listening(self, on_event: Any) -> Iterator[None]:
        self.emit = on_event
        yield

    def context_and_prompt(self, messages: Sequence[Message]) -> tuple[Context, list[int]]:
        return self.context, PROMPT

    def generate(self, messages: Sequence[Message], at: float | None = None) -> Finished:
        self.context.truncate(0)
        strategy = None if self.knobs.drafter == "off" else Drafting(HalfRight(self.text))
        _, rounds, _ = decode(self.context, PROMPT, self.knobs, strategy=strategy)
        for round in rounds:
            self.emit(RoundDone(round, 0))
        reason = StopReason.CANCELLED if self.stopped else StopReason.LIMIT
        return Finished(reason, "", Statistics.of(rounds), self.knobs, len(PROMPT), 0.1, 0.1)


@pytest.fixture(params=[write_mamba, write_lfm2])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toy]:
    request.param(tmp_path / "model.gguf")
    model = Model(str(tmp_path / "model.gguf"), extra_buffers=False)
    monkeypatch.setattr(model, "piece", lambda token: b"")  # it has no vocabulary
    context = Recording(model)
    yield Toy(context)
    context.close()
    model.close()


def drafted(session: Toy) -> tuple[Finished, list[Round]]:
    events: list[Event] = []
    session.emit = events.append
    finished = session.generate(QUESTION)
    return finished, [event.round for event in events if isinstance(event, RoundDone)]


def forged(rounds: list[Round], number: int) -> list[Round]:
    """The rounds, with another last token in this one."""
    *before, last = rounds[number].tokens
    wrong = last._replace(id=(last.id + 1) % 32)
    return [*rounds[:number], replace(rounds[number], tokens=(*before, wrong)), *rounds[number + 1 :]]


def test_the_same_rows_are_evaluated_again(session: Toy):
    finished, rounds = drafted(session)
    assert verify(session, QUESTION, finished, rounds).same  # type: ignore[arg-type]
    number = len(rounds) - 1
    assert any(round.pass_size > len(round.drafted) + 1 for round in rounds), "some passes begin with what was lost"
    session.context.texts.clear()
    verdict = verify(session, QUESTION, finished, forged(rounds, number))  # type: ignore[arg-type]
    assert not verdict.same and "do not explain it (logits differ by up to 0.000;" in verdict.sentences[-1]
    text = session.text
    judged = {
        (*text[: round.position], *(token.id for token in round.drafted[:n]))
        for round in rounds
        for n in range(len(round.drafted) + 1)
    }
    assert session.context.texts - {tuple(text[:n]) for n in range(len(text))} <= judged, "no row is another text's"
    assert judged <= session.context.texts, "and none is left out"


@pytest.mark.parametrize("passes", [5, 48, 75])
def test_it_can_be_stopped_in_each_part(session: Toy, passes: int):
    finished, rounds = drafted(session)
    session.context.left = passes
    with pytest.raises(SpectuiError, match="comparison with plain decoding was stopped"):
        verify(session, QUESTION, finished, forged(rounds, len(rounds) - 1))  # type: ignore[arg-type]
    assert session.context.left == 0, "no pass is begun after that"
