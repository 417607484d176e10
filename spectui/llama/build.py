"""What this build of llama.cpp is made of, and what it is started with. Importing this loads no library."""

from __future__ import annotations

import importlib.util
import os
import re
from functools import cache
from pathlib import Path

from spectui.knobs import Setup

_ISOLATED = "cuda hip musa metal vulkan sycl opencl cann webgpu hexagon openvino zdnn et rpc"
"""ggml's libraries whose devices can end the process that uses them: GPUs, whose drivers fail, and RPC servers."""


def directory() -> Path | None:
    """The directory of the shared libraries, as llama_cpp finds it; None without llama_cpp."""
    if named := os.environ.get("LLAMA_CPP_LIB_PATH"):
        return Path(named)
    spec = importlib.util.find_spec("llama_cpp")
    return Path(spec.origin).parent / "lib" if spec is not None and spec.origin else None


@cache
def isolated_backends() -> tuple[str, ...]:
    """The backends in this build whose devices can end the process that uses them, such as "cuda"."""
    libraries = directory()
    names = [path.name for path in libraries.iterdir()] if libraries is not None and libraries.is_dir() else []
    backends = {match[1] for name in names if (match := re.match(r"(?:lib)?ggml-([a-z]+)\b.*\.(?:so|dylib|dll)\b", name))}
    return tuple(name for name in _ISOLATED.split() if name in backends)


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
    """Tells the shared libraries of two builds apart."""
    import hashlib

    libraries = directory()
    if libraries is None or not libraries.is_dir():
        return ""
    files = [library for library in sorted(libraries.iterdir()) if re.search(r"\.(so|dylib|dll)\b", library.name)]
    parts = [f"{library.name} {library.stat().st_size}" for library in files if library.is_file()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def features_of(system_info: str) -> frozenset[str]:
    """The features that llama_print_system_info lists."""
    return frozenset(re.findall(r"(\w+) = 1\b", system_info))


def environment(setup: Setup) -> dict[str, str]:
    """This process's environment, with what ggml's backends for GPUs read once, when they are loaded."""
    named = {"GGML_OP_OFFLOAD_MIN_BATCH": str(setup.op_offload_min_batch)} if setup.op_offload_min_batch else {}
    return {**os.environ, **named}
