"""What this build of llama.cpp is made of, found without loading it."""

from __future__ import annotations

import importlib.util
import os
import re
from functools import cache
from pathlib import Path

_GPUS = (
    "cuda",
    "hip",
    "musa",
    "metal",
    "vulkan",
    "sycl",
    "opencl",
    "cann",
    "webgpu",
    "hexagon",
    "openvino",
    "zdnn",
    "et",
)
"""ggml's libraries whose devices have a driver of their own."""


def directory() -> Path | None:
    """The directory of the shared libraries, as llama_cpp finds it; None without llama_cpp."""
    if named := os.environ.get("LLAMA_CPP_LIB_PATH"):
        return Path(named)
    found = importlib.util.find_spec("llama_cpp")
    return Path(found.origin).parent / "lib" if found is not None and found.origin else None


@cache
def gpu_backends() -> tuple[str, ...]:
    """The backends for GPUs in this build, such as "cuda"."""
    libraries = directory()
    names = [path.name for path in libraries.iterdir()] if libraries is not None and libraries.is_dir() else []
    found = {match[1] for name in names if (match := re.match(r"(?:lib)?ggml-([a-z]+)\b.*\.(?:so|dylib|dll)\b", name))}
    return tuple(name for name in _GPUS if name in found)
