"""What is known of a run that died. llama.cpp ends the process on some faults, when nothing can be reported any more.

So each run has a directory under the state directory. It holds a marker, which says what is going on while models are loaded or
used, and a log, which gets llama.cpp's messages, Python's faulthandler and everything written to standard error. A clean end
deletes both. The directory's name has the id of the process, which keeps the log open. The next start finds the directories of
processes that have ended by that: neither a changed clock nor another process with the same id misleads it.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from spectui.atomic import write_atomic
from spectui.knobs import Setup
from spectui.store.records import setup_of
from spectui.text import safe

MOST_BYTES = 256 * 1024
"""Of a log; a longer one is cut to its last half."""

DIED = "died.log"
"""The log of the run that died last."""

_HOME, _MARKER, _LOG = "run-", "doing.json", "log.txt"
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
        said = f" It said: {self.words}." if self.words else ""
        models = " and ".join(Path(path).name for path in (self.setup.model, self.setup.draft) if path)
        return f"spectui died while {self.stage} with {' '.join(safe(models).split())}.{said} The log is {self.log}."


class Run:
    """This process's marker and log. Any thread may call any method. A disk that fails costs only the marker and the log."""

    def __init__(self, directory: Path) -> None:
        self._stderr: int | None = None
        self._file = -1
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._home = Path(tempfile.mkdtemp(prefix=f"{_HOME}{os.getpid()}-", dir=directory))
            self._file = os.open(self._home / _LOG, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
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
            screen = os.fdopen(os.dup(2), "w", buffering=1, encoding=sys.__stderr__.encoding, errors=sys.__stderr__.errors)
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
            doing = {"stage": stage, "setup": dataclasses.asdict(setup), "when": time.time()}
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
    """The latest run that died, reported once: its log takes the place of the one before. Living runs are left alone."""
    latest = None
    for home in directory.glob(f"{_HOME}*"):
        if _is_alive(home):
            continue
        try:
            if (home / _LOG).exists() and (doing := _read(home / _MARKER)):
                crash = _crash(doing, home / _LOG)
                if latest is None or crash.when > latest.when:
                    latest = crash._replace(log=(home / _LOG).replace(directory / DIED))
        except (OSError, TypeError, ValueError, KeyError, OverflowError):
            pass  # spectui did not write this marker
        shutil.rmtree(home, ignore_errors=True)
    return latest


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
    """Appends lines to the log."""

    def __init__(self, file: int) -> None:
        super().__init__(logging.INFO)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        # llama.cpp quotes model files, and a person may print the log on a terminal.
        line = safe(self.format(record)).encode()[:4096] + b"\n"
        with suppress(OSError):
            if os.fstat(self._file).st_size + len(line) > MOST_BYTES:
                os.lseek(self._file, -MOST_BYTES // 2, os.SEEK_END)
                line = os.read(self._file, MOST_BYTES // 2) + line
                os.ftruncate(self._file, 0)
            os.write(self._file, line)


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


def _read(marker: Path) -> dict[str, Any]:
    try:
        with marker.open("rb") as file:
            doing = json.loads(file.read(65536))
    except (OSError, ValueError, RecursionError):
        return {}
    return doing if isinstance(doing, dict) else {}


def _is_alive(home: Path) -> bool:
    """Whether the process of this directory lives, and not a later one that has its id."""
    import psutil  # which takes long, and is seldom needed here

    log = os.path.realpath(home / _LOG)
    try:
        process = psutil.Process(int(home.name.removeprefix(_HOME).split("-")[0]))
        return not os.path.exists(log) or any(file.path == log for file in process.open_files())
    except (psutil.Error, ValueError):
        return False
