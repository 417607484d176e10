"""One flag that stops a reply: read between passes by Python, and within a CPU pass by ggml, without the GIL."""

from __future__ import annotations

import ctypes
import sys

from spectui.llama.library import llama

# ggml asks `bool abort(void *data)` a few hundred times a pass. A Python function would take the GIL each time; strlen of
# a one-byte string is 0 or 1 and does not.
_libc = ctypes.CDLL("msvcrt") if sys.platform == "win32" else ctypes.CDLL(None)
ABORT_CALLBACK = ctypes.cast(_libc.strlen, llama.ggml_abort_callback)


class Interrupt:
    """Set from any thread; contexts made with it give up their pass within a millisecond on a CPU."""

    def __init__(self) -> None:
        self._flag = ctypes.create_string_buffer(2)

    @property
    def address(self) -> ctypes.c_void_p:
        """What ggml hands to the callback; valid as long as this object lives."""
        return ctypes.cast(self._flag, ctypes.c_void_p)

    def set(self) -> None:
        """Stop."""
        self._flag[0] = b"\x01"

    def clear(self) -> None:
        """Go on."""
        self._flag[0] = b"\x00"

    def is_set(self) -> bool:
        """Has somebody asked to stop?"""
        return self._flag[0] != b"\x00"
