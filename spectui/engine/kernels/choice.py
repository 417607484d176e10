"""Decide for each model whether spectui's kernels multiply its weights, and say in a clause why not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from spectui.engine.costs.files import Key
from spectui.engine.kernels.trial import ROWS, Trial, stored, trial
from spectui.engine.loading import keys, placement
from spectui.errors import SpectuiError
from spectui.gguf_files.check import matrices_of, values_of
from spectui.gguf_files.metadata import Matrices, architecture_of
from spectui.kernels.plugin import LLAMA_CPP, Kernels, Unusable, identity
from spectui.knobs import Setup
from spectui.llama.cpu import plugin
from spectui.llama.devices.context_memory import bytes_of_cells
from spectui.llama.model import LoadCancelled
from spectui.llama.selftest import SelfTest

_GAIN = 0.95
"""Share of llama.cpp's time, over all sizes of passes, that the kernels must not exceed: they take memory, and load longer."""

_LOSS = 1.05
"""The same for passes over one token alone, which most are where drafts do not pay."""

CRASH = "they crash on this machine, or their library is damaged: install spectui again"

OFFLOADED = "the model's layers are on a GPU or a server"

_BESIDE = 2**28
"""Bytes that a model needs beside its weights and cells."""


class KernelChoice:
    """The choice for each model of a set-up. It says once why spectui's kernels are not used, if they are wanted or crash."""

    def __init__(self, notice: Callable[[str], None], measuring: Callable[[float], None]) -> None:
        """`measuring`: called with 0..1 while both kernels are measured; may raise LoadCancelled."""
        self._notice, self._measuring = notice, measuring
        self._said: set[str] = set()
        self._setup = Setup()
        self._own = LLAMA_CPP

    def begin(self, setup: Setup, own: Kernels) -> None:
        """Models of this set-up are loaded next. `own`: those of spectui that are available."""
        self._setup, self._own = setup, own

    def of(self, role: str, path: str) -> Kernels:
        """The kernels for the model in this file, which is loaded next."""
        found = for_model(self._setup, role, path, self._own, measuring=self._measuring)
        wanted = self._setup.kernels == "spectui" or found.why == CRASH
        if wanted and not found.set and found.why not in self._said:
            self._said.add(found.why)
            self._notice(f"spectui's kernels are not used here: {found.why}.")
        return found


def available(setup: Setup, tested: SelfTest) -> Kernels:
    """The instruction set of spectui's kernels, if they may be used at all. `tested`: what the self-test found."""
    if not placement.target_on_cpu(setup) and (setup.draft is None or not placement.drafts_on_cpu(setup)):
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


def for_model(setup: Setup, role: str, path: str, own: Kernels, freed: int = 0,
              measuring: Callable[[float], None] = lambda done: None) -> Kernels:  # fmt: skip
    """The kernels of the model in this file. `own`: those that are available.

    `freed`: bytes of the host's memory that will be free before it is loaded. With --kernels auto what a type of weights costs
    is measured when it is met first.
    """
    if not own.set:
        return own
    if not (placement.target_on_cpu(setup) if role == "target" else placement.drafts_on_cpu(setup)):
        return Kernels(why=OFFLOADED)
    taken = plugin.load()
    matrices = [each for each in matrices_of(path) if taken.bytes(*each[:4])]
    if not matrices:
        return Kernels(why="they have none for the types of the model's weights")
    if _short(setup, role, path, sum(taken.bytes(*each[:4]) for each in matrices), freed):
        return Kernels(why="there is too little memory for a second copy of the weights")
    # A draft cannot change the text, so it may take the likeliest tokens for others now and then.
    own = own._replace(signs=role == "draft" and setup.requantise_draft == "auto")
    return own if setup.kernels == "spectui" else _measured(setup, matrices, own, measuring)


def _short(setup: Setup, role: str, path: str, repacked: int, freed: int) -> bool:
    """Whether the repacked weights would leave too little memory. The mapped file counts as free."""
    import psutil

    values = values_of(path)
    architecture = architecture_of(values)

    def number(key: str) -> int:
        found = values.get(f"{architecture}.{key}")
        return found if isinstance(found, int) else 0

    if role == "target":
        tokens, types = setup.ctx_size, (setup.cache_type_k, placement.value_type(setup))
    else:
        tokens, types = setup.ctx_size_draft or setup.ctx_size, (setup.cache_type_k_draft, setup.cache_type_v_draft)
    cells = bytes_of_cells(number, *types) * (tokens or number("context_length"))
    return bool(repacked + cells + _BESIDE > psutil.virtual_memory().available + freed)


def _measured(setup: Setup, matrices: Sequence[Matrices], own: Kernels, measuring: Callable[[float], None]) -> Kernels:
    """These kernels, if passes over such weights take less time with them on this machine."""
    sizes: Counter[int] = Counter()
    for each in matrices:
        sizes[each.kind] += each.bytes
    threads, extra_buffers = placement.threads(setup.threads), setup.no_repack == "off"
    try:
        trials = {kind: trial(kind, own, _key(), threads, extra_buffers, measuring) for kind in sizes}
    except LoadCancelled:
        raise
    except (SpectuiError, OSError) as error:
        return Kernels(why=f"they could not be measured ({error})")
    return own if pays(sizes, trials) else Kernels(why="llama.cpp's are as fast here, as was measured")


def measured(own: Kernels, extra_buffers: bool) -> dict[str, tuple[float, ...]]:
    """Type of weights -> how many times as fast passes over `ROWS` tokens are with these kernels, as far as it was measured
    with the usual number of threads."""
    threads, found = placement.threads(0), {}
    for name, kind in plugin.types().items():
        if times := stored(kind, own, _key(), threads, extra_buffers):
            found[name] = tuple(theirs / ours for theirs, ours in zip(times.llama_cpp, times.own, strict=True))
    return found


def _key() -> Key:
    return (keys.measured_with(), identity())


def pays(sizes: Counter[int], trials: dict[int, Trial]) -> bool:
    """Whether passes over so many bytes of each type take less time with spectui's kernels."""
    shares = [
        sum(bytes * trials[kind].own[n] for kind, bytes in sizes.items())
        / sum(bytes * trials[kind].llama_cpp[n] for kind, bytes in sizes.items())
        for n in range(len(ROWS))
    ]
    return shares[0] <= _LOSS and math.prod(shares) <= _GAIN ** len(ROWS)
