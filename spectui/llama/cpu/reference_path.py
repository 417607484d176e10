"""ggml's reference kernels on the CPU, which round a single row as they round several.

With flash attention, and K and V cells in f16 or f32, ggml's CPU attention divides the cells of a single row among
the threads from 512 cells on. llama.cpp pads the cells to multiples of 256, so that is from 257 tokens of context on. The sum
of the parts rounds differently from the sums of 2 to 63 rows, which are not divided (ggml-cpu/ops.cpp, use_split_kv_path).
`ggml_backend_cpu_set_use_ref` turns the division off. It also leaves RMS_NORM and MUL unfused, which changes no bit, and
turns off tiles that are used for 8 rows and more.

The backend belongs to a llama_context, and llama.h has no way to it. llama.cpp's C++ class has one, whose name GCC and Clang
export (llama-context.h, get_sched); MSVC does not. llama-cpp-python is pinned, and a test looks for the name.
"""

from __future__ import annotations

import ctypes
from typing import Any

from spectui.llama.library import llama, symbol

SPLIT_FROM = 256
"""Tokens in a context before a pass from which on ggml divides the cells of a single row."""

_GET_SCHED = "_ZNK13llama_context9get_schedEv"
_SET_USE_REF = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_bool)


def divides(type_k: str, type_v: str) -> bool:
    """Whether ggml's CPU attention divides a single row over cells of these types. llama.cpp makes f16 of f32 before it."""
    return {type_k, type_v} <= {"f16", "f32"}


def available() -> bool:
    """Whether this build of llama.cpp lets a context's CPU kernels be chosen."""
    return hasattr(llama._lib, _GET_SCHED)


class ReferencePath:
    """Chooses the CPU kernels of one llama_context. Does nothing where `available()` is false."""

    def __init__(self, context: Any) -> None:
        """`context`: a llama_context_p that outlives this object."""
        self._kernels: tuple[int, Any] | None = _cpu_backend(context) if available() else None
        self._on = False

    def use(self, on: bool) -> None:
        """From the next pass on, compute with the reference kernels, or with the usual ones."""
        if self._kernels is not None and on != self._on:
            backend, set_use_ref = self._kernels
            set_use_ref(backend, on)
            self._on = on


def _cpu_backend(context: Any) -> tuple[int, Any]:
    """The context's CPU backend, which every context has, and its function."""
    pointer = ctypes.c_void_p
    sched = symbol(_GET_SCHED, pointer, pointer)(context)
    count = symbol("ggml_backend_sched_get_n_backends", ctypes.c_int, pointer)
    get = symbol("ggml_backend_sched_get_backend", pointer, pointer, ctypes.c_int)
    device = symbol("ggml_backend_get_device", pointer, pointer)
    registry = symbol("ggml_backend_dev_backend_reg", pointer, pointer)
    address = symbol("ggml_backend_reg_get_proc_address", pointer, pointer, ctypes.c_char_p)
    for number in range(count(sched)):
        backend = get(sched, number)
        # The CPU's library may have been loaded at run time, so the function is asked for instead of linked. The device that
        # split mode tensor makes of several GPUs has no registry.
        registered = registry(device(backend))
        function = address(registered, b"ggml_backend_cpu_set_use_ref") if registered else None
        if function:
            return backend, _SET_USE_REF(function)
    raise RuntimeError("A context of llama.cpp without a CPU backend.")
