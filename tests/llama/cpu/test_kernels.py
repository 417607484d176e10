"""Which types have kernels for several rows, by what llama.cpp says of its CPU code."""

from __future__ import annotations

import pytest

from spectui.llama.cpu.kernels import several_rows, weight_type

X86 = {"AVX2", "REPACK", "LLAMAFILE"}


@pytest.mark.parametrize(
    ("features", "fast_kernels", "has", "lacks"),
    [
        (X86, True, {"Q4_0", "Q4_K", "Q8_0"}, {"Q6_K", "Q2_K", "Q4_1"}),
        ({*X86, "AVX512"}, True, {"Q4_0", "Q4_K", "Q8_0", "Q2_K"}, {"Q6_K", "Q5_K"}),
        ({*X86, "AVX512", "AMX_INT8"}, True, {"Q6_K", "Q5_K", "Q4_1", "Q8_0"}, {"Q3_K"}),
        ({*X86, "AMX_INT8"}, False, {"Q8_0"}, {"Q4_0", "Q4_K", "Q6_K"}),
        ({"AVX2", "REPACK"}, True, {"Q4_0"}, {"Q8_0"}),
        ({"NEON", "DOTPROD", "REPACK", "LLAMAFILE"}, True, set(), {"Q4_0", "Q8_0"}),
    ],
)
def test_each_feature_brings_its_types(features: set[str], fast_kernels: bool, has: set[str], lacks: set[str]) -> None:
    found = several_rows(features, fast_kernels)
    assert has <= found and not lacks & found


@pytest.mark.parametrize(
    ("description", "kind"),
    [
        ("qwen2 1.5B Q8_0", "Q8_0"), ("qwen2 1.5B Q4_K - Medium", "Q4_K"), ("llama 1B IQ4_XS - 4.25 bpw", "IQ4_XS"),
        ("gpt-oss 20B MXFP4 MoE", "MXFP4"), ("llama 135M BF16", "BF16"), ("llama ?B all F32", "F32"), ("what", ""),
    ],
)  # fmt: skip
def test_the_type_is_read_from_llama_cpps_description(description: str, kind: str) -> None:
    assert weight_type(description) == kind
