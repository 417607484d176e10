"""Matrix products with spectui's kernels against ggml's own, for weights of every type and shapes at random."""

import ctypes
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES
from numpy.typing import NDArray

from spectui.kernels.build import SOURCES
from tests.kernels.conftest import ANOTHER
from tests.kernels.ggml import CPU, KERNELS, Graph, Kind, call, plain, quantised

KINDS = [Kind[name] for name in re.findall(r"\{ GGML_TYPE_(\w+),", (SOURCES / "formats.h").read_text())]

BLOCKS = {kind: max(8, GGML_QUANT_SIZES[kind][0]) for kind in KINDS}
"""Rows are of whole blocks; floats are taken by eight."""

COARSE = (Kind.Q4_1, Kind.Q5_1, Kind.F16, Kind.BF16)
"""ggml rounds the activations to the weights' 16 bits, or their sums to halves; the kernels do not."""

Random = np.random.Generator


def floats(random: Random, *shape: int) -> NDArray[np.float32]:
    return random.standard_normal(shape).astype(np.float32)


def weights(random: Random, kind: Kind, *shape: int) -> bytes:
    """Random weights [..., rows, k] of this type."""
    return quantised(kind, floats(random, *shape))


def shape(random: Random, kind: Kind) -> tuple[int, int, int]:
    """k, rows and columns: rows that do not fill tiles, and passes of a few rows mostly."""
    block = BLOCKS[kind]
    k = block * int(random.integers(1, 5 if block == 256 else 30))
    return k, int(random.integers(1, 90)), int(random.choice([1, 2, 3, 5, 8, 9, int(random.integers(1, 71))]))


def error(kind: Kind, both: Sequence[NDArray[np.float32]], sizes: NDArray[np.float32]) -> float:
    """The largest difference, of the sum of magnitudes that the element adds up, in units of what is allowed."""
    found = np.abs(both[0].ravel() - both[1].ravel()) / (sizes.ravel() + 1e-30)
    return float(found.max(initial=0)) / (5e-3 if kind in COARSE else 1e-6)


def on_both(build: Callable[[Graph], list[object]]) -> list[list[NDArray[np.float32]]]:
    """What the graph computes on ggml's CPU backend, and with the kernels."""
    found = []
    for device in (CPU, KERNELS):
        with Graph(device) as graph:
            results = build(graph)
            found.append(graph.compute(*results))
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_products_are_ggml_s(kernels: str, kind: Kind):
    random = np.random.default_rng(int(kind))
    for _ in range(3):
        k, rows, n = shape(random, kind)
        w, x = weights(random, kind, rows, k), floats(random, n, k)
        x[int(random.integers(n)), : k // 2] = 0
        both = on_both(lambda graph: [graph.op("mul_mat", graph.weights(kind, w, k, rows), graph.columns(x))])  # noqa: B023
        sizes = np.abs(x) @ np.abs(plain(kind, w, rows, k)).T
        assert error(kind, [each for (each,) in both], sizes) < 1, (k, rows, n)


@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q4_K, Kind.Q3_K], ids=lambda kind: kind.name)
def test_columns_may_lie_anywhere(kernels: str, kind: Kind):
    """Several batches of columns, a part of longer columns, and columns whose dimensions are exchanged."""
    random = np.random.default_rng(3)
    for _ in range(2):
        k, rows, n = shape(random, kind)
        heads, batches = (int(v) for v in random.integers(1, 4, 2))
        w, x = weights(random, kind, rows, k), floats(random, batches, heads, n, k + 64)

        def build(graph: Graph) -> list[object]:
            matrix, whole = graph.weights(kind, w, k, rows), graph.columns(x)  # noqa: B023
            strides = [(k + 64) * 4 * each for each in (1, n, n * heads)]  # noqa: B023
            part = graph.op("view_4d", whole, k, n, heads, batches, *strides, 32 * 4)  # noqa: B023
            turned = graph.op("permute", part, 0, 2, 1, 3)
            return [graph.op("mul_mat", matrix, part), graph.op("mul_mat", matrix, turned)]

        both = on_both(build)
        sizes = np.abs(x[..., 32 : 32 + k]) @ np.abs(plain(kind, w, rows, k)).T
        assert error(kind, [found[0] for found in both], sizes) < 1
        assert error(kind, [found[1] for found in both], sizes.transpose(0, 2, 1, 3)) < 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_row_has_the_same_bits_in_passes_of_all_sizes(kernels: str, kind: Kind):
    random = np.random.default_rng(5)
    block = BLOCKS[kind]
    k, rows = 50 * block, 45  # large passes multiply it in parts
    w, x = weights(random, kind, rows, k), floats(random, 70, k)

    def outputs(columns: NDArray[np.float32]) -> NDArray[np.float32]:
        with Graph(KERNELS) as graph:
            (found,) = graph.compute(graph.op("mul_mat", graph.weights(kind, w, k, rows), graph.columns(columns)))
        return found.reshape(-1, rows)

    whole = outputs(x)
    for n in (1, 2, 3, 4, 5, 7, 8, 9, 17, 64):
        first = int(random.integers(70 - n + 1))
        assert np.array_equal(outputs(x[first : first + n]), whole[first : first + n]), n


