"""`spectui doctor`: what a build of llama.cpp leaves unused on the machine, the dearest first."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spectui.cli import root
from spectui.cli.machine.findings import FAST_KERNELS, Facts, Finding, advice, cpu_flags, findings
from spectui.llama.build import features_of
from spectui.llama.devices.records import Device
from spectui.llama.selftest import SelfTest
from spectui.telemetry.gpus import Gpu
from tests.helpers.rpc_server import LIBRARIES

OLD, VULKAN = LIBRARIES.with_name("bin-avx2"), LIBRARIES.with_name("bin-vulkan")
X86 = {
    "SSE3", "AVX", "AVX2", "F16C", "FMA", "BMI2", "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16", "AMX_INT8",
    "LLAMAFILE", "OPENMP", "REPACK", FAST_KERNELS,
}  # fmt: skip
ARM = ("NEON", "ARM_FMA", "OPENMP", "REPACK", FAST_KERNELS)
FLAGS = frozenset({"avx", "avx2", "f16c", "fma", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8"})


RTX = Gpu(0, "RTX 3090", "0000:c1:00.0", maker="NVIDIA")
P40 = Gpu(1, "P40", "0000:c2:00.0", maker="NVIDIA")
RADEON = Gpu(0, "Radeon", "0000:03:00.0", memory_total=16 << 30, maker="AMD")
ARC = Gpu(0, "Intel GPU", "0000:04:00.0", maker="Intel")
CUDA0 = Device("CUDA0", "RTX 3090", "gpu", 1, 1, RTX.pci)


def lost(features=X86, backends=("CPU",), flags=FLAGS, gpus=(), **others) -> list[Finding]:
    facts = Facts(features, backends, flags, gpus, **others)
    return list(findings(facts, lambda *backends: " ".join(("rebuild", *backends))))


def without(*names: str) -> set[str]:
    return X86 - set(names)


@pytest.mark.parametrize(
    "machine",
    [
        {},
        {"gpus": [RTX], "backends": ["CPU", "CUDA"], "devices": [CUDA0]},
        {"gpus": [RTX, P40], "backends": ["CPU", "CUDA"], "devices": [CUDA0]},  # a card that a person hides
        {"gpus": [RTX], "backends": ["CPU", "VULKAN"], "devices": [CUDA0._replace(name="Vulkan0", id=None)]},
        {"gpus": [RADEON], "backends": ["CPU", "VULKAN"], "devices": [CUDA0._replace(id=RADEON.pci)]},
        {"gpus": [ARC], "backends": ["CPU", "VULKAN"], "devices": [CUDA0._replace(id=ARC.pci)]},
        {"features": without("AMX_INT8"), "flags": ["avx2", "fma"]},  # what the CPU lacks is not lost
        {"features": without("AMX_INT8"), "flags": ()},  # where the CPU's flags are unknown
        {"features": without("AVX512_VNNI") | {"AVX_VNNI"}},  # one kind of VNNI is enough
        {"gpus": [replace(ARC, pci="0000:00:02.0")]},  # a part of the processor
        {"gpus": [replace(RADEON, memory_total=512 << 20)]},
        {"gpus": [Gpu(0, "GPU", "0000:05:00.0")]},  # such as a server's for its console
        {"features": [*ARM, "MATMUL_INT8", "DOTPROD"], "flags": ["fp", "asimd", "asimddp", "i8mm"]},
    ],
)
def test_a_build_that_uses_all(machine: dict[str, Any]):
    assert lost(**machine) == []


NO_GPU = "it finds no GPU"
CUDA = ["CPU", "CUDA"]


@pytest.mark.parametrize(
    ("machine", "what", "command"),
    [
        ({"gpus": [RTX, RTX, P40]}, "without CUDA, and there is RTX 3090, P40", "rebuild CUDA"),
        ({"gpus": [RADEON]}, "without Vulkan, and there is Radeon", "rebuild VULKAN"),
        ({"gpus": [ARC], "backends": CUDA, "devices": [CUDA0]}, "without Vulkan, and there is Intel GPU", "rebuild VULKAN"),
        ({"gpus": [RTX], "backends": CUDA, "error": "driver too old"},
         f"with CUDA, and there is RTX 3090, but {NO_GPU} (driver too old)", "nvidia-smi"),
        ({"backends": CUDA, "error": "driver too old"}, f"with CUDA, but {NO_GPU} (driver too old)", "nvidia-smi"),
        ({"backends": CUDA}, f"with CUDA, but {NO_GPU} (its driver may not start)", "nvidia-smi"),
        ({"backends": CUDA, "environment": {"CUDA_VISIBLE_DEVICES": ""}},
         f"with CUDA, but {NO_GPU} (CUDA_VISIBLE_DEVICES may hide it)", "unset CUDA_VISIBLE_DEVICES"),
        ({"backends": CUDA, "environment": {"GGML_VK_VISIBLE_DEVICES": "0"}},
         f"with CUDA, but {NO_GPU} (its driver may not start)", "nvidia-smi"),
        *(({"features": without(feature)}, f"without {name}", "rebuild") for feature, name in (
            ("AVX2", "AVX2"), ("AMX_INT8", "AMX"), ("AVX512", "AVX-512"), ("AVX512_VNNI", "VNNI"), ("FMA", "FMA"),
            ("REPACK", "repacked weights"), ("OPENMP", "OpenMP"))),
        ({"features": [*ARM, "DOTPROD"], "flags": ["asimd", "asimddp", "i8mm"]},
         "without the int8 matrix instructions", "rebuild"),
        ({"features": [*ARM, "MATMUL_INT8"], "flags": ["asimd", "asimddp", "i8mm"]},
         "without the dot product instructions", "rebuild"),
    ],
)  # fmt: skip
def test_what_is_lost_and_what_mends_it_or_shows_its_cause(machine: dict[str, Any], what: str, command: str):
    (only,) = lost(**machine)
    assert only.what.startswith(f"This llama.cpp is built {what}")
    assert only.command == command
    does = "mends" if command.startswith(("rebuild", "unset")) else "shows the cause of"
    assert list(advice([only], known=True))[1] == f"\nThis {does} 1:\n{command}"


def test_where_the_cpus_features_are_unknown_nobody_is_told_that_all_is_well():
    (line,) = advice([], known=False)
    assert line.startswith("The CPU's features and the GPUs of AMD and Intel are not known here")
    assert next(advice([], known=True)).startswith("Nothing to do")
    assert list(advice(lost(gpus=[RTX]), known=False))[-1] == f"\n{line}"


def test_with_spectuis_kernels_less_is_lost():
    found = lost(features=without(FAST_KERNELS, "AMX_INT8", "AVX512", "FMA"), own=True)
    assert [each.cost.endswith(", where spectui's kernels are not used") for each in found] == [True, True, True, False]
    assert not [finding for finding in lost(features=["OPENMP"]) if "spectui" in finding.cost]


def test_the_dearest_is_first():
    found = lost(features=["OPENMP"], gpus=[P40])
    words = ["CUDA", "AVX2", "kernels", "repacked", "AMX", "AVX-512", "VNNI", "FMA"]
    assert [word in finding.what for word, finding in zip(words, found, strict=True)] == [True] * len(words)


def test_features_and_flags_are_read(tmp_path: Path):
    assert features_of("CPU : SSE3 = 1 | AVX512_VNNI = 1 | AMX_INT8 = 0 | ") == {"SSE3", "AVX512_VNNI"}
    (tmp_path / "x86").write_text("processor : 0\nflags\t\t: fpu avx2\nbugs : x\n")
    (tmp_path / "arm").write_text("processor : 0\nFeatures\t: asimd i8mm\n")
    assert cpu_flags(tmp_path / "x86") == {"fpu", "avx2"}
    assert cpu_flags(tmp_path / "arm") == {"asimd", "i8mm"}
    assert cpu_flags(tmp_path / "nothing") == frozenset()


def doctor(libraries: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = {"LLAMA_CPP_LIB_PATH": str(libraries), "LD_LIBRARY_PATH": str(libraries)}
    kept = {name: value for name, value in os.environ.items() if "VISIBLE_DEVICES" not in name}
    return subprocess.run(
        [sys.executable, "-m", "spectui", "doctor"],
        env={**kept, **paths, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_names_the_command_and_ends_with_1(monkeypatch: pytest.MonkeyPatch):
    """This build has no CUDA. Without such a card nothing of that is said."""
    monkeypatch.setattr("spectui.telemetry.gpus.Nvml.read", lambda nvml: (RTX,))
    done = CliRunner().invoke(root, ["doctor"])
    assert done.exit_code == 1
    assert "1. This llama.cpp is built without CUDA, and there is RTX 3090: models run on the CPU alone" in done.output
    as_json = json.loads(CliRunner().invoke(root, ["doctor", "--json"]).output)
    assert as_json["findings"][0]["what"] == "This llama.cpp is built without CUDA, and there is RTX 3090"
    for name in ("spectui", "llama-cpp-python", "CPU", "threads", "devices", "spectui's kernels"):
        assert as_json[name] and as_json[name] in done.output
    assert re.search(r"\nThis mends 1:\n.*CMAKE_ARGS='[^']*-DGGML_CUDA=on[^']*' .* install .*llama-cpp-python==", done.output)
    monkeypatch.setattr("spectui.telemetry.gpus.Nvml.read", lambda nvml: ())
    monkeypatch.setattr("spectui.cli.machine.findings._LACKS", ())
    monkeypatch.setattr("spectui.llama.selftest.run", lambda force: SelfTest(extra_buffers=True))
    monkeypatch.setattr("spectui.llama.library.system_info", lambda: "CPU : REPACK = 1 | OPENMP = 1")
    monkeypatch.setattr("spectui.kernels.build.left_out", lambda: "amx (c++: error: unknown\x1b)")
    done = CliRunner().invoke(root, ["doctor"])
    assert done.exit_code == 0
    assert re.search(r"^spectui's kernels: .*; built without amx \(c\+\+: error: unknown\?\)$", done.output, re.MULTILINE)
    assert done.output.endswith("Nothing to do: this build uses what the machine has, and its fast kernels work.\n")


@pytest.mark.skipif(not VULKAN.exists(), reason=f"llama.cpp is not built for Vulkan ({VULKAN})")
def test_a_real_build_whose_backend_finds_no_gpu():
    """ggml leaves a software driver out unless it is asked for."""
    sentence = "1. This llama.cpp is built with Vulkan, but it finds no GPU ("
    done = doctor(VULKAN)
    assert done.returncode == 1
    assert sentence in done.stdout, done.stdout + done.stderr
    assert "This shows the cause of 1:\nvulkaninfo --summary" in done.stdout
    asked = doctor(VULKAN, GGML_VK_VISIBLE_DEVICES="0", GGML_VK_DISABLE_F16="1")
    assert sentence not in asked.stdout
    assert re.search(r"^devices +Vulkan0, CPU$", asked.stdout, re.MULTILINE), asked.stdout


@pytest.mark.skipif(
    not OLD.exists() or "avx512f" not in cpu_flags(), reason="needs llama.cpp without AVX-512 on a CPU that has it"
)
def test_a_real_build_for_an_older_cpu():
    done = doctor(OLD)
    assert done.returncode == 1
    assert "1. This llama.cpp is built without AVX-512" in done.stdout or "AMX" in done.stdout
    assert done.stdout.count("pip install --force-reinstall") == 1, "one command mends all of it"
