"""Measurements of a chat's pair, without a window."""

from __future__ import annotations

import pytest

from spectui.chat.session import ChatSession
from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup
from spectui.measure.live.chat import ChatMeasurement
from spectui.measure.live.process import View
from tests.fake_engine import FakeEngine

PAIR = Setup(model="/models/target.gguf", draft="/models/draft.gguf")


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def session(engine: FakeEngine) -> ChatSession:
    session = ChatSession(engine, PAIR)
    session.models.load(PAIR)
    engine.finish_loading()
    list(session.drain())
    return session


def test_a_measurement_waits_until_the_models_are_freed_and_can_be_taken_back(
    session: ChatSession, engine: FakeEngine
) -> None:
    measurement = ChatMeasurement(session.models, View(("before",)))
    measurement.begin("--runs 1", Knobs())
    assert engine.unloads == 1 and measurement.waiting and measurement.running
    assert not measurement.view.lines, "what was measured before is gone"
    assert not measurement.poll() and measurement.process is None
    assert measurement.stop() and not measurement.running
    list(session.drain())
    assert not measurement.poll() and measurement.process is None
    assert not measurement.stop(), "nothing goes on"


def test_options_that_cannot_be_read_free_nothing(session: ChatSession, engine: FakeEngine) -> None:
    measurement = ChatMeasurement(session.models)
    with pytest.raises(UsageError, match="The options cannot be read"):
        measurement.begin("'", Knobs())
    assert engine.unloads == 0 and not measurement.running
