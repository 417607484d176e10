"""llama_cpp, set up once: no debugger on the user's terminal, and its log in memory instead of on the screen."""

from __future__ import annotations

import ctypes
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

# A failed assert in ggml would start gdb on the terminal. Set this before the library loads.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

from spectui.errors import SpectuiError
from spectui.llama.build import libraries
from spectui.llama.cpu.cores import allowed_cpus
from spectui.pin import GGML, LLAMA, LLAMA_CPP_PYTHON
from spectui.text import safe


class OtherVersionError(SpectuiError):
    """Another llama.cpp is installed than the one whose structs spectui reads."""


def _other_version(version: str) -> OtherVersionError:
    """The error that names the version that is there instead."""
    where, first = "there is", ""
    if "LLAMA_CPP_LIB_PATH" in os.environ:
        where, first = "in LLAMA_CPP_LIB_PATH there is", "unset LLAMA_CPP_LIB_PATH, or "
    return OtherVersionError(
        f"llama-cpp-python {LLAMA_CPP_PYTHON} is needed (llama.cpp {LLAMA}, ggml {GGML}), and {where} {version}: {first}"
        f"install that version (pip install llama-cpp-python=={LLAMA_CPP_PYTHON}), built for your GPU where you have one."
    )


if os.environ.get("LLAMA_CPP_LIB_PATH") == "":  # not set, as in other programs; llama_cpp would take the current directory
    del os.environ["LLAMA_CPP_LIB_PATH"]
allowed_cpus()
try:
    import llama_cpp
    from llama_cpp import llama_cpp as llama
except (ImportError, AttributeError, OSError, RuntimeError) as error:  # its functions are bound as it is imported
    missing = isinstance(error, ModuleNotFoundError) and error.name == "llama_cpp"
    raise _other_version("none" if missing else f"one that cannot be loaded ({' '.join(str(error).split())})") from error

LOG: deque[str] = deque(maxlen=400)
"""llama.cpp's last log lines."""

_ERROR_LEVEL = 4  # GGML_LOG_LEVEL_ERROR
_errors: deque[str] = deque(maxlen=20)
_listeners: list[Callable[[str], None]] = []
_log = logging.getLogger(__name__)


@llama.llama_log_callback  # type: ignore[untyped-decorator]
def _capture(level: int, text: bytes, _: object) -> None:
    line = text.decode("utf-8", "replace").rstrip("\n")
    if not line.strip(". "):
        return
    LOG.append(line)
    _log.info("%s", line)
    for listener in _listeners:
        listener(line)
    if level == _ERROR_LEVEL:
        _errors.append(line)


def check_version() -> None:
    """Raise OtherVersionError where this is another llama.cpp than the one whose structs are read here."""
    said = []
    for name in ("llama_version", "ggml_version"):
        try:
            said.append(symbol(name, ctypes.c_char_p)().decode())
        except AttributeError:
            said.append("unknown")
    versions = (llama_cpp.__version__, *said)
    if versions != (LLAMA_CPP_PYTHON, LLAMA, GGML):
        raise _other_version("{} ({}, {})".format(*versions))


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Pass each log line to `listener` within the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def clear_errors() -> None:
    """Discard the error lines collected so far."""
    _errors.clear()


def first_error() -> str:
    """The first error that llama.cpp logged since `clear_errors`, on one line, without the name of the function; "" for none.

    It may quote the model file, so control characters are removed.
    """
    return " ".join(safe(re.sub(r"^\w+: ", "", _errors[0])).split()) if _errors else ""


def symbol(name: str, result: Any, *arguments: Any) -> Any:
    """A function that llama_cpp does not bind. Raises AttributeError if no library has it.

    On Linux and macOS the handle of libllama finds the functions of all libraries that it loaded. Windows looks in the one
    library alone, and `ggml_backend_dev_*` are in ggml-base.
    """
    if (place := address(name)) is None:
        raise AttributeError(name)
    return ctypes.CFUNCTYPE(result, *arguments)(place)


def address(name: str) -> int | None:
    """Where a function is; None if no library has it. For code outside Python: `symbol` is for calling it."""
    for library in (llama._lib, *ggml_libraries()):
        with suppress(AttributeError):
            return ctypes.cast(library[name], ctypes.c_void_p).value
    return None


@cache
def ggml_libraries() -> tuple[ctypes.CDLL, ...]:
    """ggml's libraries beside libllama. They are loaded already, so that this only gets their handles."""
    handles = []
    for path in libraries():
        if "ggml" in path.name and path.suffix in (".dll", ".so", ".dylib"):
            with suppress(OSError):
                handles.append(ctypes.CDLL(str(path)))
    return tuple(handles)


check_version()  # before anything of it is used
llama.llama_log_set(_capture, None)
llama.llama_backend_init()


_NUMA = ("off", "distribute", "isolate", "numactl")  # ggml_numa_strategy (ggml.h)


@cache
def use_numa(strategy: str) -> None:
    """Let CPU threads use the memory of several sockets like this. The first strategy but "off" holds for the process."""
    llama.llama_numa_init(_NUMA.index(strategy))


def system_info() -> str:
    """The features of llama.cpp's CPU code, as it lists them."""
    return str(llama.llama_print_system_info().decode("utf-8", "replace").strip(" |\n"))
