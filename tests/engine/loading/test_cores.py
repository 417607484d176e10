"""Performance cores, and the quota of CPU time, in directories that look like those of Linux."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from spectui.cli.machine.doctor import threads_in_words
from spectui.engine.costs.files import DraftCosts, TargetCosts
from spectui.engine.loading import placement
from spectui.llama.cpu.cores import fast_cores, performance_cores
from spectui.llama.cpu.quota import cpu_quota, free_memory
from spectui.paths import state_directory
from tests.helpers import smollm2


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


def test_apple_tells_the_cores_of_its_first_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectui.llama.cpu.cores.sys.platform", "darwin")
    answers = {"hw.perflevel0.physicalcpu": "6\n"}
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, answers[command[-1]]))
    assert performance_cores(set(range(10))) == 6
    answers["hw.perflevel0.physicalcpu"] = "unknown oid\n"
    assert performance_cores(set(range(10))) is None


def group(place: Path, name: str, **files: str) -> None:
    """A group with these files, such as cpu.max."""
    directory = place / name
    directory.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (directory / file.replace("_", ".", 1)).write_text(f"{text}\n")


def quota_of(place: Path, groups: str) -> float | None:
    """The quota of a process in these groups."""
    (place / "groups").write_text(groups)
    return cpu_quota(place / "groups", place)


@pytest.mark.parametrize(
    ("limit", "quota"),
    [("50000 100000", 0.5), ("150000 100000", 1.5), ("max 100000", None), ("25000 50000", 0.5), ("6400000 100000", 64),
     ("", None), ("0 100000", None), ("50000 0", None), ("many 100000", None), ("1 2 3", None)],
)  # fmt: skip
def test_version_2(tmp_path: Path, limit: str, quota: float | None) -> None:
    group(tmp_path, "app.slice/a b", cpu_max=limit)
    assert quota_of(tmp_path, "0::/app.slice/a b\n") == quota


@pytest.mark.parametrize(("limit", "quota"), [("50000", 0.5), ("150000", 1.5), ("-1", None), ("", None)])
def test_version_1(tmp_path: Path, limit: str, quota: float | None) -> None:
    group(tmp_path, "cpu/docker/ab12", cpu_cfs_quota_us=limit, cpu_cfs_period_us="100000")
    assert quota_of(tmp_path, "4:memory:/elsewhere\n3:cpuset:/\n2:cpu,cpuacct:/docker/ab12\n0::/\n") == quota


@pytest.mark.parametrize(
    ("limits", "quota"), [(("max", "max", "50000"), 0.5), (("200000", "max", "400000"), 2), (("max", "150000", "max"), 1.5)]
)
def test_the_tightest_of_the_nested_groups_counts(tmp_path: Path, limits: tuple[str, ...], quota: float | None) -> None:
    for name, limit in zip(("user.slice", "user.slice/a", "user.slice/a/c"), limits, strict=True):
        group(tmp_path, name, cpu_max=f"{limit} 100000")
    assert quota_of(tmp_path, "0::/user.slice/a/c\n") == quota


@pytest.mark.parametrize("groups", ["0::/\n", "0::/../other\n", "0::/docker/ab12\n", "2:cpuacct,cpu:/docker/ab12\n"])
def test_a_container_sees_its_own_group_at_the_top(tmp_path: Path, groups: str) -> None:
    """With a namespace for its groups, and without, where the process's group has the name that the host knows."""
    group(tmp_path, "", cpu_max="50000 100000")
    group(tmp_path, "cpu", cpu_cfs_quota_us="50000", cpu_cfs_period_us="100000")
    assert quota_of(tmp_path, groups) == 0.5


