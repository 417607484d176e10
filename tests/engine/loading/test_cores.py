"""Performance cores, in directories that look like those of Linux."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spectui.engine.loading import placement
from spectui.engine.loading.cores import performance_cores


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


def test_there_is_a_thread_for_each_fast_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(placement, "performance_cores", lambda allowed: 6 if len(allowed) == 16 else None)
    assert placement.threads(0) == 6
    assert placement.threads(3) == 3
