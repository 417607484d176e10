"""How many cores' time the control groups of Linux let this process use: containers and services are bounded so.

Threads beyond that do not compute more: the kernel stops all of them for the rest of each period, and those that are stopped in
the middle of a pass keep the others waiting at ggml's barriers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def cpu_quota(groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores' time, such as 1.5, by the tightest quota of the process's group and of those above it; None without any.

    `groups`: the file that names the process's groups. `mounted`: the place of all groups. Of groups above those that a
    container sees, nothing is known.
    """
    return min(filter(None, (_quota(directory) for directory in _directories(_text(groups), mounted))), default=None)


def _directories(groups: str, mounted: Path) -> Iterator[Path]:
    """Those of the groups that bound the process's CPU time: of version 2, and of version 1's CPU controller.

    A container without a namespace for its groups sees its own group at the top, and not under the name that the file has.
    """
    for line in groups.splitlines():
        _, controllers, group = (*line.split(":", 2), "", "")[:3]
        if not controllers or "cpu" in controllers.split(","):
            top = mounted / "cpu" if controllers else mounted
            below = [] if ".." in group else Path(group).parts[1:]
            yield from (top.joinpath(*below[:number]) for number in range(len(below) + 1))


def _quota(directory: Path) -> float | None:
    """The quota of one group, in cores."""
    version_1 = [_text(directory / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    with suppress(ValueError):  # "max", or nothing
        quota, period = map(int, _text(directory / "cpu.max").split() or version_1)
        return quota / period if quota > 0 and period > 0 else None
    return None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
