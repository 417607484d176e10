"""A daemon thread that reads the machine's figures once a second."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from spectui.telemetry.gpus import Gpu, Nvml
from spectui.telemetry.host import Host, HostProbe
from spectui.telemetry.sysfs import SysfsGpus


class Telemetry(NamedTuple):
    """The machine at one moment. `gpu_reason` says why there are no GPUs."""

    host: Host = Host()
    gpus: tuple[Gpu, ...] = ()
    gpu_reason: str = ""


@dataclass
class SeenGpus:
    """The GPUs seen so far: one that is missing, or whose driver gives no answer, is lost."""

    _names: dict[str, Gpu] = field(default_factory=dict)

    def update(self, gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
        """These GPUs, and those that are lost."""
        found = [gpu for gpu in gpus if gpu != Gpu(gpu.index)]  # NVML has an index for a lost card, and nothing else
        now = {gpu.pci for gpu in found}
        lost = [gpu for pci, gpu in self._names.items() if pci not in now]
        self._names.update({gpu.pci: Gpu(gpu.index, gpu.name, gpu.pci, lost=True) for gpu in found if gpu.pci})
        return (*found, *lost)


class Monitor:
    """Polls in its own thread: a driver call may take long, and neither the screen nor the engine may wait for it.

    `telemetry` is replaced whole, so readers need no lock.
    """

    def __init__(self, interval: float = 1.0) -> None:
        self.telemetry = Telemetry()
        self._interval = interval
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start polling. A second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._poll, name="spectui-telemetry", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop polling, without waiting for it: a driver that hangs must not delay the end."""
        self._stopped.set()

    def _poll(self) -> None:
        nvml, sysfs, host, seen = Nvml(), SysfsGpus(), HostProbe(), SeenGpus()
        while True:
            processes = host.processes()
            gpus = (*nvml.read(processes), *sysfs.read(processes))
            self.telemetry = Telemetry(host.read(processes), seen.update(gpus), nvml.reason)
            if self._stopped.wait(self._interval):
                break
        nvml.close()
