"""Measurements of a chat's pair, without a window."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectui.chat.session import ChatSession
from spectui.errors import UsageError
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.knobs import Knobs, Setup
from spectui.measure.live.chat import ChatMeasurements, drafts_to_compare
from spectui.measure.live.command import MEASUREMENTS, compared
from spectui.measure.live.process import View
from tests.fake_engine import FakeEngine
from tests.llama.ggufs import write_model

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
    views = {"bench": View(("before",))}
    measurements = ChatMeasurements(session.models, views)
    measurements.begin("--runs 1", Knobs())
    assert engine.unloads == 1 and measurements.waiting and measurements.running
    assert not views, "what was measured before is gone"
    assert measurements.options["bench"] == "--runs 1"
    assert not measurements.poll() and measurements.process is None
    assert measurements.stop() and not measurements.running
    list(session.drain())
    assert not measurements.poll() and measurements.process is None
    assert not measurements.stop(), "nothing goes on"


def test_options_that_cannot_be_read_free_nothing(session: ChatSession, engine: FakeEngine) -> None:
    measurements = ChatMeasurements(session.models, {})
    with pytest.raises(UsageError, match="The options cannot be read"):
        measurements.begin("'", Knobs())
    assert engine.unloads == 0 and not measurements.running


def test_drafts_are_proposed_unless_a_person_has_changed_the_options(session: ChatSession) -> None:
    measurements, last = ChatMeasurements(session.models, {}), MEASUREMENTS[-1]
    measurements.propose("a.gguf")
    assert measurements.options[last.name] == "a.gguf"
    measurements.options[last.name] = "b.gguf"
    measurements.propose("c.gguf")
    assert measurements.options[last.name] == "b.gguf"


def test_the_loaded_draft_and_smaller_ones_are_compared(
    tmp_path: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, small = (write_model(tmp_path / f"{name}.gguf") for name in ("target", "small"))
    with target.open("ab") as file:
        file.write(b"\0" * 100)
    session = ChatSession(engine, Setup(model=str(target), draft="/models/draft.gguf"))
    assert drafts_to_compare(session.models, ModelCatalogue(), lambda: False) == compared(
        ["/models/draft.gguf", str(small)]
    )
    monkeypatch.chdir(tmp_path)
    relative = ChatSession(engine, Setup(model=str(target), draft="small.gguf"))
    assert drafts_to_compare(relative.models, ModelCatalogue(), lambda: False) == compared([str(small)]), "once"
    alone = ChatSession(engine, Setup(model=str(small)))
    assert drafts_to_compare(alone.models, ModelCatalogue(), lambda: False) == ""
