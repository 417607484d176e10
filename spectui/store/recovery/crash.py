"""What is known of a run that died. llama.cpp ends the process on some faults, when nothing can be reported any more.

So each run has a directory under the state directory, named after its process and machine. It holds a marker, which says what
is going on while models are loaded or used, and a log, which gets llama.cpp's messages, Python's faulthandler and everything
written to standard error. A clean end deletes both; the next start finds those of processes of this machine that are gone.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import logging
import os
import platform
import re
import shutil
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from spectui.atomic import write_atomic
from spectui.knobs import Setup, specs
from spectui.store.records import setup_of
from spectui.text import safe

MOST_BYTES = 256 * 1024
"""Of a log; a longer one is cut to its last lines."""

LAST_LINES = 200
MOST_LOGS = 5
"""Logs of dead runs that are not deleted: the latest ones."""

FORGOTTEN_S = 30 * 24 * 3600
"""Age of another machine's run that is deleted."""

_MARKER, _LOG = "doing.json", "log.txt"
_SAFE_CTX = 2048


class Crash(NamedTuple):
    """A run that died while something was going on. `when` is when that began, in seconds since the epoch."""

    stage: str
    setup: Setup
    when: float
    log: Path
    words: str
    """The last message of llama.cpp or the system, on one line; may be ""."""

    @property
    def sentence(self) -> str:
        """What happened, for the person, in a sentence or two."""
        draft = f" and {Path(self.setup.draft).name}" if self.setup.draft else ""
        flags = f" ({' '.join(_flags(self.setup))})" if _flags(self.setup) else ""
        said = f" It said: {self.words}." if self.words else ""
        models = f"{Path(self.setup.model or '').name}{draft}{flags}"
        return f"spectui died while {self.stage} with {' '.join(safe(models).split())}.{said} The log is {self.log}."