def memory_left(place: Path, groups: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The free memory of a process in these groups, on a machine that has 64,000 bytes free."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=64_000))
    (place / "groups").write_text(groups)
    return free_memory(place / "groups", place)


@pytest.mark.parametrize(
    ("limit", "used", "free"),
    [("4000", "1000", 3300), ("4000", "9000", 0), ("max", "1000", 64_000), ("90000", "0", 64_000), ("", "", 64_000)],
)
def test_a_groups_limit_bounds_the_memory_and_pages_of_files_count_as_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, used: str, free: int
) -> None:
    stat = "anon 700\nfile 300\ninactive_file 100\nactive_file 200\nunevictable 5"
    group(tmp_path, "a/b", memory_max="max", memory_current="1")
    group(tmp_path, "a", memory_max=limit, memory_current=used, memory_stat=stat)
    assert memory_left(tmp_path, "0::/a/b\n", monkeypatch) == free
    version_1 = {"memory_limit_in_bytes": limit, "memory_usage_in_bytes": used, "memory_stat": stat}
    group(tmp_path, "memory/docker", **version_1)
    assert memory_left(tmp_path, "2:cpu:/\n3:memory:/docker\n", monkeypatch) == free


@pytest.mark.parametrize("text", ["", "\n", "0\n::\n", "0::relative\n", "\xff\0:\n", "1:name=systemd:/\n"])
def test_other_texts_are_no_quota(tmp_path: Path, text: str) -> None:
    assert quota_of(tmp_path, text) is None
    assert cpu_quota(tmp_path / "no such file") is None


@pytest.mark.parametrize(
    ("cpus", "quota", "threads"),
    [(16, None, 16), (16, 0.5, 1), (16, 1.5, 1), (16, 2.0, 2), (16, 3.99, 3), (2, 8.0, 2), (1, 1.5, 1)],
)
def test_affinity_and_quota_bound_the_threads(
    cpus: int, quota: float | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectui.llama.cpu.cores.allowed_cpus", lambda: set(range(cpus)))
    monkeypatch.setattr("spectui.llama.cpu.cores.performance_cores", lambda allowed: 16)
    monkeypatch.setattr(placement, "fast_cores", fast_cores.__wrapped__)
    monkeypatch.setattr(placement, "cpu_quota", lambda: quota)
    assert placement.threads(0) == threads
    assert placement.threads(6) == 6, "a number that a person names stays"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no CPUs are named here")
@pytest.mark.parametrize("variables", [{"OMP_PROC_BIND": "true"}, {"GOMP_CPU_AFFINITY": "0"}])
def test_cpus_are_counted_before_openmp_binds_a_thread_to_one(variables: dict[str, str]) -> None:
    program = (
        "import os; own = os.sched_getaffinity(0); import spectui.llama.library;"
        "from spectui.llama.cpu.cores import allowed_cpus; assert allowed_cpus() == own"
    )
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **variables}, check=True)


def test_costs_under_another_quota_are_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the pair's number of threads."""
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path))
    monkeypatch.setattr("spectui.engine.costs.measuring._measure_target", lambda *_: TargetCosts({1: 0.05, 2: 0.14}))
    monkeypatch.setattr("spectui.engine.costs.measuring._measure_draft", lambda *_: DraftCosts(0.01, 0.01))
    monkeypatch.setattr("spectui.engine.costs.measuring._is_noisy", lambda seconds: False)
    found = []
    for quota in (None, 0.5, 1.5, 0.5):
        monkeypatch.setattr(placement, "cpu_quota", lambda quota=quota: quota)
        smollm2.opened(replace(smollm2.setup(), no_profile="off"))
        found.append([len(list(state_directory().glob(f"{of}-costs-*.json"))) for of in ("target", "draft")])
    assert found == [[number] * 2 for number in (1, 2, 3, 3)]


def test_a_draft_that_computes_ahead_has_costs_of_its_one_thread() -> None:
    draft = placement.resolve(replace(smollm2.setup(), threads=2)).draft
    assert draft is not None
    assert [draft.threads_beside(ahead) for ahead in (False, True)] == [2, 1]
    assert draft.costs_key(ahead=False) != draft.costs_key(ahead=True)


def test_doctor_says_what_bounds_the_threads() -> None:
    assert threads_in_words(1, 2, 8, 0.5) == "1, because of 2 of 8 logical CPUs and a quota of 0.5 cores' time"
    assert threads_in_words(4, 8, 8, None) == "4, because of 8 of 8 logical CPUs and no quota"
