"""NVML through a fake module: no GPU or driver is needed."""

import sys
from types import SimpleNamespace

import pytest

from spectui.engine.events import Device
from spectui.telemetry.gpus import Gpu, Nvml, find_gpu, normal_pci


class NVMLError(Exception):
    """Stands in for pynvml.NVMLError."""


def refuse(*_: object) -> object:
    raise NVMLError("Not Supported")


def make_nvml(**functions: object) -> SimpleNamespace:
    """A pynvml with one GPU; `functions` replace some of its answers."""
    answers: dict[str, object] = {
        "NVMLError": NVMLError,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: b"NVIDIA H100",
        "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId=b"00000000:C1:00.0"),
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(used=3 << 30, total=80 << 30),
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=37),
        "nvmlDeviceGetTemperature": lambda handle, sensor: 61,
        "nvmlDeviceGetPowerUsage": lambda handle: 312_500,
    }
    return SimpleNamespace(**(answers | functions))


def read(monkeypatch: pytest.MonkeyPatch, **functions: object) -> tuple[Gpu, ...]:
    monkeypatch.setitem(sys.modules, "pynvml", make_nvml(**functions))
    return Nvml().read()


def test_every_figure_is_read_in_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch) == (Gpu(0, "NVIDIA H100", "0000:c1:00.0", 3 << 30, 80 << 30, 0.37, 61.0, 312.5, maker="NVIDIA"),)


def test_a_ggml_device_finds_its_gpu_by_pci_address_not_by_index(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = ["00000000:01:00.0", "00000000:C1:00.0"]
    gpus = read(
        monkeypatch, nvmlDeviceGetCount=lambda: 2, nvmlDeviceGetPciInfo=lambda handle: SimpleNamespace(busId=addresses[handle])
    )
    first_for_cuda = Device("CUDA0", "NVIDIA H100", "gpu", 0, 0, "0000:c1:00.0")
    found = find_gpu(gpus, first_for_cuda.id)
    assert found is not None
    assert found.index == 1
    assert find_gpu(gpus, "0000:02:00.0") is None


def test_a_device_without_an_address_has_no_gpu() -> None:
    assert find_gpu([Gpu(0)], None) is None


@pytest.mark.parametrize(
    ("raw", "normal"),
    [
        ("00000000:C1:00.0", "0000:c1:00.0"),
        ("0000:c1:00.0", "0000:c1:00.0"),
        ("00010000:0A:00.0", "10000:0a:00.0"),
        ("GPU-7c4b", None),
        ("", None),
        (None, None),
    ],
)
def test_pci_addresses_are_normalised(raw: str | None, normal: str | None) -> None:
    assert normal_pci(raw) == normal


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetName", "name"),
        ("nvmlDeviceGetPciInfo", "pci"),
        ("nvmlDeviceGetMemoryInfo", "memory_total"),
        ("nvmlDeviceGetUtilizationRates", "utilisation"),
        ("nvmlDeviceGetTemperature", "temperature"),
        ("nvmlDeviceGetPowerUsage", "power"),
    ],
)
def test_a_refused_query_costs_only_its_own_figure(monkeypatch: pytest.MonkeyPatch, function: str, field: str) -> None:
    (gpu,) = read(monkeypatch, **{function: refuse})
    assert getattr(gpu, field) is None
    known = [name for name in ("name", "pci", "memory_total", "utilisation", "temperature", "power") if name != field]
    assert all(getattr(gpu, name) is not None for name in known)


def test_unified_memory_is_unknown_not_full(monkeypatch: pytest.MonkeyPatch) -> None:
    (gpu,) = read(monkeypatch, nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=0, total=0))
    assert gpu.memory_used is None
    assert gpu.memory_total is None


def test_a_gpu_that_fell_off_the_bus_is_listed_without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, nvmlDeviceGetHandleByIndex=refuse) == (Gpu(0),)


def test_without_a_driver_there_are_no_gpus_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", make_nvml(nvmlInit=refuse))
    nvml = Nvml()
    assert nvml.read() == ()
    assert nvml.reason == "no NVML: Not Supported"
    nvml.close()


def test_without_the_module_there_are_no_gpus_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    nvml = Nvml()
    assert nvml.read() == ()
    assert "nvidia-ml-py" in nvml.reason