class Run:
    """This process's marker and log. Any thread may call any method. A disk that fails costs only the marker and the log."""

    def __init__(self, directory: Path) -> None:
        self._home = directory / f"{os.getpid()}@{_machine()}"
        self._stderr: int | None = None
        self._file = -1
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.rmtree(self._home, ignore_errors=True)  # of an older process with this number
            self._home.mkdir(mode=0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self._file = os.open(self._home / _LOG, flags, 0o600)
        except OSError:
            return
        self._handler = _Log(self._file)
        logger = logging.getLogger("spectui")
        logger.addHandler(self._handler)
        logger.setLevel(logging.INFO)
        faulthandler.enable(self._file)

    def take_stderr(self) -> None:
        """Send standard error (such as the message of a failing assert) to the log instead of the screen.

        Python's own stream still writes to the terminal, because Textual draws through it.
        """
        if self._file >= 0 and self._stderr is None and sys.__stderr__ is not None:
            self._stderr = os.dup(2)
            screen = os.fdopen(
                os.dup(2), "w", buffering=1, encoding=sys.__stderr__.encoding, errors=sys.__stderr__.errors
            )
            sys.stderr = sys.__stderr__ = screen  # type: ignore[misc]
            os.dup2(self._file, 2)

    def enter(self, stage: str, setup: Setup) -> None:
        """Note on disk that this stage begins now, for another process to find; "": nothing is going on."""
        if self._file < 0:
            return
        try:
            if not stage:
                (self._home / _MARKER).unlink(missing_ok=True)
                return
            doing = {
                "stage": stage,
                "setup": dataclasses.asdict(setup),
                "when": time.time(),
                "born": _start_time(os.getpid()),
                "boot": _boot(),
            }
            write_atomic(self._home / _MARKER, json.dumps(doing).encode())
        except OSError:
            pass  # only the report of a crash is lost

    def end(self) -> None:
        """End cleanly: delete the marker and the log. May be called twice."""
        if self._file < 0:
            return
        faulthandler.disable()
        logging.getLogger("spectui").removeHandler(self._handler)
        if self._stderr is not None:
            os.dup2(self._stderr, 2)
            os.close(self._stderr)
        os.close(self._file)
        self._file = -1
        shutil.rmtree(self._home, ignore_errors=True)


def take_crash(directory: Path) -> Crash | None:
    """The latest run that died, reported once: its log is moved to the other logs. Living runs are left alone."""
    crashes = []
    try:
        homes = [home for home in directory.iterdir() if home.name.partition("@")[0].isdecimal()]
    except OSError:
        return None
    for home in homes:
        pid, _, machine = home.name.partition("@")
        if machine not in ("", _machine()):  # whether that runs is not to be seen from here
            _clear_forgotten(home)
            continue
        doing = _read(home / _MARKER)
        if _is_alive(int(pid), doing):
            continue
        log = directory / f"died-{home.name}-{int(time.time())}.log"
        try:
            if doing and (home / _LOG).exists():
                (home / _LOG).rename(log)
            shutil.rmtree(home, ignore_errors=True)
            if doing:
                crashes.append(_crash(doing, log))
        except (OSError, TypeError, ValueError, KeyError, OverflowError):
            continue  # another process takes it just now, or spectui did not write this marker
    _clear_old(directory)
    return max(crashes, key=lambda crash: crash.when, default=None)


def safe_setup(setup: Setup) -> Setup:
    """The same models, loaded in the way that demands least of llama.cpp and of the machine."""
    return dataclasses.replace(
        setup,
        no_repack="on",
        flash_attn="off",
        flash_attn_draft="auto",
        cache_type_k="f16",
        cache_type_v="f16",
        cache_type_k_draft="f16",
        cache_type_v_draft="f16",
        ctx_size=min(setup.ctx_size or _SAFE_CTX, _SAFE_CTX),
        ctx_size_draft=0,
        requantise_draft="off",
    )


class _Log(logging.Handler):
    """Appends lines to the log. When it is too large, it is truncated and starts with the last lines again."""

    def __init__(self, file: int) -> None:
        super().__init__(logging.INFO)
        self._file = file
        self._last: deque[bytes] = deque(maxlen=LAST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        # llama.cpp quotes model files, and a person may print the log on a terminal.
        line = safe(self.format(record)).encode()[:4096] + b"\n"
        self._last.append(line)
        try:
            if os.fstat(self._file).st_size + len(line) > MOST_BYTES:
                os.ftruncate(self._file, 0)
                line = b"".join(self._last)[-MOST_BYTES // 2 :]
            os.write(self._file, line)
        except OSError:
            pass


def _crash(doing: dict[str, Any], log: Path) -> Crash:
    stage = " ".join(safe(str(doing.get("stage"))).split())
    return Crash(stage, setup_of(doing.get("setup")), float(doing["when"]), log, _last_words(log))


def _last_words(log: Path) -> str:
    """The line that most likely gives the cause: of an assert, of an error, or else of the faulthandler."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 65536))
            lines = [safe(line.decode("utf-8", "replace")).strip() for line in file]
    except OSError:
        return ""
    fatal = next((line for line in reversed(lines) if line.startswith("Fatal Python error")), "")
    for sign in ("GGML_ASSERT", "terminate called", "error"):
        for line in reversed(lines):
            if sign in line and line != fatal:
                return line.removeprefix("spectui: ")[:300].rstrip(".")
    return fatal[:300].rstrip(".")


def _flags(setup: Setup) -> list[str]:
    """The flags for what differs from the defaults."""
    given = [(spec, getattr(setup, key), default) for key, default, spec in specs(Setup)
             if key not in ("model", "draft", "system")]  # fmt: skip
    return [f"{spec.flags[0]} {value}" for spec, value, default in given if value != default]


def _read(marker: Path) -> dict[str, Any]:
    try:
        with marker.open("rb") as file:
            doing = json.loads(file.read(65536))
    except (OSError, ValueError, RecursionError):
        return {}
    return doing if isinstance(doing, dict) else {}


def _start_time(pid: int) -> float | None:
    """When the process began, to tell it from an older one with its number. None if there is none."""
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def _machine() -> str:
    """The host's name as a part of a file's: several machines may have one home directory, and processes of one number."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", platform.node())[:64]


def _boot() -> str:
    """What names this start of the machine; "" where that is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _is_alive(pid: int, doing: dict[str, Any]) -> bool:
    born, boot = doing.get("born"), doing.get("boot")
    if boot and boot != _boot():
        return False
    now = _start_time(pid)
    return now is not None and (born is None or (isinstance(born, float | int) and abs(now - born) < 2.0))


def _clear_forgotten(home: Path) -> None:
    """Delete what another machine has left behind long ago, such as a container that is gone."""
    with suppress(OSError):
        latest = max(each.stat().st_mtime for each in (home, *home.iterdir()))
        if time.time() - latest > FORGOTTEN_S:
            shutil.rmtree(home, ignore_errors=True)


def _clear_old(directory: Path) -> None:
    with suppress(OSError):  # another process deletes them just now, or the directory cannot be written to
        logs = sorted(directory.glob("died-*.log"), key=lambda path: path.stat().st_mtime, reverse=True)
        for log in logs[MOST_LOGS:]:
            log.unlink(missing_ok=True)
