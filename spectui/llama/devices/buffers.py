"""Types of buffers by name, for tensors that a person puts somewhere by themselves."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from spectui.errors import UsageError
from spectui.llama.devices.listing import device_handles
from spectui.llama.library import symbol

_buffer_type = symbol("ggml_backend_dev_buffer_type", ctypes.c_void_p, ctypes.c_void_p)
_buffer_name = symbol("ggml_backend_buft_name", ctypes.c_char_p, ctypes.c_void_p)


class _Override(ctypes.Structure):
    """llama_model_tensor_buft_override."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffers", ctypes.c_void_p))


def tensor_overrides(wanted: Sequence[tuple[str, str]]) -> Any:
    """The array that llama.cpp takes, ended by an empty one, which the caller keeps alive while the model loads.

    `wanted`: (regular expression for tensors' names, name of the buffers). Raises UsageError if there are no such buffers.
    """
    known: dict[str, int] = {}
    for handle in device_handles():
        if buffers := _buffer_type(handle):
            known[(_buffer_name(buffers) or b"").decode("utf-8", "replace")] = buffers
    found = (_Override * (len(wanted) + 1))()
    for index, (pattern, name) in enumerate(wanted):
        if name not in known:
            raise UsageError(f"There are no buffers {name!r} for the tensors {pattern!r}, only {', '.join(known)}.")
        found[index].pattern, found[index].buffers = pattern.encode(), known[name]
    return found
