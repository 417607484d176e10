"""What this build of llama.cpp is made of, and the command that builds it anew for this machine.

Importing this loads no library.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from shutil import which

_ISOLATED = "cuda hip musa metal vulkan sycl opencl cann webgpu hexagon openvino zdnn et rpc"
"""ggml's libraries whose devices can end the process that uses them: GPUs, whose drivers fail, and RPC servers."""

_GCC_WITH_AMX = 13
"""GCC before this version breaks the AMX kernels (llama.cpp PR #26954)."""


def libraries() -> list[Path]:
    """The shared libraries, where llama_cpp finds them; [] without llama_cpp."""
    directory = os.environ.get("LLAMA_CPP_LIB_PATH")
    if not directory:
        spec = importlib.util.find_spec("llama_cpp")
        if spec is None or not spec.origin:
            return []
        directory = os.path.join(os.path.dirname(spec.origin), "lib")
    files = sorted(Path(directory).glob("*"))
    return [file for file in files if file.is_file() and re.search(r"\.(so|dylib|dll)\b", file.name)]


def backends() -> list[str]:
    """ggml's backends in this build, such as CPU, CUDA or RPC, as its cmake options call them."""
    names = (re.match(r"(?:lib)?ggml-([a-z]+)\b", library.name) for library in libraries())
    return list(dict.fromkeys(name[1].upper() for name in names if name is not None and name[1] != "base"))


@cache
def isolated_backends() -> tuple[str, ...]:
    """The backends in this build whose devices can end the process that uses them, such as "cuda"."""
    present = backends()
    return tuple(name for name in _ISOLATED.split() if name.upper() in present)


def cpu_name() -> str:
    """The CPU's model name, with " AMX" if it has that, as far as the system tells."""
    import platform

    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    match = re.search(r"^(?:model name|Model)\s*:\s*(.*)$", text, re.MULTILINE)
    amx = " AMX" if " amx_int8" in text else ""
    return (match.group(1) if match else platform.machine()) + amx


def fingerprint() -> str:
    """Tells the shared libraries of two builds apart; "" without any."""
    parts = [f"{library.name} {library.stat().st_size}" for library in libraries()]
    return _digest(parts)[:8] if parts else ""


def build_key() -> str:
    """Identifies this build of llama.cpp on this CPU: verdicts and costs of another one are not used."""
    import platform

    # "0": no tiles, so that other sizes of passes round alike
    parts = [platform.machine(), cpu_name(), f"tiles {os.environ.get('GGML_CPU_TILED_MM')}", fingerprint()]
    parts += [str(library.stat().st_mtime_ns) for library in libraries()]
    return _digest(parts)[:16]


def _digest(parts: list[str]) -> str:
    import hashlib  # 5 ms of a start that needs none

    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def features_of(system_info: str) -> frozenset[str]:
    """The features that llama_print_system_info lists."""
    return frozenset(re.findall(r"(\w+) = 1\b", system_info))


def rebuild_command(*added: str) -> str:
    """A shell command that compiles the version of llama-cpp-python that spectui needs, with a compiler that works.

    It installs into the environment of this Python, whose `pip` is not always that on the PATH. `added`: ggml's names of
    backends, such as "RPC". Those of this build stay.
    """
    from importlib import metadata

    options = " ".join(f"-DGGML_{name}=on" for name in sorted({*backends(), *added} - {"CPU"}))
    arguments = f"CMAKE_ARGS='{options}' " if options else ""
    needed = next(line for line in metadata.requires("spectui") or () if line.startswith("llama-cpp-python"))
    other_libraries = "unset LLAMA_CPP_LIB_PATH; " if "LLAMA_CPP_LIB_PATH" in os.environ else ""
    python, has_pip = shlex.quote(sys.executable), importlib.util.find_spec("pip") is not None
    pip = f"{python} -m pip install" if has_pip else f"uv pip install --python {python}"
    return (
        f"{other_libraries}{arguments}{_compilers()}{pip} --force-reinstall --no-binary llama-cpp-python --no-cache-dir "
        f"--no-deps '{needed}'"
    )


def _compilers() -> str:
    """clang, where it is installed, or where the compiler at hand is missing or breaks the kernels of this CPU."""
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
