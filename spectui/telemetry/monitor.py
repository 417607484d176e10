"""A daemon thread that reads the machine's figures once a second."""

from __future__ import annotations

import threading
from typing import NamedTuple

from spectui.telemetry.gpus import Gpu, Nvml
from spectui.telemetry.host import Host, HostProbe


class Snapshot(NamedTuple):
    """The machine at one moment. `gpu_reason` says why there are no GPUs."""

    host: Host = Host()
    gpus: tuple[Gpu, ...] = ()
    gpu_reason: str = ""


class Monitor:
    """Polls in its own thread: a driver call may take long, and neither the screen nor the engine may wait for it.

    `snapshot` is replaced whole, so readers need no lock.
    """

    def __init__(self, interval: float = 1.0) -> None:
        self.snapshot = Snapshot()
        self._interval = interval
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start polling. A second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._poll, name="spectui-telemetry", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop polling, without waiting for it: a driver that hangs must not delay the end."""
        self._stopped.set()

    def _poll(self) -> None:
        nvml, host = Nvml(), HostProbe()
        while True:
            self.snapshot = Snapshot(host.read(), nvml.read(), nvml.reason)
            if self._stopped.wait(self._interval):
                break
        nvml.close()