def test_tile_registers_are_left_as_llama_cpp_configured_them(kernels: str, tmp_path: Path):
    """It does so once in a thread."""
    if kernels != "amx":
        pytest.skip("these kernels do not use them")
    source = "".join(
        f'void {name}(char *at) {{ __asm__ volatile("{name} %0" : "+m"(*(char (*)[64])at)); }}'
        for name in ("ldtilecfg", "sttilecfg")
    )
    (tmp_path / "tiles.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", str(tmp_path / "tiles.c"), "-o", str(tmp_path / "tiles.so")], check=True)
    tiles = ctypes.CDLL(str(tmp_path / "tiles.so"))
    theirs = bytes([1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[5] * 8, *[0] * 8])  # five rows of 64 bytes
    none = bytes(64)
    random = np.random.default_rng(19)
    w, x = weights(random, Kind.Q4_K, 32, 256), floats(random, 64, 256)
    for before in (theirs, none):
        now = ctypes.create_string_buffer(before, 64)
        with Graph(KERNELS) as graph:
            product = graph.op("mul_mat", graph.weights(Kind.Q4_K, w, 256, 32), graph.columns(x))
            graph.prepare()
            tiles.ldtilecfg(now)
            graph.compute(product)
            tiles.sttilecfg(now)
        assert now.raw == before


def test_a_layer_is_one_graph(kernels: str):
    """Products of the same columns, products of products, columns of no length, and types of both block sizes."""
    random = np.random.default_rng(7)
    width, inner, n = 256, 512, 6
    names = {"q": Kind.Q4_K, "k": Kind.Q4_K, "v": Kind.Q6_K, "o": Kind.Q8_0, "gate": Kind.Q5_0, "up": Kind.Q5_0}
    files = {name: weights(random, kind, inner if name in ("gate", "up") else width, width) for name, kind in names.items()}
    down, x = weights(random, Kind.Q4_0, width, inner), floats(random, n, width)

    def build(graph: Graph) -> list[object]:
        of = {
            name: graph.weights(names[name], data, width, inner if name in ("gate", "up") else width)
            for name, data in files.items()
        }
        columns = graph.columns(x)
        q, k, v = (graph.op("mul_mat", of[name], columns) for name in "qkv")
        out = graph.op("mul_mat", of["o"], graph.op("reshape_2d", q, width, n))
        gate, up = (graph.op("mul_mat", of[name], out) for name in ("gate", "up"))
        last = graph.op("mul_mat", graph.weights(Kind.Q4_0, down, inner, width), up)
        none = graph.op("mul_mat", of["q"], graph.op("view_2d", columns, width, 0, width * 4, 0))
        return [q, k, v, out, gate, up, last, none]

    theirs, ours = on_both(build)
    assert ours[-1].size == 0
    for a, b in zip(theirs[:-1], ours[:-1], strict=True):
        assert np.abs(a - b).max() < 0.02 * a.std()  # each product quantises what the one before rounded


