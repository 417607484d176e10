"""The command that builds llama.cpp anew for this machine."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
from importlib import metadata
from shutil import which

_GCC_WITH_AMX = 13
"""GCC before this version breaks the AMX kernels (llama.cpp PR #26954)."""


def rebuild_command(*backends: str) -> str:
    """A shell command that compiles the version of llama-cpp-python that spectui needs, with a compiler that works.

    It installs into the environment of this Python. `backends`: ggml's names of those to add, such as "RPC". Those of this
    build stay.
    """
    from spectui.llama.library import backends as present

    options = " ".join(f"-DGGML_{name}=on" for name in sorted({*present(), *backends} - {"CPU"}))
    arguments = f"CMAKE_ARGS='{options}' " if options else ""
    needed = next(line for line in metadata.requires("spectui") or () if line.startswith("llama-cpp-python"))
    other_libraries = "unset LLAMA_CPP_LIB_PATH; " if "LLAMA_CPP_LIB_PATH" in os.environ else ""
    return (
        f"{other_libraries}{arguments}{_compilers()}{_pip()} --force-reinstall --no-binary llama-cpp-python --no-cache-dir "
        f"--no-deps '{needed}'"
    )


def _pip() -> str:
    """The installer of this Python's environment: the `pip` on the PATH may be another environment's."""
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is not None:
        return f"{python} -m pip install"
    return f"uv pip install --python {python}"


def _compilers() -> str:
    """clang, where it is installed, or where the compiler at hand is missing or breaks the kernels of this CPU."""
    from spectui.llama.library import cpu_name

    clang = which("clang") is not None and which("clang++") is not None
    works = which("c++") is not None and ("AMX" not in cpu_name() or _gcc_version() >= _GCC_WITH_AMX)
    return "" if works and not clang else "CC=clang CXX=clang++ "


def _gcc_version() -> int:
    """The first number of GCC's version; 0 if there is none."""
    try:
        done = subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True, timeout=5, check=True)
        return int(done.stdout.split(".")[0])
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0
