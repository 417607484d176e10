"""How many fast cores the machine has: a thread on an efficiency core makes all others wait at each of ggml's barriers."""

from __future__ import annotations

import os
import re
import struct
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

    Linux: `cpu_core/cpus` of Intel's hybrid CPUs, `cpu_capacity` of ARM's. macOS: sysctl's first performance level. Windows:
    the efficiency class of each core.
    """
    if sys.platform == "darwin":
        return _apple()
    if sys.platform == "win32":
        return of_highest_class(_windows(), allowed)
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


def _windows() -> bytes:
    """What GetLogicalProcessorInformationEx tells of the cores; b"" if it fails."""
    import ctypes

    size = ctypes.c_uint32()
    library = getattr(ctypes, "windll")  # noqa: B009 (only Windows has it)
    ask = library.kernel32.GetLogicalProcessorInformationEx
    ask(0, None, ctypes.byref(size))  # 0: RelationProcessorCore
    buffer = ctypes.create_string_buffer(size.value)
    return buffer.raw if ask(0, buffer, ctypes.byref(size)) else b""


def of_highest_class(records: bytes, allowed: Set[int]) -> int | None:
    """The allowed cores of the highest efficiency class, which are the fastest; None if all cores are of one class.

    `records`: SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX (winnt.h), one for each core: relationship, size, flags, class, 20
    reserved bytes, number of groups, and for each group a mask of its logical CPUs, the group's number and 6 reserved bytes.
    """
    cores: list[tuple[int, set[int]]] = []
    start = 0
    while start + 32 <= len(records):
        _, size, _, efficiency, groups = struct.unpack_from("<IIBB20xH", records, start)
        masks = (struct.unpack_from("<QH", records, start + 32 + 16 * number) for number in range(groups))
        cpus = {64 * group + bit for mask, group in masks for bit in range(64) if mask >> bit & 1}
        cores.append((efficiency, cpus))
        start += max(size, 32)
    if len({efficiency for efficiency, _ in cores}) < 2:
        return None
    most = max(efficiency for efficiency, _ in cores)
    return sum(efficiency == most and bool(cpus & allowed) for efficiency, cpus in cores) or None


def _numbers(ranges: str) -> set[int]:
    """The numbers of a list such as 0-3,8."""
    numbers: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", ranges):
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers
