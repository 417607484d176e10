"""Performance cores, in directories that look like those of Linux."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from spectui.engine.loading import placement
from spectui.engine.loading.cores import of_highest_class, performance_cores


def make_cpus(root: Path, siblings: dict[int, str], capacities: dict[int, int] | None = None) -> Path:
    for cpu, text in siblings.items():
        topology = root / f"system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{text}\n")
    for cpu, capacity in (capacities or {}).items():
        (root / f"system/cpu/cpu{cpu}/cpu_capacity").write_text(f"{capacity}\n")
    return root


def test_intels_hybrid_cpus_name_their_cores(tmp_path: Path) -> None:
    """Two performance cores of two threads, four efficiency cores."""
    siblings = {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3", 4: "4", 5: "5", 6: "6", 7: "7"}
    root = make_cpus(tmp_path, siblings, dict.fromkeys(siblings, 700) | {0: 1024, 2: 1024})
    for kind, cpus in (("core", "0-3\n"), ("atom", "4-7\n")):
        (root / f"cpu_{kind}").mkdir()
        (root / f"cpu_{kind}" / "cpus").write_text(cpus)
    assert performance_cores(set(range(8)), root) == 2
    assert performance_cores({0, 1, 4, 5}, root) == 1
    assert performance_cores({4, 5}, root) is None


def test_arms_cores_have_a_capacity(tmp_path: Path) -> None:
    """One prime core, three large and four small ones."""
    capacities = dict(zip(range(8), (250,) * 4 + (871,) * 3 + (1024,), strict=True))
    root = make_cpus(tmp_path, {cpu: str(cpu) for cpu in range(8)}, capacities)
    assert performance_cores(set(range(8)), root) == 4


def test_where_all_cores_are_alike_they_are_not_told_apart(tmp_path: Path) -> None:
    root = make_cpus(tmp_path, {cpu: str(cpu) for cpu in range(4)}, dict.fromkeys(range(4), 1024))
    assert performance_cores(set(range(4)), root) is None
    assert performance_cores({0}, tmp_path / "nothing") is None


def core(efficiency: int, *masks: tuple[int, int]) -> bytes:
    """A core as Windows tells of it. `masks`: of its logical CPUs, with the number of their group."""
    groups = b"".join(struct.pack("<QH6x", mask, group) for mask, group in masks)
    return struct.pack("<IIBB20xH", 0, 32 + len(groups), 1, efficiency, len(masks)) + groups


def test_windows_tells_the_class_of_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two performance cores of two threads and two efficiency cores, one of them in another group."""
    found = core(1, (0b11, 0)) + core(1, (0b1100, 0)) + core(0, (1 << 4, 0)) + core(0, (1, 1))
    assert of_highest_class(found, set(range(128))) == 2
    assert of_highest_class(found, {2, 3, 4}) == 1
    assert of_highest_class(found, {4, 64}) is None, "only efficiency cores are allowed: then all of them count"
    assert of_highest_class(core(0, (0b11, 0)) * 4, set(range(8))) is None
    assert of_highest_class(b"", {0}) is None
    monkeypatch.setattr("spectui.engine.loading.cores.sys.platform", "win32")
    monkeypatch.setattr("spectui.engine.loading.cores._windows", lambda: found)
    assert performance_cores(set(range(128))) == 2


def test_apple_tells_the_cores_of_its_first_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectui.engine.loading.cores.sys.platform", "darwin")
    answers = {"hw.perflevel0.physicalcpu": "6\n"}
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, answers[command[-1]])
    )
    assert performance_cores(set(range(10))) == 6
    answers["hw.perflevel0.physicalcpu"] = "unknown oid\n"
    assert performance_cores(set(range(10))) is None


def test_there_is_a_thread_for_each_fast_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(placement, "performance_cores", lambda allowed: 6 if len(allowed) == 16 else None)
    assert placement.threads(0) == 6
    assert placement.threads(3) == 3
