"""`spectui doctor`: what a build of llama.cpp leaves unused on the machine, the dearest first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spectui.cli.machine.findings import Finding, cpu_flags, features_of, findings
from tests.rpc_server import LIBRARIES

OLD = LIBRARIES.with_name("bin-avx2")
X86 = {
    "SSE3", "AVX", "AVX2", "F16C", "FMA", "BMI2", "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16", "AMX_INT8",
    "LLAMAFILE", "OPENMP", "REPACK",
}  # fmt: skip
FLAGS = frozenset({"avx", "avx2", "f16c", "fma", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8"})


def found(features=X86, backends=("CPU",), flags=FLAGS, cards=(), fast_kernels=True) -> list[Finding]:
    return list(findings(features, backends, flags, cards, fast_kernels, "rebuild", "rebuild with CUDA"))


def without(*names: str) -> set[str]:
    return X86 - set(names)


def test_a_build_that_uses_all():
    assert found() == []
    assert found(cards=["RTX 3090"], backends=["CPU", "CUDA"]) == []
    assert found(features=X86, flags=()) == [], "where the CPU's flags are unknown"
    assert found(features=without("AMX_INT8"), flags=["avx2", "fma"]) == [], "what the CPU lacks is not lost"


def test_a_card_that_pips_default_build_does_not_use():
    (only,) = found(cards=["RTX 3090", "RTX 3090", "P40"])
    assert only.sentence.startswith(
        "This llama.cpp is built without CUDA, and there is RTX 3090, P40: models run on the CPU"
    )
    assert only.command == "rebuild with CUDA"


@pytest.mark.parametrize(
    ("feature", "name"),
    [("AVX2", "AVX2"), ("AMX_INT8", "AMX"), ("AVX512", "AVX-512"), ("AVX512_VNNI", "VNNI"), ("FMA", "FMA"), ("F16C", "F16C"),
     ("REPACK", "repacked weights"), ("OPENMP", "OpenMP")],
)  # fmt: skip
def test_what_the_build_lacks(feature: str, name: str):
    (only,) = found(features=without(feature))
    assert f"is built without {name}" in only.sentence
    assert only.command == "rebuild"


def test_another_feature_that_does_the_same():
    """One of the two kinds of VNNI is enough."""
    assert found(features=without("AVX512_VNNI") | {"AVX_VNNI"}) == []


def test_on_arm():
    flags = ["fp", "asimd", "asimddp", "i8mm"]
    built = ["NEON", "ARM_FMA", "MATMUL_INT8", "DOTPROD", "OPENMP", "REPACK"]
    assert found(features=built, flags=flags) == []
    lost = [each.what for each in found(features=["NEON", "ARM_FMA", "OPENMP", "REPACK"], flags=flags)]
    assert [("matrix" in each, "dot product" in each) for each in lost] == [(True, False), (False, True)]


def test_the_dearest_is_first():
    lost = found(features=["OPENMP"], cards=["P40"], fast_kernels=False)
    words = ["CUDA", "AVX2", "crash", "repacked", "AMX", "AVX-512", "VNNI", "FMA", "F16C", "BF16"]
    assert len(lost) == len(words)
    assert all(word in each.what for word, each in zip(words, lost, strict=True))


def test_features_and_flags_are_read(tmp_path: Path):
    assert features_of("CPU : SSE3 = 1 | AVX512_VNNI = 1 | AMX_INT8 = 0 | ") == {"SSE3", "AVX512_VNNI"}
    (tmp_path / "x86").write_text("processor : 0\nflags\t\t: fpu avx2\nbugs : x\n")
    (tmp_path / "arm").write_text("processor : 0\nFeatures\t: asimd i8mm\n")
    assert cpu_flags(tmp_path / "x86") == {"fpu", "avx2"}
    assert cpu_flags(tmp_path / "arm") == {"asimd", "i8mm"}
    assert cpu_flags(tmp_path / "nothing") == frozenset()


@pytest.mark.skipif(
    not OLD.exists() or "avx512f" not in cpu_flags(), reason="needs llama.cpp without AVX-512 on a CPU that has it"
)
def test_a_real_build_for_an_older_cpu():

    libraries = {"LLAMA_CPP_LIB_PATH": str(OLD), "LD_LIBRARY_PATH": str(OLD)}
    done = subprocess.run(
        [sys.executable, "-m", "spectui", "doctor"],
        env={**os.environ, **libraries},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "1. This llama.cpp is built without AVX-512, which the CPU has" in done.stdout or "AMX" in done.stdout
    assert done.stdout.count("pip install --force-reinstall") == 1, "one command mends all of it"
