"""Whether a machine is quiet enough to be measured on."""

from __future__ import annotations

import psutil


def busy() -> str:
    """The busiest other process, if any uses more than a tenth of a core; "" if the machine is quiet."""
    own = psutil.Process().pid
    others = [process for process in psutil.process_iter(["name"]) if process.pid != own]
    for process in others:
        _ask(process)
    psutil.cpu_percent(1.0)
    shares = [(_ask(process), process.info["name"]) for process in others]
    share, name = max(shares, default=(0.0, ""))
    return f"{name} uses {share:.0f} % of a core" if share > 10 else ""


def _ask(process: psutil.Process) -> float:
    try:
        return float(process.cpu_percent())
    except psutil.Error:
        return 0.0


class Stolen:
    """What a shared host gives others of the time for which this machine's cores are wanted, from here on.

    No process shows it: `steal` in proc(5). Where the system does not count it, it is nothing.
    """

    def __init__(self) -> None:
        self._begun = psutil.cpu_times()

    @property
    def share(self) -> float:
        """In 0..1."""
        now = psutil.cpu_times()
        stolen, *used = (
            getattr(now, kind, 0.0) - getattr(self._begun, kind, 0.0) for kind in ("steal", "user", "nice", "system")
        )
        return stolen / max(stolen + sum(used), 1e-9)

    def __str__(self) -> str:
        return f"the host took {100 * self.share:.0f} %"
