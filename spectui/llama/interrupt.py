"""One flag that stops a reply: read between passes by Python, and within a CPU pass by ggml, without the GIL.

Importing this loads no library.
"""

from __future__ import annotations

import ctypes


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
