"""NVIDIA GPUs through NVML. Nothing here raises: without a driver there are no GPUs and a reason; any figure may be None.

`sysfs` reads those of other makers.

NVML numbers GPUs in PCI order and CUDA with the fastest first, so a ggml device is matched to its GPU by PCI address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

_PCI = re.compile(r"(?:([0-9a-f]+):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Gpu:
    """What the driver reports of a GPU now. Memory in bytes, utilisation in 0..1, degrees Celsius, watts; None is unknown.

    `maker`: NVIDIA, AMD or Intel.
    """

    index: int
    name: str | None = None
    pci: str | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    utilisation: float | None = None
    temperature: float | None = None
    power: float | None = None
    maker: str | None = None


def normal_pci(address: str | None) -> str | None:
    """A PCI address as ggml writes it: `0000:c1:00.0`. NVML's has capitals and an 8-digit domain."""
    match = _PCI.fullmatch(address.strip()) if address else None
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}".lower()


def find_gpu(gpus: Iterable[Gpu], device_id: str | None) -> Gpu | None:
    """The GPU at the PCI address of a ggml device, or None: then the device is shown without telemetry."""
    address = normal_pci(device_id)
    return next((gpu for gpu in gpus if gpu.pci == address), None) if address else None


def joules_per_token(gpus: Iterable[Gpu | None], speed: float | None) -> float | None:
    """Energy of a token in joules: watts of these GPUs / tokens per second. None if the power of one of them is unknown."""
    powers = [gpu.power if gpu is not None else None for gpu in gpus]
    known = [power for power in powers if power is not None]
    return sum(known) / speed if speed and known and len(known) == len(powers) else None


class Nvml:
    """A connection to NVML. `reason` says in a few words why there are no GPUs; it is empty if there may be some."""

    def __init__(self) -> None:
        self.reason = ""
        self._nvml: ModuleType | None = None
        try:
            import pynvml
        except ImportError:
            self.reason = "nvidia-ml-py is not installed"
            return
        try:
            pynvml.nvmlInit()
        except (pynvml.NVMLError, OSError) as error:
            self.reason = f"no NVML: {error}"
            return
        self._nvml = pynvml

    def read(self) -> tuple[Gpu, ...]:
        """Every GPU as it is now."""
        count = self._ask("nvmlDeviceGetCount") or 0
        return tuple(self._read_one(index) for index in range(count))

    def close(self) -> None:
        """End the connection."""
        self._ask("nvmlShutdown")
        self._nvml = None

    def _read_one(self, index: int) -> Gpu:
        handle = self._ask("nvmlDeviceGetHandleByIndex", index)
        if handle is None or self._nvml is None:  # the GPU was lost, or access to it is not permitted
            return Gpu(index)
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        # With unified memory (GB10, Jetson) the total is reported as 0: it is unknown.
        known = memory is not None and memory.total > 0
        return Gpu(
            index,
            name=self._ask("nvmlDeviceGetName", handle, then=_text),
            pci=self._ask("nvmlDeviceGetPciInfo", handle, then=lambda info: normal_pci(_text(info.busId))),
            memory_used=memory.used if known else None,
            memory_total=memory.total if known else None,
            utilisation=self._ask("nvmlDeviceGetUtilizationRates", handle, then=lambda rates: rates.gpu / 100),
            temperature=self._ask("nvmlDeviceGetTemperature", handle, self._nvml.NVML_TEMPERATURE_GPU, then=float),
            power=self._ask("nvmlDeviceGetPowerUsage", handle, then=lambda milliwatts: milliwatts / 1000),
            maker="NVIDIA",
        )

    def _ask(self, function: str, *arguments: Any, then: Callable[[Any], Any] | None = None) -> Any:
        """The answer of one NVML query, or None: any of them may be unsupported on a given GPU or driver."""
        if self._nvml is None:
            return None
        try:
            answer = getattr(self._nvml, function)(*arguments)
        except (self._nvml.NVMLError, AttributeError):  # an old module lacks newer functions
            return None
        return then(answer) if then else answer


def _text(value: str | bytes) -> str:
    """NVML gave bytes before version 11.5 of its Python module."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
