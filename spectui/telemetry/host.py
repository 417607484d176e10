"""The host: its memory and processor, and how much of them this process uses."""

from __future__ import annotations

from typing import NamedTuple


class Host(NamedTuple):
    """Bytes, and shares in 0..1. `cpu` is the share of all cores since the last reading; None is unknown."""

    memory_used: int | None = None
    memory_total: int | None = None
    cpu: float | None = None
    process: int | None = None
    """Resident memory of this process; a model that is memory-mapped counts."""


class HostProbe:
    """Reads the host's figures. The processor's share is measured between two readings, so the first has none."""

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        self._process = psutil.Process()
        self._read_before = False

    def processes(self) -> frozenset[int]:
        """The ids of this process and of those that it started: the engine may have one of its own."""
        try:
            children = self._process.children(recursive=True)
        except (self._psutil.Error, OSError):
            children = []
        return frozenset((self._process.pid, *(child.pid for child in children)))

    def read(self) -> Host:
        """The host as it is now; what the system does not report is None."""
        try:
            memory = self._psutil.virtual_memory()
            cpu = self._psutil.cpu_percent(None) / 100
            process = self._process.memory_info().rss
        except (self._psutil.Error, OSError):
            return Host()
        known, self._read_before = self._read_before, True
        # Not memory.used: caches count as free, because a model can have their memory.
        return Host(memory.total - memory.available, memory.total, cpu if known else None, process)
