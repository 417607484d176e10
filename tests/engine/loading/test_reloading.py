"""Another placement of the loaded models: in place, and back to the old one if it fails."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from spectui.engine.events import Event, Loaded, Notice
from spectui.engine.loading import placement
from spectui.engine.loading.plan import MemoryPlan, PlacementError, plan_in_words
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.llama.devices.records import Device, MemoryUse
from tests.helpers.smollm2 import alone, ask, whole_alone
from tests.llama.devices.test_asynchronous_device import needs_vulkan, on_the_device

GREEDY = Knobs(temperature=0, predict=8, drafter="off")
TOO_LARGE = 1_000_000


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def session(events: list[Event]) -> Iterator[Session]:
    session = Session(events.append)
    session.load(alone())
    yield session
    session.close()


def test_a_placement_that_fails_is_put_back(session: Session, events: list[Event], monkeypatch: pytest.MonkeyPatch) -> None:
    text = ask(session, GREEDY, "Hi").text
    events.clear()
    monkeypatch.setattr("spectui.llama.devices.context_memory.free_memory", lambda: 2**30)
    loaded = session.load(replace(alone(), ctx_size=TOO_LARGE))
    assert loaded.setup == alone()
    assert [event.setup for event in events if isinstance(event, Loaded)] == [alone()]
    (notice,) = (event.message for event in events if isinstance(event, Notice))
    assert notice.startswith(f"A context of {TOO_LARGE} tokens needs ")
    assert notice.endswith("The models are loaded as before.")
    assert ask(session, GREEDY, "Hi").text == text


def test_other_models_that_fail_are_not_replaced_by_the_old_ones(session: Session) -> None:
    with pytest.raises(SpectuiError, match="There is no target model"):
        session.load(replace(alone(), model="none.gguf"))


@pytest.mark.parametrize("wrong", [{"device": "CUDA9"}, {"device": "CUDA0,CPU"}, {"tensor_split": "nan"}])
def test_devices_that_do_not_exist_free_nothing(session: Session, events: list[Event], wrong: dict[str, str]) -> None:
    pair = session.pair
    assert pair is not None
    target = pair.target
    events.clear()
    session.load(replace(alone(), **wrong))
    assert pair.target is target
    assert any(isinstance(event, Notice) for event in events)


def test_a_placement_that_would_end_the_process_frees_nothing(
    session: Session, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_plan(*_: object) -> MemoryPlan:
        raise PlacementError("llama.cpp cannot place the models so.")

    monkeypatch.setattr(placement, "make_plan", make_plan)
    monkeypatch.setattr(placement.Resolved, "on_cpu", property(lambda placed: placed.setup.split_mode != "tensor"))
    assert session.pair is not None
    target = session.pair.target
    events.clear()
    loaded = session.load(replace(alone(), split_mode="tensor"))
    assert loaded.setup == alone() and session.pair.target is target
    (notice,) = (event.message for event in events if isinstance(event, Notice))
    assert notice == "llama.cpp cannot place the models so. The models are loaded as before."


def test_the_real_figures_are_told_by_device(session: Session, events: list[Event]) -> None:
    loaded = next(event for event in events if isinstance(event, Loaded))
    (use,) = loaded.target.memory
    assert use.device == "CPU"
    assert use.weights == pytest.approx(loaded.target.bytes, rel=0.01)
    assert use.cells == 4 * 3 * 64 * 2 * 2 * 1024  # layers, heads, width, K and V, bytes, cells
    assert use.compute > 0


def test_automatic_choices_are_kept_while_the_models_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Device("CUDA0", "a GPU", "gpu", 1, 2)
    plans: list[Setup] = []

    def make_plan(setup: Setup, *_: object) -> MemoryPlan:
        plans.append(setup)
        return MemoryPlan(replace(setup, gpu_layers=7 + len(plans), device_draft="CUDA0"), (gpu,), ())

    monkeypatch.setattr(placement, "make_plan", make_plan)
    monkeypatch.setattr(placement, "list_devices", lambda: (gpu,))
    placed = placement.AutomaticPlacement(lambda _: None)
    in_use = (MemoryUse("CUDA0", 1),)
    assert placed.place(whole_alone(), ()).gpu_layers == 8
    assert placed.place(replace(whole_alone(), strict="on"), in_use).gpu_layers == 8
    assert placed.place(replace(whole_alone(), ctx_size=2048), in_use).gpu_layers == 9
    assert placed.place(replace(whole_alone(), ctx_size=2048), ()).gpu_layers == 10
    assert placed.place(replace(whole_alone(), gpu_layers=0), ()).gpu_layers == 0
    assert len(plans) == 3


def test_with_models_on_a_server_the_first_choices_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers the process that has the models, so no other process can plan."""
    gpu = Device("RPC0", "a server", "gpu", 1, 2)
    plans: list[Setup] = []

    def make_plan(setup: Setup, *_: object) -> MemoryPlan:
        plans.append(setup)
        return MemoryPlan(replace(setup, gpu_layers=7, device_draft="RPC0"), (gpu,), ())

    monkeypatch.setattr(placement, "make_plan", make_plan)
    monkeypatch.setattr(placement, "list_devices", lambda: (gpu,))
    placed = placement.AutomaticPlacement(lambda _: None)
    asked, in_use = replace(whole_alone(), rpc="127.0.0.1:50052"), (MemoryUse("RPC0", 1),)
    assert placed.place(asked, in_use) == asked, "nothing was chosen yet"
    assert placed.place(asked, ()).gpu_layers == 7
    assert placed.place(replace(asked, ctx_size=2048), in_use).gpu_layers == 7
    assert placed.place(replace(asked, gpu_layers=3), in_use).gpu_layers == 3
    assert placed.place(replace(asked, device="RPC0", ctx_size=2048), in_use).gpu_layers == asked.gpu_layers
    assert len(plans) == 1
    assert "the RPC server answers the loaded models alone" in plan_in_words(asked, in_use)


PLACE = """
import json, sys
from spectui.engine.session import Session
from spectui.knobs import Setup

session = Session(lambda _: None)
setup = json.loads(sys.argv[1])
found = [session.load(Setup(**setup, gpu_layers=layers)).target.memory for layers in (-2, -1)]
session.close()
print(json.dumps(found))
"""


@needs_vulkan
def test_auto_fills_a_gpu_up_to_the_margin() -> None:
    """Its cells take 1.5 of the card's 2 GiB, and one shall stay free."""
    setup = {"model": whole_alone().model, "ctx_size": 65536, "ubatch": 32, "no_profile": "on"}
    everything, fitting = ({use[0]: sum(use[1:4]) for use in each} for each in on_the_device(PLACE, json.dumps(setup)))
    assert everything["Vulkan0"] > 2**30
    assert 0.9 * 2**30 < fitting["Vulkan0"] < 2**30


def test_what_cannot_be_planned_is_tried_and_no_line_says_so_beside_the_error_of_loading(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning would be printed on the terminal in a process that keeps no log."""

    def make_plan(*_: object) -> MemoryPlan:
        raise SpectuiError("The target model cannot be divided so: choose -sm layer.")

    monkeypatch.setattr(placement, "make_plan", make_plan)
    monkeypatch.setattr(placement.Resolved, "on_cpu", False)
    with caplog.at_level("INFO"):
        placed = placement.AutomaticPlacement(lambda _: None).place(whole_alone(), ())
    assert placed == whole_alone()
    assert [record.levelname for record in caplog.records if record.name == placement.__name__] == ["INFO"]
