"""Load the kernels' library into the ggml that llama.cpp uses, if it suits it.

Nothing of llama.cpp is imported or linked here. The caller tells where the functions of its libraries are: a second copy of
libggml may lie beside the one that is in use, with a registry of its own.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from spectui.errors import SpectuiError
from spectui.kernels.build import LIBRARY

ABI = 4
"""Of the library's own functions: spectui_kernels_abi()."""

API_VERSION = 2
"""Of ggml's plug-in interface (GGML_BACKEND_API_VERSION), which src/ggml_abi.h declares."""

FUNCTIONS = (
    "ggml_backend_buffer_init", "ggml_backend_buft_is_host", "ggml_backend_dev_by_type", "ggml_backend_dev_buffer_type",
    "ggml_graph_n_nodes", "ggml_graph_node", "ggml_abort",
)  # fmt: skip
"""What the library calls, in the order of `ggml_functions` in src/ggml_abi.h."""

DEVICE = "SPECTUI"
"""What ggml calls the backend and its device. It computes on the CPU, so it is listed nowhere."""

_OPENMP = "omp_get_max_threads"
"""Both OpenMP runtimes, GCC's and Clang's, have it."""

Address = Callable[[str], int | None]
"""Where a function of llama.cpp's libraries is; None if none of them has it."""


class Kernels(NamedTuple):
    """Which kernels multiply a model's weights: spectui's, of this instruction set, or where `set` is "" llama.cpp's."""

    set: str = ""
    why: str = ""
    """Why they are not spectui's, in a clause."""
    signs: bool = False
    """Whether they look for the likeliest tokens by the signs of the output matrix first, for a draft: src/signs.h."""
    beside: int = 0
    """Bytes of repacked weights that stay in the mapped file too, where a GPU reads them for prompts; 0: they do not."""

    @property
    def name(self) -> str:
        """Such as "spectui avx2", or "llama.cpp"."""
        return f"spectui {self.set}" if self.set else "llama.cpp"


LLAMA_CPP = Kernels()


class Unusable(SpectuiError):
    """The library cannot be used; its text is the clause that says why."""


class Plugin:
    """The library, which ggml has registered. See `request` for the models that have its kernels."""

    def __init__(self, address: Address, library: Path = LIBRARY, only: str = "") -> None:
        """`only`: the instruction set to use; "" is the best that the CPU has. Raises Unusable.

        A damaged file may end the process here: see `llama.selftest`.
        """
        self._library = library_ = _opened(library)
        try:
            if (abi := library_.spectui_kernels_abi()) != ABI:
                raise Unusable(f"their library is of another version ({abi} instead of {ABI}): install spectui again")
            library_.spectui_kernels_sets.restype = ctypes.c_char_p
            sets = library_.spectui_kernels_sets().decode().split()
            library_.spectui_kernels_bytes.restype = ctypes.c_size_t
            library_.spectui_kernels_bytes.argtypes = [ctypes.c_int, *[ctypes.c_int64] * 3]
            for function in ("request", "attend"):
                library_[f"spectui_kernels_{function}"].restype = None
        except AttributeError:
            raise Unusable("their library is damaged, or old: install spectui again") from None
        if not sets:
            raise Unusable("this CPU, or their library, has no AVX2")
        if only and only not in sets:
            raise Unusable(f"this CPU, or their library, has no {only}, only {', '.join(sets)}")
        self.set = only or sets[0]
        """The instruction set that is used."""
        _check(address, library_)
        functions = (ctypes.c_void_p * len(FUNCTIONS))(*map(address, FUNCTIONS))
        if library_.spectui_kernels_bind(functions, self.set.encode()) != 0:
            raise Unusable("their library refuses this llama.cpp")
        load = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(address("ggml_backend_load") or 0)
        if not load(os.fsencode(library)):
            raise Unusable("ggml does not load their library")

    def request(self, *, threads: int = 0, signs: bool = False, attention: bool = False, beside: bool = False) -> None:
        """Say what the models and contexts have that this thread makes from now on, and keep for good.

        `threads`: that repack a model's weights for these kernels; 0: it stays without. `signs`: as in `Kernels`.
        `attention`: they compute that of a context's passes too, where flash attention is on. `beside`: the weights
        stay in the mapped file too.
        """
        self._library.spectui_kernels_request(threads, int(signs), int(attention), int(beside))

    def attend(self) -> None:
        """Let the context that this thread made last have its attention computed by them too, from its first pass on."""
        self._library.spectui_kernels_attend()

    def bytes(self, kind: int, k: int, rows: int, matrices: int) -> int:
        """Bytes of `matrices` of `rows` rows of `k` weights of the ggml_type `kind`, repacked; 0 if they stay llama.cpp's."""
        return int(self._library.spectui_kernels_bytes(kind, k, rows, matrices))


def identity(library: Path = LIBRARY) -> str:
    """What tells this library from others; "" if there is none."""
    try:
        return hashlib.sha256(library.read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


def _opened(library: Path) -> ctypes.CDLL:
    if not library.exists():
        raise Unusable("they were not built: python -m spectui.kernels.build does that where a C++ compiler is")
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise Unusable(f"their library cannot be loaded ({str(error).removeprefix(f'{library}: ')})") from None


def _check(address: Address, library: ctypes.CDLL) -> None:
    """Raise Unusable if this llama.cpp is not as the library expects it."""
    needed = (*FUNCTIONS, "ggml_backend_load", "ggml_backend_reg_by_name")
    if lacking := [name for name in needed if address(name) is None]:
        raise Unusable(f"this llama.cpp has no {lacking[0]}")
    by_name = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(address("ggml_backend_reg_by_name") or 0)
    registered = by_name(b"CPU")
    # A registry begins with the version of the interface that it was compiled with.
    version = ctypes.c_int.from_address(registered).value if registered else None
    if version != API_VERSION:
        raise Unusable(f"this llama.cpp's plug-in interface has version {version}, not {API_VERSION}")
    theirs = address(_OPENMP)
    ours = ctypes.cast(getattr(library, _OPENMP), ctypes.c_void_p).value if hasattr(library, _OPENMP) else None
    if theirs is None:
        raise Unusable("this llama.cpp computes without OpenMP")
    if ours != theirs:  # two runtimes have two teams of threads, which would spin against each other
        raise Unusable("they use another OpenMP runtime than this llama.cpp: build both with one compiler")
