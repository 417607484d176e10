"""The draft copy: a quantisation of the draft with fewer bits a weight, for the CPU, written once.

On a CPU a pass over one token takes as long as reading the weights. A draft cannot change the text, so it may have fewer
bits a weight than a target. Q4_0 has 4.5 bits a weight, and fast kernels on every CPU.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from spectui import paths
from spectui.atomic import leftovers
from spectui.errors import SpectuiError
from spectui.gguf_files.check import ModelFileError
from spectui.gguf_files.parts import part_of
from spectui.paths import expanded

if TYPE_CHECKING:  # what deletes copies needs no llama.cpp
    from spectui.llama.model import Model

QUANTISATION = "Q4_0"
_BITS = 4.5
"""Bits a weight of that."""

_LEAST_SAVED = 16 << 20
"""Bytes by which the copy must be smaller: half a millisecond a token."""

_LEAST_SHARE = 0.05
"""The same as a share of the target's bytes. If it saves less, the loss of acceptance costs more (0.78 to 0.76 over four
prompts, from Q4_K_M)."""

_LARGEST = 4 << 30
"""Bytes of a file to copy: half a minute on two cores, which cannot be stopped."""

_NAME_LENGTH = 40
"""Characters of the draft's name in the copy's."""

_MOST_COPIES = 4
"""Copies on disk; the latest used stay."""


def copy_of(draft: str) -> Path:
    """The path of the copy of this file, whether or not it exists. Raises OSError if there is no such draft."""
    file = expanded(draft)
    status = file.stat()
    key = hashlib.sha256(
        f"{file.resolve()} {status.st_size} {status.st_mtime_ns}".encode(errors="surrogateescape")
    ).hexdigest()[:12]
    # The name with a process id and an ending must stay below the usual limit of 255 bytes.
    return _directory() / f"{file.stem[:_NAME_LENGTH]}-{key}.{QUANTISATION}.gguf"


def find(draft: str, target: Model) -> Path | None:
    """The copy, if there is one and it is worth using with this target."""
    try:
        copy = copy_of(draft)
        saved = os.path.getsize(os.path.expanduser(draft)) - copy.stat().st_size
    except OSError:
        return None  # usually: there is none yet
    if not is_worth_using(saved, target.n_bytes):
        return None
    with suppress(OSError):
        os.utime(copy)
    return copy


def make(draft: Model, target: Model, progress: Callable[[float], None]) -> Path | None:
    """Write a copy of this draft's file if it will be worth using, else None. The draft may be loaded during that.

    Raises SpectuiError.
    """
    file, size = Path(draft.path), draft.parameters * _BITS / 8
    if part_of(file) or not is_worth_using(draft.n_bytes - size, target.n_bytes):
        return None
    try:
        copy = copy_of(draft.path)
        # A copy that exists and was not worth using is larger than estimated here, and would be again.
        if copy.exists() or file.stat().st_size > _LARGEST:
            return None
        copy.parent.mkdir(parents=True, exist_ok=True)
        for old in [*leftovers(_directory()), *_copies()[_MOST_COPIES - 1 :]]:
            old.unlink(missing_ok=True)
        if shutil.disk_usage(copy.parent).free < 4 * size:
            return None
    except OSError as error:
        raise SpectuiError(f"There is no place for a copy of the draft: {error.strerror}.") from error
    from spectui.llama.quantiser import quantise

    quantise(file, copy, QUANTISATION, progress, throughout=True)
    return copy


def load_best(
    draft: str, target: Model, load: Callable[[str], Model], progress: Callable[[float], None], notice: Callable[[str], None]
) -> Model:
    """Load the copy of this draft if it is worth using, and write it if there is none; else the draft. Raises SpectuiError.

    `load` loads a file. `progress` is told how far the writing is, and `notice` why there is no copy.
    """
    if (copy := find(draft, target)) is not None:
        try:
            return load(str(copy))
        except ModelFileError as error:
            from spectui.llama.model import TooLargeError

            if not isinstance(error, TooLargeError):
                with suppress(OSError):
                    copy.unlink()  # it is damaged; a new one is made below
    loaded = load(draft)
    try:
        copy = make(loaded, target, progress)
    except SpectuiError as error:
        notice(f"The draft is used as it is: {error}")
        return loaded
    if copy is None:
        return loaded
    loaded.close()
    return load(str(copy))


def remark(draft: str, loaded: str) -> str:
    """Says that the file that is loaded is this draft's copy; "" if not."""
    if Path(loaded) != copy_of(draft):
        return ""
    before, after = (os.path.getsize(os.path.expanduser(path)) / 1e6 for path in (draft, loaded))
    return f"drafts with a copy in {QUANTISATION}, made for this CPU: {after:.0f} MB instead of {before:.0f}"


def delete_all() -> int:
    """Delete all copies; returns their number."""
    copies = _copies()
    for file in [*copies, *leftovers(_directory())]:
        file.unlink(missing_ok=True)
    return len(copies)


def is_worth_using(saved: float, target_bytes: int) -> bool:
    """Whether a copy that is smaller by so many bytes pays beside a target of this size."""
    return saved >= max(_LEAST_SAVED, _LEAST_SHARE * target_bytes)


def _copies() -> list[Path]:
    """All copies, the latest used first."""
    return sorted(_directory().glob(f"*.{QUANTISATION}.gguf"), key=lambda copy: copy.stat().st_mtime, reverse=True)


def _directory() -> Path:
    return paths.cache_directory() / "drafts"
