"""Which devices the flags mean, and what picking one makes of the flags."""

import pytest

from spectui.chat.device_choice import chosen, pick
from spectui.engine.events import Device, ModelInfo
from spectui.knobs import Setup
from spectui.llama.devices.records import MemoryUse
from tests.fake_engine import CPU, GPU

GPU1 = GPU._replace(name="CUDA1", id="0000:c2:00.0")
ACCEL = Device("BLAS", "OpenBLAS", "accel", 0, 0)
ALL = (ACCEL, CPU, GPU, GPU1)


@pytest.mark.parametrize(
    ("setup", "devices", "names"),
    [
        (Setup(), ALL, {"CUDA0", "CUDA1"}),
        (Setup(), (CPU, ACCEL), {"CPU"}),
        (Setup(device="none"), ALL, {"CPU"}),
        (Setup(device="CUDA1"), ALL, {"CUDA1"}),
        (Setup(device="CUDA0, CUDA1"), ALL, {"CUDA0", "CUDA1"}),
        (Setup(gpu_layers=0), ALL, {"CPU"}),
    ],
)
def test_the_flags_say_which_devices(setup: Setup, devices: tuple[Device, ...], names: set[str]) -> None:
    assert chosen(setup, "device", devices) == names


@pytest.mark.parametrize(
    ("setup", "picked", "flag"),
    [
        (Setup(), "CUDA1", "CUDA0"),
        (Setup(device="CUDA0"), "CUDA1", "CUDA0,CUDA1"),
        (Setup(device="CUDA0"), "CUDA0", "none"),
        (Setup(device="none"), "CUDA1", "CUDA1"),
        (Setup(), "CPU", "none"),
        (Setup(device="none"), "CPU", "none"),
    ],
)
def test_a_gpu_joins_or_leaves_and_the_cpu_takes_all(setup: Setup, picked: str, flag: str) -> None:
    assert pick(setup, "device", picked, ALL).device == flag


def test_an_unnamed_draft_is_where_it_was_put() -> None:
    draft = ModelInfo("d", "", 1, 1, 1, 1, 1, memory=(MemoryUse("CUDA1", 5), MemoryUse("CPU", 3)))
    assert chosen(Setup(draft="d"), "device_draft", ALL, draft) == {"CUDA1"}
    assert chosen(Setup(draft="d", device_draft="CUDA0"), "device_draft", ALL, draft) == {"CUDA0"}


def test_a_draft_moves_to_the_gpu_that_is_picked_and_back_to_the_cpu() -> None:
    moved = pick(Setup(draft="d", gpu_layers_draft=0, tensor_split_draft="3,1"), "device_draft", "CUDA1", ALL)
    assert moved.device_draft == "CUDA1"
    assert (moved.gpu_layers_draft, moved.tensor_split_draft) == (-1, ""), "its layers go along, and shares of others do not"
    assert pick(moved, "device_draft", "CUDA0", ALL).device_draft == "CUDA0"
    assert pick(moved, "device_draft", "CUDA1", ALL).device_draft == "none"
