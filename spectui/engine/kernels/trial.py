"""What passes take with spectui's kernels and with llama.cpp's on this machine, for each type of weights.

It is measured once, and kept.

A model of random weights of that type is loaded twice, and passes of both alternate. It is larger than most caches, so that
weights are read from memory, as those of a real model are.
"""

from __future__ import annotations

import ctypes
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter, time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectui.atomic import write_atomic
from spectui.engine.costs import files as cost_files
from spectui.engine.costs.files import Key
from spectui.engine.costs.measuring import timed_pass
from spectui.gguf_files.tiny import write_random_model
from spectui.kernels.plugin import LLAMA_CPP, Kernels
from spectui.llama.context import Context
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import symbol
from spectui.llama.model import Model

ROWS = (1, 4, 8)
"""Sizes of the passes: plain ones, and those over drafts."""

_LEAST, _USUAL_S, _BOUND_S = 5, 0.6, 3.0
"""More than so many passes of each size are made, for so many seconds; for so many at most where others disturb them."""

_ALIKE = 1.2
"""The fastest pass of a size counts where the next two took at most this many times as long: then nothing disturbed them."""

_WIDTH, _FEED_FORWARD, _LAYERS = 2048, 5632, 2

_AGAIN_S = 3600.0
"""Seconds after which a trial that others disturbed is made again."""


class Trial(NamedTuple):
    """Seconds for each byte of weights in passes of `ROWS` rows."""

    llama_cpp: tuple[float, ...]
    own: tuple[float, ...]
    steady: bool = True
    """Other processes did not disturb it."""


def trial(
    kind: int, own: Kernels, key: Key, threads: int, extra_buffers: bool, progress: Callable[[float], None]
) -> Trial:
    """What was found for weights of the ggml_type `kind`, or is found now, in about a second.

    `key`: what it depends on besides. `progress`: called with 0..1 meanwhile; what it raises ends it. Raises SpectuiError,
    OSError.
    """
    file = _file(kind, own, key, threads, extra_buffers)
    found = _read(file)
    if found is None:
        found = _measure(kind, own, threads, extra_buffers, progress)
        with suppress(OSError):
            write_atomic(file, json.dumps(found).encode())
    return found


def stored(kind: int, own: Kernels, key: Key, threads: int, extra_buffers: bool) -> Trial | None:
    """What was found; None if it was not measured yet."""
    return _read(_file(kind, own, key, threads, extra_buffers))


def _file(kind: int, own: Kernels, key: Key, threads: int, extra_buffers: bool) -> Path:
    return cost_files.path("kernels", (*key, own.set, kind, threads, extra_buffers))


def _read(file: Path) -> Trial | None:
    """None without the file, where it is damaged, or for a disturbed trial that is to be made again."""
    with suppress(OSError, ValueError, TypeError):
        theirs, ours, steady = json.loads(file.read_text(encoding="utf-8"))
        sound = all(len(each) == len(ROWS) and all(0 < seconds < 1 for seconds in each) for each in (theirs, ours))
        if sound and (steady is True or time() - file.stat().st_mtime < _AGAIN_S):
            return Trial(tuple(theirs), tuple(ours), steady is True)
    return None


def _measure(kind: int, own: Kernels, threads: int, extra_buffers: bool, progress: Callable[[float], None]) -> Trial:
    progress(0.0)
    seconds: dict[tuple[int, int], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="spectui-kernels-") as scratch:
        path = Path(scratch) / "random.gguf"
        write_random_model(path, _WIDTH, _FEED_FORWARD, _LAYERS, kind, lambda weights: _quantised(kind, weights))
        loaded = [
            Model(str(path), "draft", on_devices=[], extra_buffers=extra_buffers, kernels=kernels)
            for kernels in (LLAMA_CPP, own)
        ]
    # As drafts without flash attention, which a target's kernels would compute for both: see `plugin.flash_attention`.
    contexts = [
        Context(model, Interrupt(), n_ctx=max(ROWS), rows=max(ROWS), threads=threads, flash_attn="off")
        for model in loaded
    ]
    try:
        began, spent, rounds, steady = perf_counter(), 0.0, 0, False
        while rounds < 1 or spent < (_USUAL_S if steady and rounds > _LEAST else _BOUND_S):
            for rows in ROWS:
                for which, context in enumerate(contexts):
                    context.truncate(0)
                    seconds.setdefault((which, rows), []).append(timed_pass(context, range(rows), rows)[0])
            rounds, spent = rounds + 1, perf_counter() - began
            steady = rounds > 2 and all(sorted(found)[2] < _ALIKE * min(found) for found in seconds.values())
            progress(min(1.0, spent / _USUAL_S))
        n_bytes = loaded[0].n_bytes
    finally:
        for context, model in zip(contexts, loaded, strict=True):
            context.close()
            model.close()
    theirs, ours = (tuple(min(seconds[which, rows]) / n_bytes for rows in ROWS) for which in (0, 1))
    return Trial(theirs, ours, steady)


def _quantised(kind: int, weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The bytes of these weights [rows, k] in this type."""
    rows, k = weights.shape
    size = symbol("ggml_row_size", ctypes.c_size_t, ctypes.c_int, ctypes.c_int64)(kind, k)
    found = np.empty((rows, size), np.uint8)
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    quantise = symbol(
        "ggml_quantize_chunk", ctypes.c_size_t, ctypes.c_int, pointer, pointer, count, count, count, pointer
    )
    quantise(kind, weights.ctypes.data, found.ctypes.data, 0, rows, k, None)
    return found
