"""Which settings reach which model, and the keys under which the costs of the two are stored."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from spectui.engine.events import Event, Loading
from spectui.engine.loading import models as loading
from spectui.engine.loading import placement
from spectui.engine.session import Session
from spectui.kernels.plugin import LLAMA_CPP
from spectui.knobs import Setup
from spectui.llama.build import build_key
from spectui.llama.devices import listing
from spectui.llama.devices.records import Device
from spectui.llama.interrupt import Interrupt
from spectui.paths import state_directory
from tests.helpers.smollm2 import setup

CARD = Device("CUDA0", "NVIDIA H100", "gpu", 1 << 30, 80 << 30, "0000:c1:00.0")


@pytest.fixture
def models(tmp_path: Path) -> Setup:
    for name in ("target.gguf", "draft.gguf", "other.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    return Setup(model=str(tmp_path / "target.gguf"), draft=str(tmp_path / "draft.gguf"), threads=2)


def both_keys(setup: Setup) -> tuple[object, object]:
    resolved = placement.resolve(setup)
    assert resolved.draft is not None
    return resolved.target.costs_key(), resolved.draft.costs_key()


@pytest.mark.parametrize(
    ("changed", "target", "draft"),
    [
        ({"draft": "other.gguf"}, False, True),
        ({"model": "other.gguf"}, True, False),
        ({"threads": 1}, True, True),
        ({"threads_draft": 1}, False, True),
        ({"cache_type_k": "q8_0"}, True, False),
        ({"cache_type_v_draft": "q8_0"}, False, True),
        ({"flash_attn": "off"}, True, False),
        ({"flash_attn": "on"}, True, True),
        ({"gpu_layers": 3}, True, False),
        ({"gpu_layers_draft": 3}, False, True),
        ({"split_mode": "row"}, True, False),
        ({"split_mode_draft": "row"}, False, True),
        ({"tensor_split_draft": "1"}, False, True),
        ({"main_gpu_draft": 1}, False, True),
        ({"flash_attn_draft": "on"}, False, True),
        ({"device": "none"}, True, False),
        ({"device_draft": "none"}, False, True),
        ({"ctx_size": 1024}, False, False),
        ({"ctx_size": 512}, True, False),  # logits behind a longer context were not compared
        ({"remember": "on"}, False, False),
    ],
)
def test_each_key_holds_what_the_costs_depend_on(models: Setup, changed: dict[str, object], target: bool, draft: bool):
    directory = Path(models.model or "").parent
    files = {key: str(directory / value) for key, value in changed.items() if key in ("model", "draft")}  # type: ignore[operator]
    other = replace(models, **(changed | files))  # type: ignore[arg-type]
    assert [one != two for one, two in zip(both_keys(models), both_keys(other), strict=True)] == [target, draft]


def test_a_file_that_was_written_again_is_another_model(models: Setup):
    before = both_keys(models)
    Path(models.model or "").write_bytes(b"GGUF, and more")
    after = both_keys(models)
    assert before[0] != after[0] and before[1] == after[1]


def test_the_key_holds_the_number_of_threads_that_auto_means(models: Setup, monkeypatch: pytest.MonkeyPatch):
    """A process that may use fewer cores must not use costs that were measured on more."""
    automatic = replace(models, threads=0)
    monkeypatch.setattr(placement, "threads", lambda wanted: wanted or 8)
    eight = both_keys(automatic)
    monkeypatch.setattr(placement, "threads", lambda wanted: wanted or 1)
    assert all(one != other for one, other in zip(eight, both_keys(automatic), strict=True))


@pytest.mark.parametrize("change", ["card", "driver", "CUDA_VISIBLE_DEVICES", "GGML_OP_OFFLOAD_MIN_BATCH", "none"])
def test_costs_of_another_gpu_or_under_other_variables_of_it_are_not_used(
    models: Setup, monkeypatch: pytest.MonkeyPatch, change: str
):
    monkeypatch.setattr(listing, "list_devices", lambda: (CARD,))
    monkeypatch.setattr(listing, "_driver", lambda: ("580.65", "6.12"))
    before = both_keys(models)
    if change == "card":
        monkeypatch.setattr(listing, "list_devices", lambda: (CARD._replace(description="NVIDIA T4"),))
    elif change == "driver":
        monkeypatch.setattr(listing, "_driver", lambda: ("590.10", "6.12"))
    elif change.isupper():
        monkeypatch.setenv(change, "1")
    else:  # its free memory is not what it is
        monkeypatch.setattr(listing, "list_devices", lambda: (CARD._replace(free=1),))
    changed = change != "none"
    assert [one != two for one, two in zip(before, both_keys(models), strict=True)] == [changed, changed]


@pytest.mark.usefixtures("fresh_directories")
def test_another_draft_keeps_the_targets_costs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("spectui.engine.costs.measuring._NOISY", float("inf"))  # however busy the machine is, they are kept
    monkeypatch.setattr("spectui.engine.costs.measuring.BOUND_S", 0.5)
    events: list[Event] = []
    session = Session(events.append)
    pair = replace(setup(), no_profile="off", requantise_draft="off")
    session.load(pair)
    assert measures_the_target(events)
    events.clear()
    session.load(replace(pair, draft=pair.model))
    assert session.strategy.costs.known and session.strategy.costs.next > 0
    assert not measures_the_target(events)
    assert len(list(state_directory().glob("target-costs-*"))) == 1
    assert len(list(state_directory().glob("draft-costs-*"))) == 2


def measures_the_target(events: list[Event]) -> bool:
    return any(isinstance(event, Loading) and event.what == "costs" for event in events)


SERVERS = (
    Device("RPC0", "127.0.0.1:1", "gpu", 1, 1),
    Device("RPC1", "localhost:2", "gpu", 1, 1),
    Device("RPC2", "192.0.2.1:1", "gpu", 1, 1),  # of a network that is for documentation
)


@pytest.mark.parametrize(
    ("target", "draft", "layers", "auto"),
    [
        ("none", "RPC0", -2, False),
        ("none", "RPC1", -2, False),
        ("none", "RPC2", -2, True),
        ("CUDA0", "RPC0", -2, True),
        ("CUDA0", "RPC0", 99, True),
        ("CUDA0", "RPC0", 12, False),  # the other layers are on the CPU
        ("CUDA0", "RPC2", 12, True),
        ("CUDA0", "RPC0", 0, False),
        ("RPC1", "RPC0", -2, False),
        ("RPC2", "RPC0", -2, True),
        ("none", "CUDA0", -2, True),
    ],
)
def test_a_server_on_this_machine_has_no_device_of_its_own_beside_a_target_on_the_cpu(
    target: str, draft: str, layers: int, auto: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "list_devices", lambda: (CARD, *SERVERS))
    asked = Setup(model="m", draft="d", device=target, device_draft=draft, gpu_layers=layers)
    assert placement.resolve(asked).drafts_ahead(29, 25) is auto
    assert placement.resolve(replace(asked, async_draft="on")).drafts_ahead(29, 25)
    assert not placement.resolve(replace(asked, async_draft="off")).drafts_ahead(29, 25)
    assert not placement.resolve(replace(asked, async_draft="on", gpu_layers_draft=24)).drafts_ahead(29, 25)


def test_costs_of_other_kernels_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without tiles passes of other sizes round alike, which --strict must not believe with them."""
    usual = build_key()
    monkeypatch.setenv("GGML_CPU_TILED_MM", "0")
    assert build_key() != usual


