"""The polling thread and the host's figures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from spectui.telemetry import monitor as module
from spectui.telemetry.gpus import Gpu
from spectui.telemetry.monitor import Host, HostProbe, Monitor, SeenGpus


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


class Probe:
    """Counts its readings and says when there were two."""

    reason = "no NVML: none here"

    def __init__(self) -> None:
        self.readings = 0
        self.twice = threading.Event()
        self.closed = threading.Event()

    def read(self, processes: object = ()) -> tuple[Gpu, ...]:
        self.readings += 1
        if self.readings == 2:
            self.twice.set()
        return (Gpu(0, memory_used=self.readings),)

    def close(self) -> None:
        self.closed.set()


def test_the_monitor_publishes_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Probe()

    class Quiet:
        def processes(self) -> frozenset[int]:
            return frozenset()

        def read(self, processes: object) -> Host:
            return Host(memory_total=7)

    monkeypatch.setattr(module, "Nvml", lambda: probe)
    monkeypatch.setattr(module, "HostProbe", Quiet)
    monitor = Monitor(interval=0.001)
    assert monitor.telemetry.gpus == ()
    monitor.start()
    monitor.start()
    assert probe.twice.wait(10)
    monitor.stop()
    assert probe.closed.wait(10)
    assert monitor.telemetry.gpus[0].memory_used == probe.readings
    assert monitor.telemetry.host == Host(memory_total=7)
    assert monitor.telemetry.gpu_reason == "no NVML: none here"


def test_the_monitor_asks_every_maker_for_its_own_processes_and_keeps_what_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The third reading has neither card."""
    nvidia, amd = Gpu(0, "H100", "0000:01:00.0"), Gpu(0, "Radeon", "0000:03:00.0")
    asked: list[object] = []
    lost = threading.Event()

    class Cards(Probe):
        def __init__(self, card: Gpu) -> None:
            super().__init__()
            self.card = card

        def read(self, processes: object = ()) -> tuple[Gpu, ...]:
            asked.append(processes)
            self.readings += 1
            if self.readings > 3:
                lost.set()
            return (self.card,) if self.readings < 3 else ()

    monkeypatch.setattr(module, "Nvml", lambda: Cards(nvidia))
    monkeypatch.setattr(module, "SysfsGpus", lambda: Cards(amd))
    monkeypatch.setattr(HostProbe, "processes", lambda probe: frozenset({7}))
    monitor = Monitor(interval=0.001)
    monitor.start()
    assert lost.wait(10)
    monitor.stop()
    assert asked[:4] == [{7}] * 4
    assert monitor.telemetry.gpus == (replace(nvidia, lost=True), replace(amd, lost=True))


def test_telemetry_is_imported_without_its_libraries() -> None:
    """`spectui --help` must not pay for NVML or psutil."""
    code = "import sys, spectui.telemetry.monitor; print('pynvml' in sys.modules or 'psutil' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_card_that_disappears_is_lost_and_may_come_back() -> None:
    """NVML keeps the index of a card that fell off the bus, and answers nothing else."""
    seen = SeenGpus()
    card, other = Gpu(0, "H100", "0000:01:00.0", 3, 80), Gpu(1, "H100", "0000:02:00.0", 5, 80)
    assert seen.update((card, other)) == (card, other)
    lost = Gpu(0, "H100", "0000:01:00.0", lost=True)
    assert seen.update((Gpu(0), other)) == (other, lost)
    assert seen.update(()) == (lost, replace(lost, index=1, pci="0000:02:00.0"))
    assert seen.update((card, other)) == (card, other)


@pytest.mark.parametrize("listed", [True, False])
def test_the_engines_process_is_this_programs_and_so_are_those_that_it_has_started(
    monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    """Where Linux lists them, and where psutil looks for them. Their memory is this program's."""
    if not listed:
        monkeypatch.setattr(module, "_descendants", lambda process: None)
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    grandchild = int(child.stdout.readline())
    probe = HostProbe()
    try:
        found = probe.processes()
        assert found >= {os.getpid(), child.pid, grandchild}
        alone, together = probe.read().process, probe.read(found).process
        assert alone is not None and together is not None
        assert together > alone + 4_000_000, "a Python takes more"
    finally:
        os.kill(grandchild, signal.SIGKILL)
        child.communicate(b"\n")
    assert child.pid not in probe.processes()
    assert probe.read([child.pid]).process is not None, "it has ended"
