"""Use fewer threads while other processes are busy, or the quota of CPU time is lower.

llama.cpp's threads wait for each other at every barrier, so one thread without a core of its own slows all of them: 1.5B Q8_0
on two cores beside one busy process wrote 2.2 tokens a second with two threads, and 8.3 with one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import ceil
from time import monotonic, sleep
from typing import NamedTuple

from spectui.llama.cpu.cores import allowed_cpus

_INTERVAL_S = 0.3
"""How long others' use of the cores is averaged; reading it takes 0.1 ms."""

_STALE_S = 1.0
"""Age of a look from which it says little of now."""

_MOMENT_S = 0.1
"""How long others' use is looked at before many tokens are read: ten ticks of the kernel's counts."""

_SPARE = 0.35
"""Cores that others may use without costing a thread: the desktop, and this program's window."""

_CALM = 2
"""Intervals that others must have left more cores free before another thread is used."""


class CpuSeconds(NamedTuple):
    """CPU time since some moment, in seconds: of all processes on the cores that this process may use, and its own."""

    all: float
    own: float


def read_cpu_seconds() -> CpuSeconds:
    """The CPU time until now. What a hypervisor gave to others counts as used by others."""
    import psutil

    allowed = allowed_cpus()
    cores = psutil.cpu_times(percpu=True)
    used = 0.0
    for number, core in enumerate(cores):
        if len(allowed) == len(cores) or number in allowed:
            used += sum(core) - core.idle - getattr(core, "iowait", 0.0)
            used -= getattr(core, "guest", 0.0) + getattr(core, "guest_nice", 0.0)  # user and nice have them too
    own = os.times()
    return CpuSeconds(used, own.user + own.system)


class ThreadCount:
    """The number of threads for the next pass, from 1 to `most`."""

    def __init__(
        self,
        may_use: Callable[[], int],
        cores: int,
        read: Callable[[], CpuSeconds] = read_cpu_seconds,
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], object] = sleep,
    ) -> None:
        """`may_use`: threads that this process may use now; its quota may change. `cores`: its logical CPUs.

        `clock`: seconds. `pause` waits for so many.
        """
        self._may_use = may_use
        self.most = self.now = may_use()
        self._cores = cores
        self._read, self._clock, self._pause = read, clock, pause
        self._since = clock()
        self._before = read()
        self._calm = 0

    @property
    def reduced(self) -> bool:
        """Whether others take cores that threads would have."""
        return self.now < self.most

    def update(self) -> bool:
        """Call it between passes. Returns whether `now` or `most` has changed."""
        seconds = self._clock() - self._since
        return seconds >= _INTERVAL_S and self._look(seconds)

    def update_for_many(self) -> bool:
        """As `update`, before a pass over many tokens, which takes far longer than the moment for which it looks."""
        if self._clock() - self._since < _STALE_S:
            return self.update()
        self._since, self._before = self._clock(), self._read()
        self._pause(_MOMENT_S)
        self._calm = _CALM - 1  # a thread that was left out long ago is used at once
        return self._look(self._clock() - self._since)

    def _look(self, seconds: float) -> bool:
        """What others used since the last look, so long ago."""
        seen = self._read()
        others = ((seen.all - self._before.all) - (seen.own - self._before.own)) / seconds
        self._since, self._before = self._since + seconds, seen
        before, self.most = (self.now, self.most), self._may_use()
        cores = max(self.most, self._cores)
        wanted = max(1, min(self.most, cores - ceil(max(0.0, others - _SPARE))))
        self._calm = self._calm + 1 if wanted > self.now else 0
        if wanted < self.now or self._calm >= _CALM:
            self.now, self._calm = wanted, 0
        return (self.now, self.most) != before
