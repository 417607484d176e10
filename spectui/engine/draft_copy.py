"""A lighter copy of the draft for the CPU, made once.

There a pass over one token takes as long as reading the weights, and no draft can change the text, so a draft may be
rounded further than a person would round a model that writes. Q4_0 is 4.5 bits a weight and has fast kernels on every CPU.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from spectui import paths
from spectui.errors import SpectuiError
from spectui.gguf_files.header import is_part
from spectui.llama.model import Model
from spectui.llama.quantiser import quantise

KIND = "Q4_0"
_BITS = 4.5

_LEAST = 16 << 20
"""Bytes that a drafted token must read less: half a millisecond."""

_SHARE = 0.05
"""The same, of the target's bytes: below that, the three hundredths of acceptance that rounding costs are worth more (0.78 to
0.76 over four prompts, from Q4_K_M)."""

_LARGEST = 4 << 30
"""Of the files that are copied: half a minute on two cores, which cannot be stopped."""

_NAME = 40
"""Characters of the draft's name in the copy's."""

_KEPT = 4
"""Copies on disk, the latest used."""


def copy_of(draft: str) -> Path:
    """Where the copy of this file is, or would be. Raises OSError if there is no such file."""
    file = Path(draft).expanduser()
    status = file.stat()
    key = hashlib.sha256(f"{file.resolve()} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()[:12]
    # With a number and an ending the name must stay below what a file system takes, 255 bytes mostly.
    return _directory() / f"{file.stem[:_NAME]}-{key}.{KIND}.gguf"


def made(draft: str, target: Model) -> Path | None:
    """The copy, if there is one and it pays with this target."""
    try:
        copy = copy_of(draft)
        saved = os.path.getsize(os.path.expanduser(draft)) - copy.stat().st_size
    except OSError:
        return None  # none yet, mostly
    if not _pays(saved, target):
        return None
    with suppress(OSError):
        os.utime(copy)
    return copy


def make(draft: Model, target: Model, progress: Callable[[float], None]) -> Path | None:
    """Make a copy of this draft's file if that will pay; None if it will not. The draft may be loaded meanwhile.

    Raises SpectuiError.
    """
    file, lighter = Path(draft.path), draft.parameters * _BITS / 8
    if is_part(file.name) or not _pays(draft.n_bytes - lighter, target):
        return None
    try:
        copy = copy_of(draft.path)
        # One that is there and does not pay is heavier than was hoped for: it would be no lighter if made again.
        if copy.exists() or file.stat().st_size > _LARGEST:
            return None
        copy.parent.mkdir(parents=True, exist_ok=True)
        for old in [*_leftovers(), *_copies()[_KEPT - 1 :]]:
            old.unlink(missing_ok=True)
        if shutil.disk_usage(copy.parent).free < 4 * lighter:
            return None
    except OSError as error:
        raise SpectuiError(f"There is no place for a lighter copy of the draft: {error.strerror}.") from error
    quantise(file, copy, KIND, progress, throughout=True)
    return copy


def forget() -> int:
    """Delete all copies; returns how many there were."""
    copies = _copies()
    for file in [*copies, *_leftovers()]:
        file.unlink(missing_ok=True)
    return len(copies)


def _pays(saved: float, target: Model) -> bool:
    return saved >= max(_LEAST, _SHARE * target.n_bytes)


def _copies() -> list[Path]:
    """The latest used first."""
    return sorted(_directory().glob(f"*.{KIND}.gguf"), key=lambda copy: copy.stat().st_mtime, reverse=True)


def _leftovers() -> list[Path]:
    """What was begun by a spectui that did not live to finish it; its number stands in the name."""
    import psutil

    numbered = [(part, part.name.split(".")[-2]) for part in _directory().glob("*.*.part")]
    return [part for part, number in numbered if number.isdecimal() and not psutil.pid_exists(int(number))]


def _directory() -> Path:
    return paths.cache_directory() / "drafts"
