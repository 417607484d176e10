"""spectui's kernels in this process's ggml, with each instruction set that this CPU has."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectui.kernels.build import LIBRARY
from spectui.kernels.plugin import FUNCTIONS, Plugin, Unusable
from spectui.llama.cpu import plugin
from spectui.llama.library import address

SETS = ("amx", "avx512vnni", "avxvnni", "avx2")

ANOTHER = os.environ.get("KERNELS_LIBRARY")
"""A library to test in place of the installed one: see `native/sanitised.py`."""


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    """The library, registered with ggml; no model has its kernels yet."""
    try:
        _ = Plugin(address, Path(ANOTHER)) if ANOTHER else plugin.load()
    except Unusable as error:
        if ANOTHER:
            raise  # or nothing of it would be tested, and nobody would know
        pytest.skip(str(error))
    found = ctypes.CDLL(ANOTHER or str(LIBRARY))
    found.spectui_kernels_sets.restype = ctypes.c_char_p
    return found


@pytest.fixture(params=SETS)
def kernels(request: pytest.FixtureRequest, library: ctypes.CDLL) -> Iterator[str]:
    """The name of the instruction set that the library uses in this test."""
    if request.param not in library.spectui_kernels_sets().decode().split():
        pytest.skip(f"this CPU, or the library, has no {request.param}")
    functions = (ctypes.c_void_p * len(FUNCTIONS))(*map(address, FUNCTIONS))
    assert library.spectui_kernels_bind(functions, request.param.encode()) == 0
    yield request.param
    library.spectui_kernels_request(0, 0, 0, 0)
    assert library.spectui_kernels_bind(functions, b"") == 0