@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q4_K, Kind.Q2_K], ids=lambda kind: kind.name)
def test_experts_are_ggml_s(kernels: str, kind: Kind):
    """Tokens choose experts, some of them twice, some none; all slots share a column, or each has its own."""
    random = np.random.default_rng(11)
    for own in (False, True):
        k, rows, _ = shape(random, kind)
        experts, slots, tokens = (int(v) for v in (random.integers(1, 9), random.integers(1, 5), random.integers(1, 40)))
        w, x = weights(random, kind, experts, rows, k), floats(random, tokens, slots if own else 1, k)
        chosen = random.integers(0, experts, (tokens, slots + 3)).astype(np.int32)  # as of a sorted list, whose head is used

        def build(graph: Graph) -> list[object]:
            ids = graph.tensor(Kind.I32, chosen, slots + 3, tokens)  # noqa: B023
            head = graph.op("view_2d", ids, slots, tokens, (slots + 3) * 4, 0)  # noqa: B023
            return [graph.op("mul_mat_id", graph.weights(kind, w, k, rows, experts), graph.columns(x), head)]  # noqa: B023

        both = on_both(build)
        of = np.abs(plain(kind, w, experts, rows, k))[chosen[:, :slots]]
        sizes = np.einsum("tsrk,tsk->tsr", of, np.broadcast_to(np.abs(x), (tokens, slots, k)))
        assert error(kind, [each for (each,) in both], sizes) < 1, (k, rows, experts, slots, tokens)


