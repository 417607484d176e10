"""Whether a machine is quiet enough to be measured on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic, sleep
from typing import NamedTuple

import psutil

_SHARE, _LEAST_S = 0.1, 0.05
"""Cores, and seconds, that a process must have used to be named: systems count the time in steps of 0.01 s."""


class Used(NamedTuple):
    """Seconds of processor time that a process has used since it began."""

    name: str
    seconds: float


def read_processes() -> dict[int, Used]:
    """By id, without this process and those that it began."""
    this = psutil.Process()
    own = {this.pid, *(child.pid for child in this.children(recursive=True))}
    return {
        process.pid: Used(process.info["name"] or "a process", times.user + times.system)
        for process in psutil.process_iter(["name", "cpu_times"])
        if (times := process.info["cpu_times"]) is not None and process.pid not in own
    }


class Others:
    """What other processes use of the cores from now on. Those that have ended before the figures are read are not counted."""

    def __init__(self, read: Callable[[], Mapping[int, Used]] = read_processes, clock: Callable[[], float] = monotonic) -> None:
        """`clock`: seconds."""
        self._read, self._clock = read, clock
        self._before, self._began = read(), clock()

    def used(self) -> dict[int, Used]:
        """Since then, by the process's id."""
        return {
            pid: process._replace(seconds=process.seconds - (self._before[pid].seconds if pid in self._before else 0.0))
            for pid, process in self._read().items()
        }

    def __str__(self) -> str:
        """The busiest, if it uses more than a tenth of a core; "" on a quiet machine."""
        elapsed = self._clock() - self._began
        most = max(self.used().values(), key=lambda use: use.seconds, default=Used("", 0.0))
        if most.seconds <= max(_LEAST_S, _SHARE * elapsed):
            return ""
        return f"{most.name} uses {100 * most.seconds / elapsed:.0f} % of a core"


def busy() -> str:
    """The busiest other process during one second, in which this process waits; "" on a quiet machine."""
    others = Others()
    sleep(1.0)
    return str(others)


class Stolen:
    """What a shared host gives others of the time for which this machine's cores are wanted, from here on.

    No process shows it: `steal` in proc(5). Where the system does not count it, it is nothing.
    """

    def __init__(self) -> None:
        self._begun = psutil.cpu_times()

    @property
    def share(self) -> float:
        """In 0..1."""
        now = psutil.cpu_times()
        stolen, *used = (
            getattr(now, kind, 0.0) - getattr(self._begun, kind, 0.0) for kind in ("steal", "user", "nice", "system")
        )
        return stolen / max(stolen + sum(used), 1e-9)

    def __str__(self) -> str:
        return f"the host took {100 * self.share:.0f} %"
