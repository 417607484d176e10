"""Whole passes with spectui's kernels: rows whose bits do not depend on the pass, and llama.cpp's logits but for rounding."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import gguf
import numpy as np
import pytest

from spectui.kernels.plugin import Kernels
from spectui.llama import selftest
from spectui.llama.context import Context
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from tests.kernels.ggml import Kind, quantised
from tests.llama.ggufs import finished

ROWS = 63
LENGTH = 1100
"""Attention adds up 256 cells at once."""
VOCABULARY, WIDTH, INNER = 64, 256, 512


def write_model(path: Path, kind: Kind, *, heads: int = 4, shared: int = 2, experts: int = 0,
                vocabulary: int = VOCABULARY, tied: bool = False) -> Path:  # fmt: skip
    """Two layers whose matrices are of this type; the path. `shared`: heads of K and V. `experts`: of a layer, two a token.
    `tied`: the token embedding is the output matrix."""
    random = np.random.default_rng(int(kind))
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(2)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(heads)
    writer.add_head_count_kv(shared)
    writer.add_key_length(WIDTH // heads)
    writer.add_value_length(WIDTH // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("no_vocab")
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(2)

    def matrix(name: str, *shape: int) -> None:
        data = quantised(kind, random.standard_normal(shape).astype(np.float32) / 16)
        rows = np.frombuffer(data, np.uint8).reshape(*shape[:-1], -1)
        writer.add_tensor(f"{name}.weight", rows, raw_dtype=kind)

    def floats(name: str, values: np.ndarray) -> None:
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))

    matrix("token_embd", vocabulary, WIDTH)
    if not tied:
        matrix("output", vocabulary, WIDTH)
    floats("output_norm", np.ones(WIDTH))
    of_shared = WIDTH // heads * shared
    for layer in (f"blk.{number}" for number in range(2)):
        for name, rows in (("attn_q", WIDTH), ("attn_k", of_shared), ("attn_v", of_shared), ("attn_output", WIDTH)):
            matrix(f"{layer}.{name}", rows, WIDTH)
        for name, shape in (("ffn_gate", (INNER, WIDTH)), ("ffn_up", (INNER, WIDTH)), ("ffn_down", (WIDTH, INNER))):
            matrix(f"{layer}.{name}_exps", experts, *shape) if experts else matrix(f"{layer}.{name}", *shape)
        if experts:
            floats(f"{layer}.ffn_gate_inp", random.standard_normal((experts, WIDTH)) / 16)  # scores of deviation 1
        for name in ("attn_norm", "ffn_norm"):
            floats(f"{layer}.{name}", np.ones(WIDTH))
    return finished(writer, path)


def tokens(start: int, count: int) -> list[int]:
    return [(7 * at * at + 5 * at) % VOCABULARY for at in range(start, start + count)]


@contextmanager
def context(path: Path, kernels: str, length: int = LENGTH + ROWS, cells: str = "f16", threads: int = 1,
            role: str = "target", signs: bool = False, beside: int = 0) -> Iterator[Context]:  # fmt: skip
    """`kernels`: an instruction set, or "" for llama.cpp's. One thread, because two crawl while other tests compute."""
    chosen = Kernels(kernels, signs=signs, beside=beside)
    model = Model(str(path), role, on_devices=[], kernels=chosen, extra_buffers=selftest.run().extra_buffers)
    found = Context(
        model, Interrupt(), n_ctx=length + 1, rows=ROWS, flash_attn="on", type_k=cells, type_v=cells, threads=threads
    )
    yield found
    found.close()
    model.close()


def singles(used: Context, position: int, count: int) -> np.ndarray:
    return np.concatenate([used.evaluate(tokens(at, 1), 1).copy() for at in range(position, position + count)])


