"""`spectui doctor`: what a build of llama.cpp leaves unused on the machine, the dearest first."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from spectui.cli import root
from spectui.cli.machine.dear_passes import dear_passes
from spectui.cli.machine.findings import Finding, advice, cpu_flags, findings
from spectui.engine.costs.files import TargetCosts
from spectui.llama.build import features_of
from spectui.llama.devices.records import Device
from spectui.llama.selftest import SelfTest
from spectui.telemetry.gpus import Gpu
from tests.helpers.rpc_server import LIBRARIES
from tests.helpers.smollm2 import alone, opened

OLD, VULKAN = LIBRARIES.with_name("bin-avx2"), LIBRARIES.with_name("bin-vulkan")
X86 = {
    "SSE3", "AVX", "AVX2", "F16C", "FMA", "BMI2", "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16", "AMX_INT8",
    "LLAMAFILE", "OPENMP", "REPACK",
}  # fmt: skip
FLAGS = frozenset({"avx", "avx2", "f16c", "fma", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8"})


RTX = Gpu(0, "RTX 3090", "0000:c1:00.0", maker="NVIDIA")
P40 = Gpu(1, "P40", "0000:c2:00.0", maker="NVIDIA")
RADEON = Gpu(0, "Radeon", "0000:03:00.0", memory_total=16 << 30, maker="AMD")
ARC = Gpu(0, "Intel GPU", "0000:04:00.0", maker="Intel")
CUDA0 = Device("CUDA0", "RTX 3090", "gpu", 1, 1, RTX.pci)


@pytest.fixture(autouse=True)
def own_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor judges the models whose costs are saved: not those that other tests have loaded."""
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path / "state"))


def rebuild(*backends: str) -> str:
    return " ".join(("rebuild", *backends))


def found(
    features=X86,
    backends=("CPU",),
    flags=FLAGS,
    gpus=(),
    fast_kernels=True,
    devices=(),
    environment=(),
    error="",
    own=False,
) -> list[Finding]:
    return list(findings(features, backends, flags, gpus, fast_kernels, rebuild, devices, environment, error, own))


def without(*names: str) -> set[str]:
    return X86 - set(names)


def test_a_build_that_uses_all():
    assert found() == []
    assert found(gpus=[RTX], backends=["CPU", "CUDA"], devices=[CUDA0]) == []
    assert found(gpus=[RTX, P40], backends=["CPU", "CUDA"], devices=[CUDA0]) == [], "a card that a person hides"
    assert found(gpus=[RTX], backends=["CPU", "VULKAN"], devices=[CUDA0._replace(name="Vulkan0", id=None)]) == []
    assert found(features=X86, flags=()) == [], "where the CPU's flags are unknown"
    assert found(features=without("AMX_INT8"), flags=["avx2", "fma"]) == [], "what the CPU lacks is not lost"


def test_a_card_that_pips_default_build_does_not_use():
    (only,) = found(gpus=[RTX, RTX, P40])
    assert only.sentence.startswith(
        "This llama.cpp is built without CUDA, and there is RTX 3090, P40: models run on the CPU"
    )
    assert only.command == "rebuild CUDA"


@pytest.mark.parametrize("card", [RADEON, ARC])
def test_cards_of_other_makers(card: Gpu):
    (only,) = found(gpus=[card])
    assert only.sentence.startswith(f"This llama.cpp is built without Vulkan, and there is {card.name}: models run on")
    assert only.command == "rebuild VULKAN"
    assert found(gpus=[card], backends=["CPU", "CUDA"], devices=[CUDA0])[0].what == only.what, "CUDA does not use it"
    device = Device("Vulkan0", "a card", "gpu", 1, 1, card.pci)
    assert found(gpus=[card], backends=["CPU", "VULKAN"], devices=[device]) == []


def test_a_gpu_that_is_part_of_the_processor_is_no_loss():
    assert found(gpus=[replace(ARC, pci="0000:00:02.0")]) == []
    assert found(gpus=[replace(RADEON, memory_total=512 << 20)]) == []
    assert found(gpus=[Gpu(0, "GPU", "0000:05:00.0")]) == [], "such as a server's for its console"


@pytest.mark.parametrize("gpus", [[RTX], []])
def test_a_backend_whose_driver_does_not_start(gpus: list[Gpu]):
    """NVML knows the card, or does not."""
    (only,) = found(gpus=gpus, backends=["CPU", "CUDA"], error="failed to initialize CUDA: driver too old")
    there = ", and there is RTX 3090" if gpus else ""
    assert only.what == (
        f"This llama.cpp is built with CUDA{there}, but it finds no GPU (failed to initialize CUDA: driver too old)"
    )
    assert list(advice([only], known=True))[1] == "\nThis shows the cause of 1:\nnvidia-smi"
    (only,) = found(gpus=gpus, backends=["CPU", "CUDA"])
    assert "(its driver may not start)" in only.what


