"""Writing a file atomically: it has its old content or all of the new, also when the disk is full or spectui is killed."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from spectui.errors import ExistsError, SpectuiError

_PREFIX = 60
"""Characters of a file's name that its temporary file's begins with: the name itself may be as long as a name can be."""


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yield an empty temporary file in the directory of `file`, only for its owner; afterwards it replaces `file`.

    Where the block raises, the temporary file is deleted and `file` stays as it was. A symbolic link is replaced, not
    followed. Raises OSError. The temporary name ends in `.<process id>.part`, so a later process can tell what a killed one
    left behind.
    """
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name[:_PREFIX]}.", suffix=f".{os.getpid()}.part")
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.replace(file)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write_atomic(file: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write `data`, with these permissions; makes the directory where it is missing. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replacing(file) as part:
        part.write_bytes(data)
        part.chmod(mode)


def write_named(file: Path, data: bytes, *, replace: bool = False, mode: int = 0o600, advice: str = "") -> None:
    """Write a file that a person named, in a directory that is there. Raises ExistsError unless it may `replace` what is there,
    and SpectuiError.

    `advice`: what to do where it exists.
    """
    try:
        if not file.parent.is_dir():
            raise SpectuiError(f"There is no directory {file.parent}: make it, or give another name.")
        with nullcontext() if replace else _new(file, advice):
            write_atomic(file, data, mode=mode)
    except OSError as error:
        raise SpectuiError(f"{file} cannot be written: {error.strerror or error}.") from error
    except UnicodeEncodeError as error:
        raise SpectuiError(f"{file.name!r} has signs that this locale's encoding lacks: give another name.") from error


@contextmanager
def _new(file: Path, advice: str) -> Iterator[None]:
    """Make an empty file, so that no other program can take the name meanwhile; where the block raises, it is deleted."""
    try:
        file.touch(0o600, exist_ok=False)
    except FileExistsError as error:
        raise ExistsError(f"{file} exists already{': ' if advice else ''}{advice}.") from error
    try:
        yield
    except BaseException:
        with suppress(OSError):
            file.unlink(missing_ok=True)
        raise


def leftovers(directory: Path, of: str = "") -> list[Path]:
    """The temporary files of processes that have ended, for files `of` this name or of any. Their names have the process id."""
    import psutil

    parts = directory.glob("*.*.part") if not of else directory.glob(f"{glob.escape(of[:_PREFIX])}.*.*.part")
    numbered = [(part, part.name.split(".")[-2]) for part in parts]
    return [part for part, number in numbered if number.isdecimal() and not psutil.pid_exists(int(number))]
