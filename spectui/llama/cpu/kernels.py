"""Which types of weights this CPU's kernels of llama.cpp take several rows of at once. Importing this loads no library."""

from __future__ import annotations

import re
from collections.abc import Collection

_AMX = ("Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS")
"""ggml-cpu/amx/common.h."""

_REPACKED_AVX2 = ("Q4_0", "Q4_K", "IQ4_NL", "MXFP4")
_REPACKED_AVX512 = ("Q2_K",)
"""ggml-cpu/repack.cpp."""

_TINYBLAS = ("Q8_0", "F16", "BF16")
"""ggml-cpu/llamafile/sgemm.cpp."""


def features_of(system_info: str) -> frozenset[str]:
    """The features that llama_print_system_info lists."""
    return frozenset(re.findall(r"(\w+) = 1\b", system_info))


def several_rows(features: Collection[str], fast_kernels: bool) -> frozenset[str]:
    """The types whose weights a pass over a few rows reads once, by ggml's names; other types are computed row by row.

    `features`: of llama.cpp's CPU code. `fast_kernels`: AMX and repacked weights are used. None are known for CPUs other than
    x86 with AVX2.
    """
    if "AVX2" not in features:
        return frozenset()
    types: list[str] = []
    if fast_kernels and "AMX_INT8" in features:
        types += _AMX
    if fast_kernels and "REPACK" in features:
        types += _REPACKED_AVX2
        types += _REPACKED_AVX512 if "AVX512" in features else ()
    if "LLAMAFILE" in features:
        types += _TINYBLAS
    return frozenset(types)


def weight_type(description: str) -> str:
    """The type in llama.cpp's description of a model: Q4_K of "qwen2 1.5B Q4_K - Medium"; "" if it names none."""
    found = re.findall(r"\b(I?Q\d\w*|TQ\d\w*|MXFP4|BF16|F16|F32)\b", description)
    return found[-1] if found else ""