MIXTURE = {"experts": 8}
"""ggml multiplies a router of 4, 8, 16 ... experts otherwise for one row than for several."""
MODELS: Sequence[tuple[Kind, str, dict]] = [
    (Kind.Q8_0, "f16", {}),
    (Kind.Q4_K, "f16", {"heads": 8, "shared": 1}),
    (Kind.Q4_0, "q8_0", {"shared": 4}),
    (Kind.Q6_K, "q8_0", MIXTURE),
    (Kind.Q5_0, "f16", MIXTURE),
    (Kind.Q2_K, "f16", {"heads": 2, "shared": 2}),
    (Kind.BF16, "f16", MIXTURE),
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each model is written once."""
    return tmp_path_factory.mktemp("passes")


@pytest.fixture(params=MODELS, ids=lambda each: f"{each[0].name}-{each[1]}{'-mixture' * bool(each[2] is MIXTURE)}")
def tried(request: pytest.FixtureRequest, folder: Path) -> tuple[Path, str]:
    kind, cells, options = request.param
    path = folder / f"{kind.name}.gguf"
    return path if path.exists() else write_model(path, kind, **options), cells


def test_a_row_has_the_same_bits_in_passes_of_all_sizes(kernels: str, tried: tuple[Path, str]):
    with context(tried[0], kernels, cells=tried[1]) as used:
        for position in (10, 600, LENGTH):
            while len(used.tokens) < position:
                used.evaluate(tokens(len(used.tokens), min(512, position - len(used.tokens))), 0)
            right = singles(used, position, 17)
            for n in (2, 3, 4, 8, 16, 17, 33, ROWS):
                used.truncate(position)
                found = used.evaluate(tokens(position, n), n)
                assert np.array_equal(found[:17], right[:n]), (position, n)
            used.truncate(position)


def test_a_row_has_the_same_bits_behind_a_prompt_in_batches_of_all_sizes(kernels: str, tried: tuple[Path, str]):
    with context(tried[0], kernels, 600, tried[1]) as used:
        rows = []
        for batch in (512, 200, 48):
            used.clear()
            for first in range(0, 600, batch):
                used.evaluate(tokens(first, min(batch, 600 - first)), 0)
            rows.append(used.evaluate(tokens(600, 3), 3).copy())
        assert np.array_equal(rows[1], rows[0]) and np.array_equal(rows[2], rows[0])


def test_of_weights_that_stay_mapped_they_leave_long_passes_to_a_gpu(kernels: str, tried: tuple[Path, str]):
    """Without one the CPU makes them, with llama.cpp's kernels."""
    with context(tried[0], kernels, 100, tried[1]) as own, context(tried[0], kernels, 100, tried[1], beside=1) as used:
        for at, n, alike in ((0, 1, True), (1, 31, True), (32, 32, False)):
            right, found = (each.evaluate(tokens(at, n), n).copy() for each in (own, used))
            assert np.array_equal(found, right) is alike
            assert np.abs(found - right).mean() < 0.1 * right.std()


@pytest.mark.parametrize("tied", [False, True])
def test_a_draft_has_signs_and_a_model_loaded_beside_it_has_none(kernels: str, tmp_path: Path, tied: bool):
    path = write_model(tmp_path / "model.gguf", Kind.Q4_0, vocabulary=1 << 16, tied=tied)
    with context(path, kernels, 100, role="draft", signs=True) as draft, context(path, kernels, 100) as target:
        right, found = (used.evaluate(tokens(0, 9), 1)[0].copy() for used in (target, draft))
        assert 1 / 16 <= np.mean(found == right) < 1 / 15
        assert found.argmax() == right.argmax()
        right, found = (used.evaluate(tokens(9, 3), 3).copy() for used in (target, draft))
        assert np.array_equal(found, right), "several rows"


def test_the_number_of_threads_changes_no_bit(kernels: str, tried: tuple[Path, str]):
    found = []
    for threads in (1, 3):
        with context(tried[0], kernels, cells=tried[1], threads=threads) as used:
            for start in range(0, LENGTH, 550):
                used.evaluate(tokens(start, 550), 0)
            found.append([singles(used, LENGTH, 2), used.evaluate(tokens(LENGTH + 2, 20), 20).copy()])
    for several in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], several, strict=True))


def test_logits_are_llama_cpp_s_but_for_rounding(kernels: str, tried: tuple[Path, str]):
    found = []
    for used_kernels in ("", kernels):
        with context(tried[0], used_kernels, 200, tried[1]) as used:
            used.evaluate(tokens(0, 100), 0)  # a pass without logits
            found.append(np.concatenate([singles(used, 100, 2), used.evaluate(tokens(102, 40), 40)]))
    theirs, ours = found
    assert not np.array_equal(theirs, ours)  # or both were llama.cpp's
    assert np.abs(theirs - ours).mean() < 0.1 * theirs.std()  # where experts nearly tie, another may be chosen


@pytest.mark.parametrize("roles", [("target", "draft"), ("draft", "target")], ids=str)
def test_a_context_keeps_its_kernels_and_attention_when_another_is_made_without(
    kernels: str, tmp_path: Path, roles: tuple[str, str]
):
    path = write_model(tmp_path / "model.gguf", Kind.Q8_0)
    with context(path, kernels, 100, role=roles[0]) as first:
        right = first.evaluate(tokens(0, 5), 5).copy()
        with context(path, "", 100, role=roles[1]) as second:
            other = second.evaluate(tokens(0, 5), 5).copy()
            first.clear()
            assert np.array_equal(first.evaluate(tokens(0, 4), 4), right[:4])  # a graph of another shape is placed anew
            assert not np.array_equal(other, right)
