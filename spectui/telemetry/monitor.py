"""The machine's figures, read once a second by a daemon thread: of the host, of GPUs, and of this program."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from spectui.telemetry.gpus import Gpu, Nvml
from spectui.telemetry.sysfs import SysfsGpus

_PROCESSES = Path("/proc")


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

    def read(self) -> Host:
        """The host as it is now; what the system does not report is None."""
        try:
            memory = self._psutil.virtual_memory()
            cpu = self._psutil.cpu_percent(None) / 100
            process = self._process.memory_info().rss
        except (self._psutil.Error, OSError):
            return Host()
        for pid in _descendants(self._process.pid):
            with suppress(self._psutil.Error, OSError):  # it has ended
                process += self._psutil.Process(pid).memory_info().rss
        known, self._read_before = self._read_before, True
        # Not memory.used: caches count as free, because a model can have their memory.
        return Host(memory.total - memory.available, memory.total, cpu if known else None, process)


def _descendants(process: int) -> set[int]:
    """The ids of the processes that this one has started, and those that they have: the engine may have one of its own.

    Linux lists them. psutil looks at every process of the machine, which takes milliseconds.
    """
    import psutil

    pids: set[int] = set()
    if not (lists := list((_PROCESSES / str(process) / "task").glob("*/children"))):
        with suppress(psutil.Error, OSError):  # it has ended
            return {child.pid for child in psutil.Process(process).children(recursive=True)}
    for file in lists:
        with suppress(OSError):  # the thread has ended
            pids.update(map(int, file.read_text().split()))
    return pids.union(*map(_descendants, pids))


class Telemetry(NamedTuple):
    """The machine at one moment. `gpu_reason` says why there are no GPUs."""

    host: Host = Host()
    gpus: tuple[Gpu, ...] = ()
    gpu_reason: str = ""


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
        nvml, sysfs, host = Nvml(), SysfsGpus(), HostProbe()
        while True:
            self.telemetry = Telemetry(host.read(), (*nvml.read(), *sysfs.read()), nvml.reason)
            if self._stopped.wait(self._interval):
                break
        nvml.close()
