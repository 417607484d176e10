"""A part of a test in which permissions hold for root too, as they do for the person who runs spectui."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3 (linux/capability.h)
_OVERRIDES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Capabilities(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextmanager
def unprivileged() -> Iterator[None]:
    """This thread, and those begun in it meanwhile, may only do what a file's permissions allow its owner."""
    if not hasattr(os, "geteuid"):
        pytest.skip("permissions are something else here")
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "capset"):
        pytest.skip("root cannot give up its rights here")
    header, mine = _Header(_VERSION, 0), (_Capabilities * 2)()
    assert libc.capget(ctypes.byref(header), mine) == 0, os.strerror(ctypes.get_errno())
    before = mine[0].effective
    mine[0].effective = before & ~_OVERRIDES
    assert libc.capset(ctypes.byref(header), mine) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        mine[0].effective = before
        assert libc.capset(ctypes.byref(header), mine) == 0, os.strerror(ctypes.get_errno())