def test_a_backend_whose_gpu_the_environment_hides():
    (only,) = found(gpus=[RTX], backends=["CPU", "CUDA"], environment={"CUDA_VISIBLE_DEVICES": ""})
    assert "CUDA_VISIBLE_DEVICES may hide it" in only.what
    assert list(advice([only], known=True))[1] == "\nThis mends 1:\nunset CUDA_VISIBLE_DEVICES"
    (only,) = found(gpus=[RTX], backends=["CPU", "CUDA"], environment={"GGML_VK_VISIBLE_DEVICES": "0"})
    assert "VISIBLE_DEVICES" not in only.what, "of another backend"


def test_where_the_cpus_features_are_unknown_nobody_is_told_that_all_is_well():
    (line,) = advice([], known=False)
    assert line.startswith("The CPU's features and the GPUs of AMD and Intel are not known here")
    assert next(advice([], known=True)).startswith("Nothing to do")
    assert list(advice(found(gpus=[RTX]), known=False))[-1] == line


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


def test_with_spectuis_kernels_less_is_lost():
    lost = found(features=without("AMX_INT8", "AVX512", "FMA"), fast_kernels=False, own=True)
    assert [each.cost.endswith(", where spectui's kernels are not used") for each in lost] == [True, True, True, False]
    assert not [each for each in found(features=["OPENMP"], fast_kernels=False) if "spectui" in each.cost]


def test_the_dearest_is_first():
    lost = found(features=["OPENMP"], gpus=[P40], fast_kernels=False)
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
    monkeypatch.setattr("spectui.llama.rebuild.which", lambda name: None if name == "nvcc" else f"/usr/bin/{name}")
    done = CliRunner().invoke(root, ["doctor"])
    assert done.exit_code == 1
    assert "1. This llama.cpp is built without CUDA, and there is RTX 3090: models run on the CPU alone" in done.output
    assert re.search(
        r"\nThis mends 1:\n.*CMAKE_ARGS='[^']*-DGGML_CUDA=on[^']*' .* install .*llama-cpp-python==", done.output
    )
    assert "\nFirst install NVIDIA's CUDA toolkit, or add it to the PATH: nvcc is not there.\n" in done.output
    monkeypatch.setattr("spectui.telemetry.gpus.Nvml.read", lambda nvml: ())
    monkeypatch.setattr("spectui.cli.machine.findings._LACKING", ())
    monkeypatch.setattr("spectui.llama.selftest.run", lambda force: SelfTest(extra_buffers=True, ok=True))
    monkeypatch.setattr("spectui.llama.library.system_info", lambda: "CPU : REPACK = 1 | OPENMP = 1")
    done = CliRunner().invoke(root, ["doctor"])
    assert done.exit_code == 0
    assert done.output.endswith("Nothing to do: this build uses what the machine has, and its fast kernels work.\n")


DEAR = {1: 0.05, 2: 0.14, 4: 0.2, 8: 0.2}


def test_models_whose_passes_over_two_tokens_are_dearer_than_two_passes():
    cheap = {1: 0.05, 2: 0.108}
    assert list(dear_passes({"a.gguf": TargetCosts(cheap), "b.gguf": TargetCosts({1: 0.05})})) == []
    found = list(dear_passes({"a.gguf": TargetCosts(cheap), "models/b c.gguf": TargetCosts(DEAR)}))
    assert found == [
        "b c.gguf on this machine: a pass over two tokens takes 2.8 times as long as one over one. Even at no cost for "
        "drafting, drafts pay where more than 79% of their tokens are accepted.",
        "Another type of weights may have cheaper passes; this shows what each size costs:\n"
        "spectui costs -m 'models/b c.gguf'",
    ]
    (line, _) = dear_passes({"a.gguf": TargetCosts({1: 0.05, 2: 0.14})})
    assert line.endswith("Even at no cost for drafting, no draft pays.")


def test_the_program_says_so_of_models_that_were_loaded(monkeypatch: pytest.MonkeyPatch):
    """A real pair is loaded, whose costs are typed in."""
    monkeypatch.setattr("spectui.engine.costs.measuring._measure_target", lambda *_: TargetCosts(dict(DEAR)))
    session, _ = opened(replace(alone(), no_profile="off"))
    session.close()
    lines = CliRunner().invoke(root, ["doctor"]).output.splitlines()
    name = Path(alone().model or "").name
    assert f"{name} on this machine: a pass over two tokens takes 2.8 times as long as one over one." in "\n".join(
        lines
    )
    assert lines[-1] == shlex.join(["spectui", "costs", "-m", os.path.abspath(alone().model or "")])


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
    assert "1. This llama.cpp is built without AVX-512, which the CPU has" in done.stdout or "AMX" in done.stdout
    assert done.stdout.count("pip install --force-reinstall") == 1, "one command mends all of it"
