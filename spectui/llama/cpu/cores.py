"""How many fast cores the machine has: a thread on an efficiency core makes all others wait at each of ggml's barriers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Set
from functools import cache
from pathlib import Path

from spectui.llama.cpu.quota import content

_SLOW = 0.5
"""Share of the fastest core's capacity below which a core is an efficiency core: ARM's LITTLE ones have 0.2 to 0.4."""


@cache
def allowed_cpus() -> frozenset[int]:
    """The logical CPUs that this process may use, as it was started: `library` asks before libgomp is loaded, which binds the
    thread that asks to one of them where OMP_PROC_BIND or GOMP_CPU_AFFINITY is set."""
    cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return frozenset(cpus)


@cache
def fast_cores() -> int:
    """The physical cores that threads are to have: performance cores where the system tells cores apart."""
    import psutil

    allowed = allowed_cpus()
    return min(performance_cores(allowed) or psutil.cpu_count(logical=False) or len(allowed), len(allowed))


def performance_cores(allowed: Set[int], root: Path = Path("/sys/devices")) -> int | None:
    """Physical performance cores among the logical CPUs `allowed`; None if the system does not tell cores apart.

    Linux: `cpu_core/cpus` of Intel's hybrid CPUs, `cpu_capacity` of ARM's. macOS: sysctl's first performance level.
    """
    if sys.platform == "darwin":
        return _apple()
    fast = _intel(root) or _by_capacity(root)
    if not fast:
        return None
    cores = {content(root / f"system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu) for cpu in fast & allowed}
    return len(cores) or None  # only efficiency cores are allowed: then all of them count


def _intel(root: Path) -> set[int]:
    return _numbers(content(root / "cpu_core/cpus")) if (root / "cpu_atom").exists() else set()


def _by_capacity(root: Path) -> set[int]:
    capacities = {}
    for file in (root / "system/cpu").glob("cpu[0-9]*/cpu_capacity"):
        if (text := content(file)).isdigit():
            capacities[int(file.parent.name[3:])] = int(text)
    most = max(capacities.values(), default=0)
    fast = {cpu for cpu, capacity in capacities.items() if capacity >= _SLOW * most}
    return fast if len(fast) < len(capacities) else set()


def _apple() -> int | None:
    try:
        command = ["/usr/sbin/sysctl", "-n", "hw.perflevel0.physicalcpu"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        return int(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _numbers(ranges: str) -> set[int]:
    """The numbers of a list such as 0-3,8."""
    numbers: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", ranges):
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers
