"""What this build of llama.cpp leaves unused on this machine, the dearest first, with the command that mends it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Finding(NamedTuple):
    """Something that is lost: what, what that costs, and a shell command."""

    what: str
    cost: str
    command: str

    @property
    def sentence(self) -> str:
        """What and how much."""
        return f"{self.what}: {self.cost}."


_LACKING: Sequence[tuple[tuple[str, ...], tuple[str, ...], str, str]] = (
    (("AVX2",), ("avx2",), "AVX2", "everything is several times as slow"),
    (("NEON",), ("asimd", "neon"), "NEON", "everything is several times as slow"),
    (("AMX_INT8",), ("amx_int8",), "AMX", "passes over several tokens (prompts and drafts) take much longer"),
    (("MATMUL_INT8",), ("i8mm",), "the int8 matrix instructions",
     "passes over several tokens (prompts and drafts) take longer"),
    (("AVX512",), ("avx512f",), "AVX-512", "passes over several tokens take longer"),
    (("AVX512_VNNI", "AVX_VNNI"), ("avx512_vnni", "avx_vnni"), "VNNI", "quantised weights are multiplied more slowly"),
    (("DOTPROD",), ("asimddp",), "the dot product instructions", "quantised weights are multiplied more slowly"),
    (("FMA", "ARM_FMA"), ("fma",), "FMA", "every pass takes longer"),
    (("F16C",), ("f16c",), "F16C", "cells and weights in f16 are read more slowly"),
    (("AVX512_BF16",), ("avx512_bf16",), "AVX-512 BF16", "weights in bf16 are multiplied more slowly"),
)  # fmt: skip
"""Each row: names of the feature in the build, names of its flag on the CPU (one of each is enough), what a person calls it,
and what is lost without it. The dearest loss comes first."""


def findings(
    features: Collection[str],
    backends: Collection[str],
    flags: Collection[str],
    cards: Sequence[str],
    fast_kernels: bool,
    rebuild: str,
    rebuild_cuda: str,
) -> Iterator[Finding]:
    """What is lost, the dearest first.

    `features`: of llama.cpp's CPU code, as llama_print_system_info lists them. `backends`: ggml's. `flags`: the CPU's, as Linux
    names them; none if they are unknown. `cards`: NVIDIA's GPUs. `fast_kernels`: they passed the self-test. `rebuild` and
    `rebuild_cuda`: commands.
    """
    if cards and not {"CUDA", "VULKAN"} & set(backends):
        names = ", ".join(dict.fromkeys(cards))
        yield Finding(
            f"This llama.cpp is built without CUDA, and there is {names}", "models run on the CPU alone, many times as slowly",
            rebuild_cuda,
        )  # fmt: skip
    for needed, known, name, cost in _LACKING[:2]:
        if set(known) & set(flags) and not set(needed) & set(features):
            yield Finding(f"This llama.cpp is built without {name}, which the CPU has", cost, rebuild)
    if not fast_kernels:
        yield Finding(
            "The fast CPU kernels of this llama.cpp crash (compilers such as GCC 12 break AMX), so they are off",
            "up to half the speed is lost", rebuild,
        )  # fmt: skip
    if "REPACK" not in features:
        yield Finding(
            "This llama.cpp is built without repacked weights",
            "Q4_0 and Q4_K weights are multiplied more slowly, drafts' copies above all", rebuild,
        )  # fmt: skip
    for needed, known, name, cost in _LACKING[2:]:
        if set(known) & set(flags) and not set(needed) & set(features):
            yield Finding(f"This llama.cpp is built without {name}, which the CPU has", cost, rebuild)
    if "OPENMP" not in features and "ACCELERATE" not in features:
        yield Finding("This llama.cpp is built without OpenMP", "its threads wait longer for each other", rebuild)


def features_of(system_info: str) -> frozenset[str]:
    """The features that llama_print_system_info lists."""
    return frozenset(re.findall(r"(\w+) = 1\b", system_info))


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The CPU's features as Linux names them; none elsewhere."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return frozenset(found.group(1).split()) if found else frozenset()