CARDS = tuple(Device(f"CUDA{number}", "a GPU", "gpu", 1, 2) for number in range(2))
USUAL = {
    "gpu_layers": -1, "split_mode": "layer", "main_gpu": 0, "tensor_split": [], "n_ctx": 4096, "type_k": "f16", "type_v": "f16",
    "flash_attn": "auto", "threads": 7, "ubatch": 512, "batch": 2048,
}  # fmt: skip


@pytest.mark.parametrize(
    ("setup", "target", "draft"),
    [
        ({}, {}, {}),
        ({"gpu_layers": 5, "gpu_layers_draft": 3}, {"gpu_layers": 5}, {"gpu_layers": 3}),
        ({"split_mode": "none", "main_gpu": 1}, {"split_mode": "none", "main_gpu": 1}, {}),
        ({"split_mode_draft": "row", "main_gpu_draft": 2}, {}, {"split_mode": "row", "main_gpu": 2}),
        ({"tensor_split": "4,1"}, {"tensor_split": [1.0, 0.25]}, {}),
        ({"tensor_split_draft": "1,2", "device_draft": "CUDA0,CUDA1"}, {}, {"tensor_split": [0.5, 1.0]}),
        ({"ctx_size": 512}, {"n_ctx": 512}, {}),
        ({"ctx_size_draft": 256}, {}, {"n_ctx": 256}),
        ({"cache_type_k": "q8_0", "cache_type_v": "q4_0"}, {"type_k": "q8_0", "type_v": "q4_0"}, {}),
        ({"cache_type_k_draft": "q8_0", "cache_type_v_draft": "q4_0"}, {}, {"type_k": "q8_0", "type_v": "q4_0"}),
        ({"flash_attn": "off"}, {"flash_attn": "off"}, {"flash_attn": "off"}),
        ({"flash_attn_draft": "off"}, {}, {"flash_attn": "off"}),
        ({"threads": 3}, {"threads": 3}, {"threads": 3}),
        ({"threads_draft": 2}, {}, {"threads": 2}),
        ({"ubatch": 64, "batch": 128}, {"ubatch": 64, "batch": 128}, {"ubatch": 64, "batch": 128}),
    ],
)
def test_each_setting_reaches_its_model(
    setup: dict[str, object], target: dict[str, object], draft: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, object]] = []

    def make(*_: object, **given: object) -> object:
        made.append(given)
        return SimpleNamespace(output_on_gpu=False, n_vocab=64, kernels=LLAMA_CPP)

    monkeypatch.setattr(loading, "Model", make)
    monkeypatch.setattr(loading, "Context", make)
    monkeypatch.setattr(placement, "list_devices", lambda: CARDS)
    monkeypatch.setattr(placement, "threads", lambda wanted: wanted or 7)
    asked = replace(Setup(model="m", draft="d"), **setup)  # type: ignore[arg-type]
    resolved = placement.resolve(asked)
    assert resolved.draft is not None
    loading.target_context(resolved.target, loading.load(resolved.target, resolved.target), Interrupt())
    loading.draft_context(resolved.draft, loading.load(resolved.draft, resolved.target), Interrupt(), 4096)
    for found, wanted in ((made[0] | made[1], target), (made[2] | made[3], draft)):
        assert {key: found[key] for key in USUAL} == USUAL | wanted
