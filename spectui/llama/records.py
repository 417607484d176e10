"""Records about devices and models. Importing this loads no library."""

from __future__ import annotations

from typing import NamedTuple


class Device(NamedTuple):
    """A ggml device. Sizes in bytes. `kind` is cpu, gpu, igpu or accel; `id` is the PCI address where there is one."""

    name: str
    description: str
    kind: str
    free: int
    total: int
    id: str | None = None


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
