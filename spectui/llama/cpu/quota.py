"""How many cores' time the control groups of Linux let this process use: containers and services are bounded so.

Threads beyond that do not compute more: the kernel stops all of them for the rest of each period, and those that are stopped in
the middle of a pass keep the others waiting at ggml's barriers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc/self")


class _Mount(NamedTuple):
    """Where groups are seen: the group `shown` (as /proc/self/cgroup names groups) and those below it, at `at`."""

    unified: bool
    shown: str
    at: Path


def cpu_quota(proc: Path = PROC) -> float | None:
    """Cores' time, such as 1.5, by the tightest quota of the process's group and of those above it; None without any.

    `proc`: the directory of a process, with its `cgroup` and `mountinfo`. Of groups above those that a container sees, nothing
    is known.
    """
    groups = dict(_groups(_text(proc / "cgroup")))
    quotas = [
        quota
        for mount in _mounts(_text(proc / "mountinfo"))
        if mount.unified in groups
        for directory in _up(mount, groups[mount.unified])
        if (quota := _quota(directory, mount.unified)) is not None
    ]
    return min(quotas, default=None)


def _groups(text: str) -> Iterator[tuple[bool, str]]:
    """Whether of the unified hierarchy (version 2) -> the group that bounds the process's CPU time there."""
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            yield True, group
        elif "cpu" in controllers.split(","):
            yield False, group


def _mounts(text: str) -> Iterator[_Mount]:
    """Those of control groups that have the CPU controller: proc_pid_mountinfo(5)."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, *options) = before.split(), after.split() or [""]
        unified = kind == "cgroup2"
        if len(fields) >= 5 and (unified or (kind == "cgroup" and options and "cpu" in options[-1].split(","))):
            yield _Mount(unified, _unescaped(fields[3]), Path(_unescaped(fields[4])))


def _up(mount: _Mount, group: str) -> Iterator[Path]:
    """The directories of the group and of those above it, as far as the mount shows them.

    In a container without a namespace for its groups, or moved after it was mounted, the group's name may not be below what the
    mount shows: then only that is known.
    """
    parts = Path(group).parts[1:]
    shown = Path(mount.shown).parts[1:]
    below = parts[len(shown) :] if parts[: len(shown)] == shown and ".." not in parts else ()
    for number in range(len(below), -1, -1):
        yield mount.at.joinpath(*below[:number])


def _quota(directory: Path, unified: bool) -> float | None:
    """The quota of one group, in cores."""
    if unified:
        numbers = _text(directory / "cpu.max").split()
    else:
        numbers = [_text(directory / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    with suppress(ValueError):  # "max", or nothing
        quota, period = map(int, numbers)
        return quota / period if quota > 0 and period > 0 else None
    return None


def _unescaped(path: str) -> str:
    """A path of mountinfo: blanks, line ends and backslashes are three octal digits in it."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
