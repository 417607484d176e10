"""How many cores' time and how much memory the control groups of Linux let this process use: containers and services are
bounded so.

Threads beyond the quota do not compute more: the kernel stops all of them for the rest of each period, and those that are
stopped in the middle of a pass keep the others waiting at ggml's barriers. A process that takes more memory is killed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS, _MOUNTED = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""The file that names the process's groups, and the place of all groups."""


def cpu_quota(groups: Path = _GROUPS, mounted: Path = _MOUNTED) -> float | None:
    """Cores' time, such as 1.5, by the tightest quota of the process's group and of those above it; None without any.

    Of groups above those that a container sees, nothing is known.
    """
    directories = _directories(content(groups), mounted, "cpu")
    return min(filter(None, (_quota(directory) for directory in directories)), default=None)


def free_memory(groups: Path = _GROUPS, mounted: Path = _MOUNTED) -> int:
    """Bytes that this process can take: what the system has free, or what the tightest limit of its groups leaves."""
    import psutil

    limits = (_memory_left(directory) for directory in _directories(content(groups), mounted, "memory"))
    available: int = psutil.virtual_memory().available
    return min([available, *(left for left in limits if left is not None)])


def _directories(groups: str, mounted: Path, controller: str) -> Iterator[Path]:
    """Those of the groups that bound the process: of version 2, and of this controller of version 1.

    A container without a namespace for its groups sees its own group at the top, and not under the name that the file has.
    """
    for line in groups.splitlines():
        _, controllers, group = (*line.split(":", 2), "", "")[:3]
        if not controllers or controller in controllers.split(","):
            top = mounted / controller if controllers else mounted
            below = [] if ".." in group else Path(group).parts[1:]
            yield from (top.joinpath(*below[:number]) for number in range(len(below) + 1))


def _quota(directory: Path) -> float | None:
    """The quota of one group, in cores."""
    version_1 = [content(directory / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    with suppress(ValueError):  # "max", or nothing
        quota, period = map(int, content(directory / "cpu.max").split() or version_1)
        return quota / period if quota > 0 and period > 0 else None
    return None


def _memory_left(directory: Path) -> int | None:
    """Bytes that one group's limit leaves. Pages of files count as free: the system takes them back where it needs memory."""
    limit = content(directory / "memory.max") or content(directory / "memory.limit_in_bytes")
    used = content(directory / "memory.current") or content(directory / "memory.usage_in_bytes")
    files = re.findall(r"^(?:in)?active_file (\d+)", content(directory / "memory.stat"), re.MULTILINE)
    with suppress(ValueError):  # "max", or nothing
        return max(0, int(limit) - int(used) + sum(map(int, files)))
    return None


def content(file: Path) -> str:
    """A file's text without white space around it; "" if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return ""
