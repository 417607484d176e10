"""What this build of llama.cpp leaves unused on this machine, the dearest first, with the command that mends it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from spectui.llama.devices.records import Device
from spectui.llama.rebuild import needed_first
from spectui.telemetry.gpus import Gpu, find_gpu

_ALONE = "models run on the CPU alone, many times as slowly"


class Finding(NamedTuple):
    """Something that is lost: what, what that costs, and a shell command that mends it, or else `shows` the cause."""

    what: str
    cost: str
    command: str
    shows: bool = False

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

_MULTIPLY = ("AMX", "AVX-512", "VNNI")
"""Those without which spectui's kernels are as fast."""


_BACKENDS = {"NVIDIA": ("CUDA", "VULKAN"), "AMD": ("VULKAN", "HIP"), "Intel": ("VULKAN", "SYCL")}
"""Maker of a GPU -> the backends that use it. The first is the easiest to build."""

_SHOWS = {"CUDA": "nvidia-smi", "HIP": "rocminfo", "VULKAN": "vulkaninfo --summary", "SYCL": "sycl-ls"}
"""Backend -> the command that shows whether its driver works."""

_HIDES = {
    "CUDA": ("CUDA_VISIBLE_DEVICES",), "HIP": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    "VULKAN": ("GGML_VK_VISIBLE_DEVICES",), "SYCL": ("ONEAPI_DEVICE_SELECTOR",),
}  # fmt: skip
"""Backend -> the environment variables that choose among its GPUs."""

_INTEGRATED_BYTES = 4 * 2**30
"""An AMD GPU with less memory of its own is part of the processor."""


def findings(
    features: Collection[str],
    backends: Collection[str],
    flags: Collection[str],
    gpus: Sequence[Gpu],
    fast_kernels: bool,
    rebuild: Callable[..., str],
    devices: Sequence[Device] = (),
    environment: Container[str] = (),
    error: str = "",
    own: bool = False,
) -> Iterator[Finding]:
    """What is lost, the dearest first.

    `features`: of llama.cpp's CPU code, as llama_print_system_info lists them. `backends`: ggml's. `flags`: the CPU's, as Linux
    names them; none if they are unknown. `gpus`: those of the machine. `fast_kernels`: they passed the self-test.
    `rebuild(*backends)`: the command that adds backends to the build. `devices`: ggml's. `environment`: the
    variables that are set. `error`: what llama.cpp logged while it looked for devices. `own`: spectui's kernels can be used.
    """
    where = ", where spectui's kernels are not used" if own else ""
    yield from _unused_gpus(backends, gpus, rebuild, devices, environment, error)
    for needed, known, name, cost in _LACKING[:2]:
        if set(known) & set(flags) and not set(needed) & set(features):
            yield Finding(f"This llama.cpp is built without {name}, which the CPU has", cost, rebuild())
    if not fast_kernels:
        yield Finding(
            "The fast CPU kernels of this llama.cpp crash (compilers such as GCC 12 break AMX), so they are off",
            f"up to half the speed is lost{where}", rebuild(),
        )  # fmt: skip
    if "REPACK" not in features:
        yield Finding(
            "This llama.cpp is built without repacked weights",
            f"Q4_0 and Q4_K weights are multiplied more slowly, drafts' copies above all{where}", rebuild(),
        )  # fmt: skip
    for needed, known, name, cost in _LACKING[2:]:
        if set(known) & set(flags) and not set(needed) & set(features):
            cost += where if name in _MULTIPLY else ""
            yield Finding(f"This llama.cpp is built without {name}, which the CPU has", cost, rebuild())
    if "OPENMP" not in features and "ACCELERATE" not in features:
        yield Finding("This llama.cpp is built without OpenMP", "its threads wait longer for each other", rebuild())


def _unused_gpus(
    backends: Collection[str],
    gpus: Sequence[Gpu],
    rebuild: Callable[..., str],
    devices: Sequence[Device],
    environment: Container[str],
    error: str,
) -> Iterator[Finding]:
    """GPUs that the build has no backend for, and backends that find no GPU."""
    found = [device for device in devices if device.kind in ("gpu", "igpu")]
    lacking = False
    for maker, usable in _BACKENDS.items():
        cards = [gpu for gpu in gpus if gpu.maker == maker and not _integrated(gpu)]
        names = ", ".join(dict.fromkeys(card.name or f"an {maker} GPU" for card in cards))
        built = [name for name in usable if name in backends]
        if cards and not built:
            lacking = True
            yield Finding(
                f"This llama.cpp is built without {_called(usable[0])}, and there is {names}",
                _ALONE,
                rebuild(usable[0]),
            )
        elif cards and not any(device.id is None or find_gpu(cards, device.id) for device in found):
            lacking = True
            yield _no_device(built, f", and there is {names}", environment, error)
    built = [name for name in _SHOWS if name in backends]
    if built and not found and not lacking:
        yield _no_device(built, "", environment, error)


def _no_device(built: Sequence[str], there: str, environment: Container[str], error: str) -> Finding:
    """A backend is built in, and finds no GPU: its driver does not start, or the environment hides the GPU."""
    hides = next((name for backend in built for name in _HIDES[backend] if name in environment), None)
    cause = f"{hides} may hide it" if hides else error or "its driver may not start"
    what = f"This llama.cpp is built with {' and '.join(map(_called, built))}{there}, but it finds no GPU ({cause})"
    return Finding(what, _ALONE, f"unset {hides}" if hides else _SHOWS[built[0]], shows=not hides)


def _called(backend: str) -> str:
    return {"VULKAN": "Vulkan"}.get(backend, backend)


def _integrated(gpu: Gpu) -> bool:
    """Is it a part of the processor? Then it reads weights as slowly as the CPU. Intel's always has this address."""
    small = gpu.memory_total is not None and gpu.memory_total < _INTEGRATED_BYTES
    return (gpu.maker == "Intel" and gpu.pci == "0000:00:02.0") or (gpu.maker == "AMD" and small)


def advice(found: Sequence[Finding], known: bool) -> Iterator[str]:
    """The lines that say what was found and what to do. `known`: are the CPU's features known?"""
    for number, finding in enumerate(found, 1):
        yield f"{number}. {finding.sentence}"
    for command, shows in dict.fromkeys((finding.command, finding.shows) for finding in found):
        numbers = ", ".join(str(number) for number, finding in enumerate(found, 1) if finding.command == command)
        yield f"\nThis {'shows the cause of' if shows else 'mends'} {numbers}:\n{command}"
        if first := needed_first(command):
            yield first
    if found and not known:
        yield ""
    if not known:
        yield (
            "The CPU's features and the GPUs of AMD and Intel are not known here, because only Linux lists them. What this "
            "build leaves unused of those was not looked for."
        )
    elif not found:
        yield "Nothing to do: this build uses what the machine has, and its fast kernels work."


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The CPU's features as Linux names them; none elsewhere."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return frozenset(found.group(1).split()) if found else frozenset()


def threads_in_words(threads: int, allowed: int, cpus: int | None, quota: float | None) -> str:
    """How many threads compute, and what bounds them: the CPUs that this process may use, and its quota of their time."""
    bound = "no quota" if quota is None else f"a quota of {quota:.3g} cores' time"
    return f"{threads}, because of {allowed} of {cpus or allowed} logical CPUs and {bound}"
