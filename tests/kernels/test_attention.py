"""Attention with spectui's kernels, against its definition and against ggml's."""

from __future__ import annotations

import ctypes
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.kernels.plugin import FUNCTIONS
from spectui.llama.library import address
from tests.kernels.ggml import CPU, KERNELS, Graph, Kind, call, plain, quantised

Random = np.random.Generator
Floats = NDArray[np.float32]


@dataclass
class Case:
    """Queries [streams, heads, n, dk], cells [streams, shared, cells, dk or dv], mask [streams, n, cells]."""

    q: Floats
    k: bytes
    v: bytes
    mask: Floats
    kinds: tuple[Kind, Kind]
    widths: tuple[int, int]
    shared: int
    cap: float = 0.0
    sinks: Floats | None = None
    """A score of each head, whose share goes to no cell."""

    @property
    def cells(self) -> int:
        return self.mask.shape[-1]

    def rows(self, first: int, last: int) -> Case:
        """The same with these rows of the pass."""
        return replace(self, q=self.q[:, :, first:last], mask=self.mask[:, first:last])

    def operation(self, graph: Graph) -> object:
        streams, _, n, dk = self.q.shape
        q = graph.columns(self.q.transpose(0, 2, 1, 3))  # as a product gives them: a row's heads behind each other
        cells = [
            graph.op("permute", graph.tensor(kind, data, width, self.shared, self.cells, streams), 0, 2, 1, 3)
            for kind, data, width in zip(self.kinds, (self.k, self.v), self.widths, strict=True)
        ]
        mask = graph.tensor(Kind.F16, self.mask.astype(np.float16), self.cells, n, 1, streams)
        operation = graph.op("flash_attn_ext", graph.op("permute", q, 0, 2, 1, 3), *cells, mask, dk**-0.5, 0.0, self.cap)
        if self.sinks is not None:
            call("ggml_flash_attn_ext_add_sinks", None, operation, graph.columns(self.sinks))
        return operation

    def computed(self, device: bytes) -> Floats:
        """[streams, n, heads, dv]"""
        streams, heads, n, _ = self.q.shape
        with Graph(device) as graph:
            operation = self.operation(graph)
            return graph.compute(operation)[0].reshape(streams, n, heads, self.widths[1])

    def defined(self) -> NDArray[np.float64]:
        """softmax(q k + mask) v, in double; rows that see no cell are 0."""
        streams, heads, _, dk = self.q.shape
        k, v = (
            _values(kind, data, streams, self.cells, self.shared, width).astype(np.float64)
            for kind, data, width in zip(self.kinds, (self.k, self.v), self.widths, strict=True)
        )
        group = heads // self.shared
        k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
        scores = np.einsum("bhnd,bchd->bhnc", self.q, k) * dk**-0.5
        if self.cap:
            scores = self.cap * np.tanh(scores / self.cap)
        scores += self.mask[:, None]
        if self.sinks is not None:  # as a cell of zeros
            sinks = np.broadcast_to(self.sinks[:, None, None], (*scores.shape[:3], 1))
            scores = np.concatenate([scores, sinks], axis=-1)
            v = np.concatenate([v, np.zeros_like(v[:, :1])], axis=1)
        most = scores.max(axis=-1, keepdims=True)
        seen = np.exp(scores - np.where(np.isfinite(most), most, 0))
        shares = seen / np.maximum(seen.sum(axis=-1, keepdims=True), 1e-300)
        return np.einsum("bhnc,bchd->bnhd", shares, v)


def _values(kind: Kind, data: bytes, *shape: int) -> Floats:
    return np.frombuffer(data, np.float16).astype(np.float32).reshape(shape) if kind is Kind.F16 else plain(kind, data, *shape)


def case(random: Random, n: int, cells: int, *, group: int = 2, shared: int = 2, widths: tuple[int, int] = (64, 64),
         kinds: tuple[Kind, Kind] = (Kind.F16, Kind.F16), streams: int = 1, window: int = 0,
         scale: float = 1, cap: float = 0.0, sinks: bool = False) -> Case:  # fmt: skip
    """A pass whose rows see the cells of the rows before them, but not those that a window has left behind."""

    def file(kind: Kind, width: int) -> bytes:
        values = random.standard_normal((streams, cells, shared, width)).astype(np.float32)
        return values.astype(np.float16).tobytes() if kind is Kind.F16 else quantised(kind, values)

    q = scale * random.standard_normal((streams, group * shared, n, widths[0])).astype(np.float32)
    behind = int(random.integers(0, max(1, min(32, cells - n))))  # cells that are not in use yet
    at = cells - behind - n + np.arange(n)[:, None] - np.arange(cells)
    seen = (at >= 0) & ((at < window) if window else True)
    mask = np.where(np.broadcast_to(seen, (streams, n, cells)), 0, -np.inf).astype(np.float32)
    numbers = 3 * random.standard_normal(group * shared).astype(np.float32) if sinks else None
    return Case(q, file(kinds[0], widths[0]), file(kinds[1], widths[1]), mask, kinds, widths, shared, cap, numbers)


