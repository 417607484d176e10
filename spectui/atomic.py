"""Writing a file atomically: it has its old content or all of the new, also when the disk is full or spectui is killed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spectui.errors import ExistsError, SpectuiError


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yield an empty temporary file in the directory of `file`, only for its owner; afterwards it replaces `file`.

    Where the block raises, the temporary file is deleted and `file` stays as it was. A symbolic link is replaced, not
    followed. Raises OSError. The temporary name ends in `.<process id>.part`, so a later process can tell what a killed one
    left behind.
    """
    # The file's own name may be as long as a name can be.
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name[:60]}.", suffix=f".{os.getpid()}.part")
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
    """Write a file that a person named. Raises ExistsError unless it may `replace` what is there, and SpectuiError.

    `advice`: what to do where it exists.
    """
    if file.exists() and not replace:
        raise ExistsError(f"{file} exists already{': ' if advice else ''}{advice}.")
    try:
        write_atomic(file, data, mode=mode)
    except OSError as error:
        raise SpectuiError(f"{file} cannot be written: {error.strerror or error}.") from error
    except UnicodeEncodeError as error:
        raise SpectuiError(f"{file.name!r} has signs that this locale's encoding lacks: give another name.") from error


def leftovers(directory: Path) -> list[Path]:
    """The temporary files of processes that have ended; the name contains the process id."""
    import psutil

    numbered = [(part, part.name.split(".")[-2]) for part in directory.glob("*.*.part")]
    return [part for part, number in numbered if number.isdecimal() and not psutil.pid_exists(int(number))]
