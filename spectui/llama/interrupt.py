"""One flag that stops a reply. Python reads it between passes; ggml reads it within a CPU pass, without the GIL.

Importing this loads no library.
"""

from __future__ import annotations

import ctypes


class Interrupt:
    """Any thread may set it. A context made with it then aborts its pass: within a millisecond on a CPU."""

    def __init__(self) -> None:
        self._flag = ctypes.create_string_buffer(2)

    @property
    def address(self) -> ctypes.c_void_p:
        """The argument of ggml's abort callback; valid as long as this object exists."""
        return ctypes.cast(self._flag, ctypes.c_void_p)

    def set(self) -> None:
        """Stop."""
        self._flag[0] = b"\x01"

    def clear(self) -> None:
        """Go on."""
        self._flag[0] = b"\x00"

    def is_set(self) -> bool:
        """Is a stop requested?"""
        return self._flag[0] != b"\x00"