@pytest.mark.parametrize("kind", [Kind.Q5_1, Kind.Q4_K], ids=lambda kind: kind.name)
def test_an_output_matrix_with_signs_is_read_where_their_products_are_largest(kernels: str, library: ctypes.CDLL, kind: Kind):
    random = np.random.default_rng(17)
    k, rows = 256, 66_003
    w = weights(random, kind, rows, k)
    exact = plain(kind, w, rows, k)
    x = exact[[7, rows - 1]] + exact[[rows // 2, 40_000]]  # two rows stand out

    def outputs(columns: NDArray[np.float32], name: bytes = b"output.weight", *, signs: bool = True) -> NDArray[np.float32]:
        library.spectui_kernels_request(1, signs, 0, 0)
        with Graph(KERNELS) as graph:
            matrix = graph.weights(kind, w, k, rows)
            call("ggml_set_name", ctypes.c_void_p, matrix, (ctypes.c_char_p, name))
            (found,) = graph.compute(graph.op("mul_mat", matrix, graph.columns(columns)))
        return found.reshape(-1, rows)

    whole = outputs(x, signs=False)
    assert np.array_equal(outputs(x), whole), "two columns"
    assert np.array_equal(outputs(x[:1], b"blk.0.ffn_up.weight"), whole[:1])
    for name in (b"output.weight", b"token_embd.weight"):
        (found,) = outputs(x[:1], name)
        read = found == whole[0]
        assert rows / 16 <= read.sum() < rows / 15
        assert set(np.argsort(-found)[:2]) == {7, rows // 2} and read[7] and read[rows // 2]
        signs = np.where(exact > 0, 1, -1) * np.abs(exact).reshape(rows, -1, 32).mean(2).repeat(32, 1) @ x[0]
        assert np.abs(found - signs)[~read].max() < 0.05 * signs.std()  # ggml's quantisation of the column
    (found,) = outputs(np.full((1, k), np.nan, np.float32))
    assert len(found) == rows


def test_a_node_that_need_not_be_computed_is_left(kernels: str):
    random = np.random.default_rng(len(kernels))  # other numbers than those of the set before
    w, x = weights(random, Kind.Q8_0, 32, 64), floats(random, 3, 64)
    found = []
    for needed in (False, True):
        with Graph(KERNELS) as graph:
            product = graph.op("mul_mat", graph.weights(Kind.Q8_0, w, 64, 32), graph.columns(x))
            found += graph.compute(product, needed=needed)
    assert not np.array_equal(*found)


@pytest.mark.skipif(
    sys.platform != "linux" or bool(ANOTHER), reason="limits on memory are Linux's, and AddressSanitizer has its own"
)
def test_a_lack_of_memory_is_a_status(kernels: str):
    """A pass that cannot have its memory fails as one of llama.cpp's does; the process goes on."""
    program = """
import resource, sys
import numpy as np
from spectui.llama.cpu import plugin
from tests.kernels.ggml import KERNELS, Graph, Kind, quantised
plugin.load(sys.argv[1])
with Graph(KERNELS) as graph:
    w = graph.weights(Kind.F32, np.ones((2, 256), np.float32).tobytes(), 256, 2)
    few, many = graph.columns(np.ones((1, 256))), graph.columns(np.ones((1 << 16, 256)))
    products = [graph.op("mul_mat", w, few), graph.op("mul_mat", w, many)]
    graph.prepare()
    assert graph.status(products[0]) == 0
    used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (used + (32 << 20), resource.RLIM_INFINITY))
    print(graph.status(products[1]), graph.status(products[0]))
"""
    done = subprocess.run([sys.executable, "-c", program, kernels], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "-2 0\n"), done.stderr


def test_an_expert_that_is_not_there_ends_the_process_as_ggml_s_do(kernels: str):
    """Before anything is read outside of the matrix."""
    program = """
import sys
import numpy as np
from spectui.llama.cpu import plugin
from tests.kernels.ggml import KERNELS, Graph, Kind
plugin.load(sys.argv[1])
with Graph(KERNELS) as graph:
    w = graph.weights(Kind.F32, np.ones((2 * 2, 256), np.float32).tobytes(), 256, 2, 2)
    ids = graph.tensor(Kind.I32, np.full((1, 1), int(sys.argv[2]), np.int32), 1, 1)
    print(len(graph.compute(graph.op("mul_mat_id", w, graph.columns(np.ones((1, 1, 256), np.float32)), ids))))
"""
    ends = [
        subprocess.run([sys.executable, "-c", program, kernels, id], capture_output=True, text=True) for id in ("1", "2", "-1")
    ]
    assert [end.returncode == 0 for end in ends] == [True, False, False], ends[0].stderr
    assert all("there is no expert" in end.stderr for end in ends[1:])


def test_weights_are_repacked_by_as_many_threads_as_asked_for(kernels: str, library: ctypes.CDLL):
    """This thread's own CPU time shows its part of the work, whatever else the process or the machine does."""
    w = weights(np.random.default_rng(0), Kind.Q4_K, 256, 256) * 64

    def seconds(threads: int) -> float:
        library.spectui_kernels_request(threads, 0, 0, 0)
        with Graph(KERNELS) as graph:
            graph.weights(Kind.Q4_K, w, 256, 256 * 64)
            begun = time.thread_time()
            graph.prepare()
            return time.thread_time() - begun

    one, four = (min(seconds(threads) for _ in range(5)) for threads in (1, 4))
    assert four < 0.6 * one


def test_what_is_left_to_ggml(kernels: str):
    random = np.random.default_rng(17)
    w, x = weights(random, Kind.Q8_0, 2, 32, 64), floats(random, 3, 64)

    def taken(build: Callable[[Graph], object]) -> bool:
        with Graph(KERNELS) as graph:
            return graph.supports(build(graph))

    def matrix(graph: Graph) -> object:
        return graph.weights(Kind.Q8_0, w[: len(w) // 2], 64, 32)

    assert taken(lambda graph: graph.op("mul_mat", matrix(graph), graph.columns(x)))
    assert not taken(
        lambda graph: graph.op("mul_mat", graph.weights(Kind.Q8_0, w, 64, 32, 2), graph.columns(np.stack([x] * 2)))
    )
    assert not taken(lambda graph: graph.op("mul_mat", graph.tensor(Kind.Q8_0, w[: len(w) // 2], 64, 32), graph.columns(x)))

    def of_floats(kind: Kind, k: int, rows: int) -> Callable[[Graph], object]:
        data, columns = weights(random, kind, rows, k), floats(random, 3, k)
        return lambda graph: graph.op("mul_mat", graph.weights(kind, data, k, rows), graph.columns(columns))

    assert taken(of_floats(Kind.F32, 64, 2)) and taken(of_floats(Kind.BF16, 64, 2))
    assert not taken(of_floats(Kind.F32, 64, 1)) and not taken(of_floats(Kind.F32, 12, 2))
    assert not taken(lambda graph: graph.op("mul_mat", matrix(graph), graph.tensor(Kind.F16, x.astype(np.float16), 64, 3)))
    assert not taken(lambda graph: graph.op("add", graph.columns(x), graph.columns(x)))
