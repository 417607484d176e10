"""The polling thread and the host's figures."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from spectui.telemetry import monitor as module
from spectui.telemetry.gpus import Gpu
from spectui.telemetry.monitor import Host, HostProbe, Monitor


def test_the_host_has_memory_and_this_process_takes_some() -> None:
    probe = HostProbe()
    first, second = probe.read(), probe.read()
    assert first.memory_total is not None
    assert first.memory_used is not None
    assert first.process is not None
    assert 0 < first.process < first.memory_total
    assert 0 < first.memory_used < first.memory_total
    assert first.cpu is None, "a share needs two readings"
    assert second.cpu is not None


class Cards:
    """A maker's card, which the third reading does not have any more."""

    reason = "no NVML: none here"

    def __init__(self, card: Gpu) -> None:
        self.card, self.asked = card, 0
        self.gone, self.closed = threading.Event(), threading.Event()

    def read(self) -> tuple[Gpu, ...]:
        self.asked += 1
        if self.asked > 3:
            self.gone.set()
        return (self.card,) if self.asked < 3 else ()

    def close(self) -> None:
        self.closed.set()


def test_the_monitor_asks_every_maker_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia, amd = Cards(Gpu(0, "H100", "0000:01:00.0")), Cards(Gpu(0, "Radeon", "0000:03:00.0"))
    monkeypatch.setattr(module, "Nvml", lambda: nvidia)
    monkeypatch.setattr(module, "SysfsGpus", lambda: amd)
    monkeypatch.setattr(HostProbe, "read", lambda probe: Host(memory_total=7))
    monitor = Monitor(interval=0.001)
    assert monitor.telemetry.gpus == ()
    monitor.start()
    monitor.start()
    assert amd.gone.wait(120)
    monitor.stop()
    assert nvidia.closed.wait(120)
    assert nvidia.asked == amd.asked
    assert monitor.telemetry == (Host(memory_total=7), (), "no NVML: none here")


def test_telemetry_is_imported_without_its_libraries() -> None:
    """`spectui --help` must not pay for NVML or psutil."""
    code = "import sys, spectui.telemetry.monitor; print('pynvml' in sys.modules or 'psutil' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("listed", [True, False])
def test_the_engines_process_is_this_programs_and_so_are_those_that_it_has_started(
    monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    """Where Linux lists them, and where psutil looks for them. Their memory is this program's."""
    if not listed:
        monkeypatch.setattr(module, "_PROCESSES", Path("/none"))
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    grandchild = int(child.stdout.readline())
    probe = HostProbe()
    try:
        assert module._descendants(os.getpid()) >= {child.pid, grandchild}
        alone, together = psutil.Process().memory_info().rss, probe.read().process
        assert together is not None and together > alone + 4_000_000, "a Python takes more"
    finally:
        os.kill(grandchild, signal.SIGKILL)
        child.communicate(b"\n")
    assert child.pid not in module._descendants(os.getpid())
