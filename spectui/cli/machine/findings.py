"""What this build of llama.cpp leaves unused on this machine, the dearest first, with the command that mends it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from spectui.llama.devices.records import Device
from spectui.telemetry.gpus import Gpu, find_gpu

FAST_KERNELS = "the fast CPU kernels work"
"""Stands among the features of a build whose kernels passed the self-test."""

_ALONE = "models run on the CPU alone, many times as slowly"

_INTEGRATED_BYTES = 4 * 2**30
"""An AMD GPU with less memory of its own is part of the processor."""


class Facts(NamedTuple):
    """A build of llama.cpp and its machine.

    `features`: of llama.cpp's CPU code, as llama_print_system_info lists them, and `FAST_KERNELS`. `backends`, `devices`:
    ggml's. `flags`: the CPU's, as Linux names them; none if they are unknown. `environment`: the variables that are set.
    `error`: what llama.cpp logged while it looked for devices. `own`: spectui's kernels can be used.
    """

    features: Collection[str]
    backends: Collection[str]
    flags: Collection[str]
    gpus: Sequence[Gpu]
    devices: Sequence[Device] = ()
    environment: Container[str] = ()
    error: str = ""
    own: bool = False


class Finding(NamedTuple):
    """Something that is lost: what, what that costs, and a shell command that mends it, or else `shows` the cause."""

    what: str
    cost: str
    command: str
    shows: bool = False


class _Lack(NamedTuple):
    """A feature that llama.cpp is built without: what it is, its names in the build, the CPU's flags for it (one of each is
    enough; no flag: every CPU has it), what is lost, and whether spectui's kernels make up for it."""

    what: str
    built: tuple[str, ...]
    cpu: tuple[str, ...]
    cost: str
    own: bool = False


_LACKS = (
    _Lack("AVX2", ("AVX2",), ("avx2",), "everything is several times as slow"),
    _Lack("NEON", ("NEON",), ("asimd", "neon"), "everything is several times as slow"),
    _Lack("fast CPU kernels that work (GCC 12 and older break AMX)", (FAST_KERNELS,), (),
          "they are off, and up to half the speed is lost", own=True),
    _Lack("repacked weights", ("REPACK",), (), "Q4_0 and Q4_K weights are multiplied more slowly", own=True),
    _Lack("AMX", ("AMX_INT8",), ("amx_int8",), "passes over several tokens (prompts and drafts) take longer", own=True),
    _Lack("the int8 matrix instructions", ("MATMUL_INT8",), ("i8mm",), "passes over several tokens take longer"),
    _Lack("AVX-512", ("AVX512",), ("avx512f",), "passes over several tokens take longer", own=True),
    _Lack("VNNI", ("AVX512_VNNI", "AVX_VNNI"), ("avx512_vnni", "avx_vnni"), "quantised weights are slower", own=True),
    _Lack("the dot product instructions", ("DOTPROD",), ("asimddp",), "quantised weights are multiplied more slowly"),
    _Lack("FMA", ("FMA", "ARM_FMA"), ("fma",), "every pass takes longer"),
    _Lack("OpenMP", ("OPENMP", "ACCELERATE"), (), "its threads wait longer for each other"),
)  # fmt: skip
"""The dearest loss comes first."""

_BACKENDS = {
    "CUDA": ("CUDA", "nvidia-smi", ("CUDA_VISIBLE_DEVICES",)),
    "HIP": ("HIP", "rocminfo", ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")),
    "VULKAN": ("Vulkan", "vulkaninfo --summary", ("GGML_VK_VISIBLE_DEVICES",)),
    "SYCL": ("SYCL", "sycl-ls", ("ONEAPI_DEVICE_SELECTOR",)),
}
"""What a backend is called, the command that shows whether its driver works, and the variables that hide its GPUs."""

_MAKERS = {"NVIDIA": ("CUDA", "VULKAN"), "AMD": ("VULKAN", "HIP"), "Intel": ("VULKAN", "SYCL")}
"""Maker of a GPU -> the backends that use it. The first is the easiest to build."""


def findings(facts: Facts, rebuild: Callable[..., str]) -> Iterator[Finding]:
    """What is lost, the dearest first. `rebuild(*backends)`: the command that adds backends to the build."""
    yield from _unused_gpus(facts, rebuild)
    for lack in _LACKS:
        if (not lack.cpu or set(lack.cpu) & set(facts.flags)) and not set(lack.built) & set(facts.features):
            where = ", where spectui's kernels are not used" if lack.own and facts.own else ""
            yield Finding(f"This llama.cpp is built without {lack.what}", f"{lack.cost}{where}", rebuild())


def _unused_gpus(facts: Facts, rebuild: Callable[..., str]) -> Iterator[Finding]:
    """GPUs that the build has no backend for, and backends that find no GPU."""
    devices = [device for device in facts.devices if device.kind in ("gpu", "igpu")]
    told = False
    for maker, usable in _MAKERS.items():
        cards = [gpu for gpu in facts.gpus if gpu.maker == maker and not _integrated(gpu)]
        there = f", and there is {', '.join(dict.fromkeys(card.name or f'an {maker} GPU' for card in cards))}"
        built = [name for name in usable if name in facts.backends]
        if cards and not built:
            told = True
            what = f"This llama.cpp is built without {_BACKENDS[usable[0]][0]}{there}"
            yield Finding(what, _ALONE, rebuild(usable[0]))
        elif cards and not any(device.id is None or find_gpu(cards, device.id) for device in devices):
            told = True
            yield _no_device(built, there, facts)
    built = [name for name in _BACKENDS if name in facts.backends]
    if built and not devices and not told:
        yield _no_device(built, "", facts)


def _no_device(built: Sequence[str], there: str, facts: Facts) -> Finding:
    """A backend is built in, and finds no GPU: its driver does not start, or the environment hides the GPU."""
    names, shows, hiding = zip(*(_BACKENDS[key] for key in built), strict=True)
    hides = next((name for each in hiding for name in each if name in facts.environment), None)
    cause = f"{hides} may hide it" if hides else facts.error or "its driver may not start"
    what = f"This llama.cpp is built with {' and '.join(names)}{there}, but it finds no GPU ({cause})"
    return Finding(what, _ALONE, f"unset {hides}" if hides else shows[0], shows=not hides)


def _integrated(gpu: Gpu) -> bool:
    """Is it a part of the processor? Then it reads weights as slowly as the CPU. Intel's always has this address."""
    small = gpu.memory_total is not None and gpu.memory_total < _INTEGRATED_BYTES
    return (gpu.maker == "Intel" and gpu.pci == "0000:00:02.0") or (gpu.maker == "AMD" and small)


def advice(lost: Sequence[Finding], known: bool) -> Iterator[str]:
    """The lines that say what is lost and what to do. `known`: are the CPU's features known?"""
    for number, finding in enumerate(lost, 1):
        yield f"{number}. {finding.what}: {finding.cost}."
    for command, shows in dict.fromkeys((finding.command, finding.shows) for finding in lost):
        numbers = ", ".join(str(number) for number, finding in enumerate(lost, 1) if finding.command == command)
        yield f"\nThis {'shows the cause of' if shows else 'mends'} {numbers}:\n{command}"
    if not known:
        yield ("\n" if lost else "") + (
            "The CPU's features and the GPUs of AMD and Intel are not known here, because only Linux lists them. What this "
            "build leaves unused of those was not looked for."
        )
    elif not lost:
        yield "Nothing to do: this build uses what the machine has, and its fast kernels work."


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The CPU's features as Linux names them; none elsewhere."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    line = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return frozenset(line[1].split()) if line else frozenset()
