"""A daemon thread that looks at the machine once a second and publishes what it saw."""

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
    """Polls in a thread of its own: a driver call may take long and must hold up neither the screen nor the engine.

    `snapshot` is replaced whole, so a reader needs no lock.
    """

    def __init__(self, interval: float = 1.0) -> None:
        self.snapshot = Snapshot()
        self._interval = interval
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to poll. A second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._poll, name="spectui-telemetry", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the polling. Does not wait: a hanging driver must not keep a person from quitting."""
        self._stopped.set()

    def _poll(self) -> None:
        nvml, host = Nvml(), HostProbe()
        while True:
            self.snapshot = Snapshot(host.read(), nvml.read(), nvml.reason)
            if self._stopped.wait(self._interval):
                break
        nvml.close()
