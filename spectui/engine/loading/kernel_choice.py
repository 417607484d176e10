"""Which kernels multiply a model's weights on the CPU: spectui's wherever they can be used; a clause says why not."""

from __future__ import annotations

from dataclasses import replace

from spectui.engine.loading import models
from spectui.engine.loading.placement import Placed, resolve
from spectui.kernels.plugin import Kernels, Unusable
from spectui.knobs import Setup
from spectui.llama.cpu import plugin
from spectui.llama.cpu.quota import free_memory
from spectui.llama.selftest import SelfTest

CRASH = "they crash on this machine, or their library is damaged: install spectui again"

OFFLOADED = "the model's layers are on a GPU or a server"

_BESIDE = 2**28
"""Bytes that a model needs beside its weights and cells."""


def available(setup: Setup, tested: SelfTest) -> Kernels:
    """The instruction set of spectui's kernels, if they may be used at all. `tested`: what the self-test found."""
    resolved = resolve(setup)
    if not any(placed.on_cpu or placed.of_cpu for placed in (resolved.target, resolved.draft) if placed is not None):
        return Kernels(why=OFFLOADED)  # then ggml does not get to know them
    if setup.kernels == "llama.cpp":
        return Kernels(why="--kernels llama.cpp")
    if setup.no_repack == "on":
        return Kernels(why="--no-repack keeps the weights as they are in the file")
    if not tested.own:
        return Kernels(why=CRASH)
    try:
        return Kernels(plugin.load().set)
    except Unusable as error:
        return Kernels(why=str(error))


def without_crashes(setup: Setup, tested: SelfTest) -> Setup:
    """The set-up without llama.cpp's fast kernels where they crash, as the self-test found."""
    return setup if tested.extra_buffers else replace(setup, no_repack="on")


def for_model(placed: Placed, own: Kernels, n_ctx: int, freed: int = 0) -> Kernels:
    """The kernels of a model that is loaded next. `own`: those that are available.

    `n_ctx`: tokens of its context. `freed`: bytes of the host's memory that will be free before it is loaded.
    """
    if not own.set:
        return own
    matrices = placed.of_cpu
    if not (placed.on_cpu or matrices):
        return Kernels(why=OFFLOADED)
    library = plugin.load()
    sizes = [library.bytes(tensor.kind, *tensor.matrices) for tensor in matrices]
    if not (repacked := sum(sizes)):
        return Kernels(why="they have none for the types of the model's weights")
    beside = repacked if placed.reads_host else 0
    read = sum(tensor.size for tensor, size in zip(matrices, sizes, strict=True) if size) if beside else 0
    states = max(0, placed.setup.state_memory) << 20  # of conversations
    room = free_memory() + freed - repacked - read - states - _BESIDE  # the mapped file counts as free
    if room < 0 or (not placed.heads and room < models.bytes_of_cells(placed, n_ctx)):
        return Kernels(why=models.TOO_LITTLE_MEMORY)
    # A draft cannot change the text, so it may take the likeliest tokens for others now and then.
    signs = placed.role == "draft" and placed.setup.requantise_draft == "auto" and not beside
    return own._replace(signs=signs, beside=beside)