CASES = {
    **{f"group {group}": {"group": group} for group in range(1, 9)},
    **{f"{cells} cells": {"cells": cells} for cells in (32, 240, 256, 272, 1056)},
    **{f"{n} rows": {"n": n} for n in (1, 2, 7, 8, 9, 17, 63, 300)},
    **{f"width {a} and {b}": {"widths": (a, b)} for a, b in ((32, 32), (72, 72), (80, 80), (128, 128), (256, 256), (192, 128))},
    **{
        f"cells of {k.name} and {v.name}": {"kinds": (k, v)}
        for k, v in itertools.product((Kind.F16, Kind.Q8_0), repeat=2)
        if (k, v) != (Kind.F16, Kind.F16)
    },
    **{f"window of {window}": {"window": window, "cells": 1088} for window in (1, 16, 500)},
    "three streams": {"streams": 3},
    "sharp scores": {"scale": 20},
    "scores under a cap": {"scale": 8, "cap": 5.0},
    "sinks": {"sinks": True},
    "one head": {"group": 1, "shared": 1},
}


@pytest.fixture
def attending(kernels: str, library) -> str:
    library.spectui_kernels_request(0, 0, 1, 0)
    return kernels


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_attention_is_as_defined(attending: str, options: dict):
    random = np.random.default_rng(len(str(options)))
    tried = case(random, **{"n": 5, "cells": 320, **options})
    with Graph(KERNELS) as graph:
        assert graph.supports(tried.operation(graph))
    ours, right = tried.computed(KERNELS), tried.defined()
    assert np.abs(ours - right).max() < 2e-5
    if set(tried.kinds) == {Kind.F16}:
        assert np.abs(ours - tried.computed(CPU)).max() < 1e-2  # ggml adds up in halves


@pytest.mark.parametrize(
    "options", [{}, {"window": 40, "sinks": True}, {"kinds": (Kind.Q8_0, Kind.Q8_0)}, {"group": 7, "cap": 9.0}], ids=str
)
@pytest.mark.parametrize("cells", [320, 1056])
def test_a_row_has_the_same_bits_in_passes_of_all_sizes_and_with_all_sets(attending: str, library, cells: int, options: dict):
    whole = case(np.random.default_rng(cells), 300, cells, **options)
    right = whole.computed(KERNELS)
    for first, last in ((0, 1), (299, 300), (10, 12), (5, 8), (20, 36), (0, 62), (7, 230)):
        assert np.array_equal(whole.rows(first, last).computed(KERNELS), right[:, first:last]), (first, last)
    functions = (ctypes.c_void_p * len(FUNCTIONS))(*map(address, FUNCTIONS))
    assert library.spectui_kernels_bind(functions, b"avx2") == 0
    assert np.array_equal(whole.computed(KERNELS), right)


@pytest.mark.parametrize("number", [np.nan, np.inf, -6e4], ids=str)
def test_cells_that_a_row_does_not_see_may_hold_anything(attending: str, number: float):
    """llama.cpp does not clear the cells of tokens that were removed, and rows of one pass do not see each other's."""
    right = case(np.random.default_rng(1), 3, 96, widths=(80, 80)).computed(KERNELS)
    for name in ("k", "v"):
        tried = case(np.random.default_rng(1), 3, 96, widths=(80, 80))
        cells = np.frombuffer(getattr(tried, name), np.float16).reshape(96, -1).copy()
        cells[np.isneginf(tried.mask[0, 1])] = number  # the third row sees one of them
        setattr(tried, name, cells.tobytes())
        assert np.array_equal(tried.computed(KERNELS)[:, :2], right[:, :2]), name


@pytest.mark.parametrize("cells", [96, 1088])
@pytest.mark.parametrize(("k", "q"), [(np.nan, 1), (np.inf, 1), (1, np.nan), (1, -np.inf), (1e4, 1e38)], ids=str)
def test_scores_that_are_no_numbers_are_told(attending: str, cells: int, k: float, q: float):
    """As by ggml: a model whose numbers overflow must not go on as if it knew."""
    tried = case(np.random.default_rng(1), 3, cells)
    numbers = np.frombuffer(tried.k, np.float16).reshape(cells, -1).copy()
    numbers[5] *= k
    tried.k = numbers.tobytes()
    tried.q[0, 0, 1] *= q
    ours, theirs = (np.isnan(tried.computed(device)) for device in (KERNELS, CPU))
    assert ours.any() and np.array_equal(ours, theirs)


def test_a_row_that_sees_no_cell_is_zero(attending: str):
    tried = case(np.random.default_rng(2), 3, 64)
    tried.mask[:, 1] = -np.inf
    found = tried.computed(KERNELS)
    assert not found[:, 1].any()
    assert np.abs(found - tried.defined()).max() < 2e-5


def test_what_is_left_to_ggml(kernels: str, library):
    random = np.random.default_rng(3)

    def taken(tried: Case) -> bool:
        with Graph(KERNELS) as graph:
            return graph.supports(tried.operation(graph))

    assert not taken(case(random, 4, 64))
    library.spectui_kernels_request(0, 0, 1, 0)
    assert taken(case(random, 4, 64))
    with ThreadPoolExecutor() as other:
        assert not other.submit(taken, case(random, 4, 64)).result()  # of contexts that another thread makes
    assert not taken(case(random, 4, 64, kinds=(Kind.Q4_0, Kind.Q4_0)))
    assert not taken(case(random, 4, 64, widths=(288, 64)))
