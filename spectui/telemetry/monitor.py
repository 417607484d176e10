"""The machine's figures, read once a second by a daemon thread: of the host, of GPUs, and of this program."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from spectui.telemetry.gpus import Gpu, Nvml
from spectui.telemetry.sysfs import SysfsGpus


class Host(NamedTuple):
    """Bytes, and shares in 0..1. `cpu` is the share of all cores since the last reading; None is unknown."""

    memory_used: int | None = None
    memory_total: int | None = None
    cpu: float | None = None
    process: int | None = None
    """Resident memory of this program's processes; a model that is memory-mapped counts."""


class HostProbe:
    """Reads the host's figures. The processor's share is measured between two readings, so the first has none."""

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        self._process = psutil.Process()
        self._read_before = False

    def processes(self) -> frozenset[int]:
        """The ids of this process and of those that it started: the engine may have one of its own."""
        pids = _descendants(self._process.pid)
        if pids is None:
            try:
                pids = {child.pid for child in self._process.children(recursive=True)}
            except (self._psutil.Error, OSError):
                pids = set()
        return frozenset((self._process.pid, *pids))

    def read(self, processes: Iterable[int] = ()) -> Host:
        """The host as it is now; what the system does not report is None. `processes`: the ids of this program's."""
        try:
            memory = self._psutil.virtual_memory()
            cpu = self._psutil.cpu_percent(None) / 100
            process = self._process.memory_info().rss
        except (self._psutil.Error, OSError):
            return Host()
        for pid in set(processes) - {self._process.pid}:
            with suppress(self._psutil.Error, OSError):  # it has ended
                process += self._psutil.Process(pid).memory_info().rss
        known, self._read_before = self._read_before, True
        # Not memory.used: caches count as free, because a model can have their memory.
        return Host(memory.total - memory.available, memory.total, cpu if known else None, process)


def _descendants(process: int, root: Path = Path("/proc")) -> set[int] | None:
    """The ids of the processes that this one has started, and those that they have; None where the system has no such list.

    psutil looks at every process of the machine, which takes milliseconds.
    """
    files = list((root / str(process) / "task").glob("*/children"))
    if not files:
        return None
    pids: set[int] = set()
    for file in files:
        with suppress(OSError):  # the thread has ended
            pids.update(map(int, file.read_text().split()))
    return pids.union(*(_descendants(child, root) or () for child in pids))


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
        present = [gpu for gpu in gpus if gpu != Gpu(gpu.index)]  # NVML has an index for a lost card, and nothing else
        now = {gpu.pci for gpu in present}
        lost = [gpu for pci, gpu in self._names.items() if pci not in now]
        self._names.update({gpu.pci: Gpu(gpu.index, gpu.name, gpu.pci, lost=True) for gpu in present if gpu.pci})
        return (*present, *lost)


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
