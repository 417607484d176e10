"""The host: its memory and processor, and how much of them this program uses."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


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
        found = _descendants(self._process.pid)
        if found is None:
            try:
                found = {child.pid for child in self._process.children(recursive=True)}
            except (self._psutil.Error, OSError):
                found = set()
        return frozenset((self._process.pid, *found))

    def read(self, processes: Iterable[int] = ()) -> Host:
        """The host as it is now; what the system does not report is None. `processes`: the ids of this program's."""
        try:
            memory = self._psutil.virtual_memory()
            cpu = self._psutil.cpu_percent(None) / 100
            process = self._process.memory_info().rss
        except (self._psutil.Error, OSError):
            return Host()
        for each in set(processes) - {self._process.pid}:
            with suppress(self._psutil.Error, OSError):  # it has ended
                process += self._psutil.Process(each).memory_info().rss
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
    found: set[int] = set()
    for file in files:
        with suppress(OSError):  # the thread has ended
            found.update(map(int, file.read_text().split()))
    return found.union(*(_descendants(child, root) or () for child in found))
