"""Records about devices and models. Importing this loads no library."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_KINDS = {"cpu": "CPU", "gpu": "GPU", "igpu": "integrated GPU", "accel": "accelerator"}


class Device(NamedTuple):
    """A ggml device. Sizes in bytes. `kind` is cpu, gpu, igpu or accel; `id` is the PCI address where there is one."""

    name: str
    description: str
    kind: str
    free: int
    total: int
    id: str | None = None

    @property
    def kind_name(self) -> str:
        """Its kind, as a person calls it."""
        return _KINDS[self.kind]

    @property
    def unified(self) -> bool:
        """Is its memory the host's? Then it must not be counted a second time. Apple's GPUs call themselves "gpu"."""
        apple = sys.platform == "darwin" and platform.machine() == "arm64"
        return self.kind == "igpu" or (apple and self.kind == "gpu" and self.name.startswith(("MTL", "Metal")))


def has_own_devices(target: Sequence[Device], draft: Sequence[Device]) -> bool:
    """Whether the draft computes where the target does not; [] is the CPU.

    An RPC server answers one question after the other, so two of its devices count as one. Their description is its address.
    """

    def processors(devices: Sequence[Device]) -> set[str]:
        return {device.description if device.name.startswith("RPC") else device.name for device in devices}

    return bool(draft) and not processors(draft) & processors(target)


class MemoryUse(NamedTuple):
    """Bytes that a model takes on a device: its weights, the cells of its context, and the buffers for computing.

    `mapped`: those of the weights that are a mapped file's, which count as free memory of the host meanwhile.
    """

    device: str
    weights: int = 0
    cells: int = 0
    compute: int = 0
    mapped: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cells + self.compute


def added(uses: Iterable[MemoryUse]) -> tuple[MemoryUse, ...]:
    """The uses of each device added up, in the order in which the devices appear first."""
    sums: dict[str, MemoryUse] = {}
    for use in uses:
        before = sums.get(use.device, MemoryUse(use.device))
        parts = (mine + theirs for mine, theirs in zip(before[1:], use[1:], strict=True))
        sums[use.device] = MemoryUse(use.device, *parts)
    return tuple(use for use in sums.values() if use.total)


class ModelInfo(NamedTuple):
    """Facts about a loaded model. Sizes in bytes."""

    path: str
    description: str
    parameters: int
    bytes: int
    n_vocab: int
    n_ctx: int
    trained_ctx: int
    remark: str = ""
    """What loading found out, in words: how the kernels round, whether a draft copy is used, how another vocabulary is used."""
    translated: bool = False
    """It is a draft of another vocabulary."""
    memory: tuple[MemoryUse, ...] = ()
    """What it takes on each device, as llama.cpp's log says it."""
    thinks: bool | None = None
    """Whether its template has it think where nothing is said of `enable_thinking`; None: the template does not read that."""

    kernels: str = "llama.cpp"
    """What multiplies its weights on the CPU: "llama.cpp", or spectui's kernels with their instruction set, "spectui avx2".

    "" where a server does."""
    kernels_why: str = ""
    """Why they are not spectui's, in a clause."""
    at_once: int = 1
    """Most tokens that one of its passes drafts."""

    @property
    def kernels_in_words(self) -> str:
        """The same in a line, for people."""
        if self.kernels_why:
            return f"{self.kernels}, because {self.kernels_why}"
        shared = self.kernels.startswith("spectui") and len({use.device for use in self.memory}) > 1
        return f"{self.kernels}, for what is on the CPU" if shared else self.kernels

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that compute its layers; () where that is not known. The host keeps some weights in any case."""
        layers = tuple(use.device for use in self.memory if use.cells)
        return layers or tuple(use.device for use in self.memory if use.weights)
