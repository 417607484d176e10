"""Which other process used the machine during a run."""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import psutil
import pytest

from spectui.measure.quiet import Others, Stolen, Used

OWN = os.getpid()
BURNS = "while :; do :; done"


def said(before: dict[int, Used], after: dict[int, Used], seconds: float) -> str:
    """What is said if this much time lies between the two readings."""
    readings, clock = iter([before, after]), iter([0.0, seconds])
    return str(Others(lambda: next(readings), lambda: next(clock)))


def test_the_busiest_other_process_is_named_by_what_it_used_since():
    before = {1: Used("init", 500.0), 7: Used("make", 30.0)}
    after = {1: Used("init", 500.3), 7: Used("make", 31.8), 8: Used("cc", 0.9)}
    assert said(before, after, 2.0) == "make uses 90 % of a core"
    assert said(before, {8: Used("cc", 0.9)}, 2.0) == "cc uses 45 % of a core"


def test_a_quiet_machine_and_a_short_time_name_none():
    before = {7: Used("make", 30.0)}
    assert said(before, {7: Used("make", 30.2)}, 2.0) == ""
    assert said(before, {7: Used("make", 30.02)}, 0.05) == ""
    assert said(before, {}, 2.0) == ""


def test_what_the_host_took_is_a_share_of_the_time_that_was_wanted(monkeypatch: pytest.MonkeyPatch):
    times = iter([(10.0, 5.0, 1.0, 2.0), (11.0, 7.0, 1.0, 3.0), (11.0, 7.0, 1.0, 3.0)])
    monkeypatch.setattr(
        psutil, "cpu_times", lambda: SimpleNamespace(**dict(zip(("steal", "user", "nice", "system"), next(times), strict=True)))
    )
    stolen = Stolen()
    assert stolen.share == 0.25 and str(stolen) == "the host took 25 %"


def test_real_processes_are_seen(tmp_path: Path):
    """One whose parent has ended, and none that this process or its children began."""
    other = tmp_path / "burner"
    other.symlink_to(shutil.which("sh") or "")
    child = subprocess.Popen([other, "-c", f"(while :; do :; done) & echo $!; {BURNS}"], stdout=subprocess.PIPE)
    grandchild = int(child.stdout.readline())
    orphan = int(subprocess.check_output(["sh", "-c", f"{other} -c '{BURNS}' >&- & echo $!"]))
    try:
        others, until = Others(), monotonic() + 60
        used = others.used()
        while used[orphan].seconds < 0.05 and monotonic() < until:
            used = others.used()
        assert used[orphan].seconds >= 0.05 and used[orphan].name == "burner"
        assert not {OWN, child.pid, grandchild} & used.keys()
    finally:
        for each in (orphan, grandchild):
            os.kill(each, signal.SIGKILL)
        child.kill()
        child.wait()
