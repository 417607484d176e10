"""What spectui's kernels compute between products and attention: as ggml does, and each row by itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.kernels.ggml import CPU, KERNELS, Graph, Kind, call

Build = Callable[[Graph, int], Any]
"""An operation on so many rows."""

_I = ctypes.c_int
WIDTH, HEADS = 96, 3
NORMAL, NEOX, SEVERAL = 0, 2, 8


def numbers(graph: Graph, n: int, *shape: int, seed: int = 0) -> Any:
    """The first n of 300 rows of such a shape."""
    return graph.columns(np.random.default_rng(seed).standard_normal((300, *shape)).astype(np.float32)[:n])


def whole(graph: Graph, values: Sequence[int], kind: Kind = Kind.I32) -> Any:
    return graph.tensor(kind, np.array(values, np.int64 if kind is Kind.I64 else np.int32), len(values))


def rope(mode: int, dims: int = 32, *, divided: bool = False, ramp: float = 0.0) -> Build:
    def build(graph: Graph, n: int) -> Any:
        positions = whole(graph, [(3 * i + 70) for i in range(n)] * (4 if mode == SEVERAL else 1))
        divisors = graph.columns(np.linspace(1, 8, dims // 2)) if divided else None
        x = numbers(graph, n, HEADS, 32)
        names = (_I, dims), (_I, mode), (_I, 4096)
        if mode == SEVERAL:
            sections = (ctypes.POINTER(_I), (_I * 4)(8, 4, 4, 0))
            return graph.op("rope_multi", x, positions, divisors, names[0], sections, *names[1:], 1e4, 1.0, 0.0, 1.0, 32.0, 1.0)
        return graph.op("rope_ext", x, positions, divisors, *names, 1e4, 0.5, ramp, 1.1, 32.0, 1.0)

    return build


def of_one(name: str, *arguments: Any, width: int = WIDTH) -> Build:
    return lambda graph, n: graph.op(name, numbers(graph, n, width), *arguments)


def of_two(name: str, *shape: int, same_rows: bool = False) -> Build:
    """`shape`: of the second operand, which is the same for all rows, or of each."""

    def build(graph: Graph, n: int) -> Any:
        second = numbers(graph, n if same_rows else 1, *shape, seed=1)
        return graph.op(name, numbers(graph, n, WIDTH), second)

    return build


TAKEN: dict[str, Build] = {
    "add": of_two("add", WIDTH, same_rows=True),
    "add a bias": of_two("add", WIDTH),
    "times weights": of_two("mul", WIDTH),
    "times a number of each row": of_two("mul", 1, same_rows=True),
    "scale": of_one("scale_bias", 0.3, 2.0),
    "a row that is no whole line": of_one("scale_bias", 0.3, 2.0, width=37),
    "norm": of_one("rms_norm", 1e-5),
    "swiglu": of_two("swiglu_split", WIDTH, same_rows=True),
    "geglu": of_two("geglu_split", WIDTH, same_rows=True),
    "swiglu of one tensor": of_one("swiglu"),
    "swiglu of one tensor, swapped": of_one("swiglu_swapped"),
    "rotation of neighbours": rope(NORMAL),
    "rotation of halves": rope(NEOX),
    "rotation of a part": rope(NEOX, 24),
    "rotation by divided angles": rope(NEOX, divided=True),
}
REFUSED: dict[str, Build] = {
    "rotation with a ramp": rope(NEOX, ramp=1.0),
    "rotation by several positions": rope(SEVERAL),
    "reglu": of_two("reglu_split", WIDTH, same_rows=True),
    "silu": of_one("silu"),
    "quotient": of_two("div", WIDTH),
}


@pytest.fixture(autouse=True)
def _layers(kernels: str, library: ctypes.CDLL) -> None:
    library.spectui_kernels_request(0, 0, 1, 0)


def computed(device: bytes, build: Build, n: int) -> NDArray[np.float32]:
    with Graph(device) as graph:
        return graph.compute(build(graph, n))[0].reshape(n, -1)


@pytest.mark.parametrize("name", TAKEN)
def test_rows_are_ggml_s_but_for_rounding_and_have_the_same_bits_in_passes_of_all_sizes(name: str):
    build = TAKEN[name]
    with Graph(KERNELS) as graph:
        assert graph.supports(build(graph, 3))
    right = computed(KERNELS, build, 300)
    rounding = 1e-3 if name == "geglu" else 1e-5  # ggml has a table of gelu in halves
    assert np.allclose(right, computed(CPU, build, 300), rounding, rounding)
    for n in (1, 2, 7, 64):
        assert np.array_equal(computed(KERNELS, build, n), right[:n]), n


@pytest.mark.parametrize("build", REFUSED.values(), ids=REFUSED)
def test_what_is_left_to_ggml(build: Build):
    with Graph(KERNELS) as graph:
        assert not graph.supports(build(graph, 3))


def test_a_context_of_another_model_computes_no_rows(library: ctypes.CDLL):
    library.spectui_kernels_request(0, 0, 0, 0)
    with Graph(KERNELS) as graph:
        assert not graph.supports(TAKEN["add"](graph, 3))


@pytest.mark.parametrize(("kind", "size"), [(Kind.F16, 2 * WIDTH), (Kind.Q8_0, WIDTH // 32 * 34)], ids=str)
def test_cells_are_written_as_ggml_writes_them(kind: Kind, size: int):
    def written(device: bytes) -> bytes:
        with Graph(device) as graph:
            cells = graph.tensor(kind, bytes(64 * size), WIDTH, 64)
            places = whole(graph, [50, 3, 63, 0], Kind.I64)
            operation = graph.op("set_rows", cells, numbers(graph, 4, WIDTH), places)
            assert graph.status(operation) == 0
            read = (ctypes.c_uint8 * (64 * size))()
            to, length = (ctypes.c_void_p, ctypes.addressof(read)), (ctypes.c_size_t, len(read))
            call("ggml_backend_tensor_get", None, cells, to, (ctypes.c_size_t, 0), length)
            return bytes(read)

    assert written(KERNELS) == written(CPU)


def layers(graph: Graph, n: int) -> Any:
    """Operations that take over each other's rows: their own, in parts and in place, and the next ones."""
    x = numbers(graph, n + 4, WIDTH)
    for rows in range(n + 3, n - 1, -1):
        normed = graph.op("mul", graph.op("rms_norm", x, 1e-5), numbers(graph, 1, WIDTH, seed=rows))
        heads = graph.op("reshape_3d", normed, 32, HEADS, rows + 1)
        positions = whole(graph, range(rows + 1))
        turned = graph.op("rope_ext", heads, positions, None, (_I, 32), (_I, NEOX), (_I, 0), 1e4, 1.0, 0.0, 1.0, 0.0, 0.0)
        both = graph.op("scale_bias", graph.op("reshape_2d", turned, WIDTH, rows + 1), 2.0, 0.1)
        here, behind = (graph.op("view_2d", each, WIDTH, rows, 4 * WIDTH, at) for each, at in ((both, 0), (normed, 4 * WIDTH)))
        x = graph.op(
            "add_inplace", graph.op("view_2d", x, WIDTH, rows, 4 * WIDTH, 4 * WIDTH), graph.op("swiglu_split", here, behind)
        )
    return x


@pytest.mark.parametrize("n", [1, 2, 9, 250])
def test_operations_of_one_graph_wait_for_what_they_read(n: int):
    right = computed(CPU, layers, n)
    again = [computed(KERNELS, layers, n) for _ in range(10)]
    assert np.abs(again[0] - right).max() < 1e-4 * np.abs(right).max()
    assert all(np.array_equal(one, again[0]) for one in again)


def test_a_pass_ends_when_asked():
    """Between two of its steps: a prompt's pass takes seconds."""
    with Graph(KERNELS) as graph:
        operation = layers(graph, 9)
        assert graph.status(operation, stop=True) == 1  # GGML_STATUS_ABORTED
        assert graph.status(operation) == 0
