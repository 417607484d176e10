"""A context gives the same logits as a new one, however it was filled, truncated and filled again."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.gguf_files.random_model import VOCABULARY, write_tiny_model
from spectui.llama import selftest
from spectui.llama.context import Context, EvaluationError
from spectui.llama.devices import context_memory
from spectui.llama.devices.context_memory import check_cells, failure, refusal
from spectui.llama.devices.records import Device
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import llama
from spectui.llama.model import Model, TooLargeError
from spectui.llama.quantiser import quantise
from spectui.speculation.evaluator import Interrupted
from tests.helpers.smollm2 import setup
from tests.llama.ggufs import write_gemma, write_model

ROWS = 17
within_a_second = settings(max_examples=15)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """One layer in Q8_0, whose kernels are bit-equal at every batch; F32's are not."""
    directory = tmp_path_factory.mktemp("tiny")
    write_tiny_model(directory / "f32.gguf")
    quantise(directory / "f32.gguf", directory / "q8.gguf", "Q8_0")
    model = Model(str(directory / "q8.gguf"), extra_buffers=selftest.run().extra_buffers)
    yield model
    model.close()


@pytest.fixture(scope="module")
def smol() -> Iterator[Model]:
    model = Model(setup().model or "", extra_buffers=selftest.run().extra_buffers)
    yield model
    model.close()


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """Attention that looks back at 16 tokens only."""
    path = write_gemma(tmp_path_factory.mktemp("gemma") / "gemma.gguf")
    model = Model(str(path), extra_buffers=selftest.run().extra_buffers)
    yield model
    model.close()


def opened(model: Model, n_ctx: int = 256, ubatch: int = 32, interrupt: Interrupt | None = None) -> Context:
    return Context(model, interrupt or Interrupt(), n_ctx=n_ctx, rows=ROWS, ubatch=ubatch, threads=1)


def fresh(model: Model, tokens: Sequence[int], n_ctx: int = 256) -> NDArray[np.float32]:
    """The logits behind these tokens, by a memory that never held anything else."""
    context = opened(model, n_ctx)
    try:
        return context.evaluate(tokens, rows=1)[0].copy()
    finally:
        context.close()


def held(context: Context) -> int:
    """How many cells llama.cpp says are filled."""
    return int(llama.llama_memory_seq_pos_max(llama.llama_get_memory(context.handle), 0)) + 1


steps = st.lists(st.tuples(st.integers(0, 12), st.lists(st.integers(3, 60), min_size=1, max_size=12)), max_size=4)


def agrees_with_a_fresh_start(context: Context, edits: list[tuple[int, list[int]]], last: list[int]) -> None:
    """Cut back, append, again and again; then the last tokens' rows are those of a fresh evaluation."""
    context.truncate(0)
    expected: list[int] = []
    for back, appended in edits:
        keep = max(0, len(expected) - back)
        expected = expected[:keep] + appended
        context.truncate(keep)
        context.evaluate(appended, rows=0)
        assert context.tokens == expected
        assert held(context) == len(expected)
    rows = context.evaluate(last, rows=len(last)).copy()
    assert rows.shape == (len(last), context.n_vocab)
    whole = expected + last
    for place, row in enumerate(rows):
        assert np.array_equal(row, fresh(context.model, whole[: len(expected) + place + 1])), place


@given(edits=steps, last=st.lists(st.integers(3, 60), min_size=1, max_size=9))
@within_a_second
def test_truncating_and_appending_gives_the_logits_of_a_new_context(
    tiny: Model, edits: list[tuple[int, list[int]]], last: list[int]
):
    context = opened(tiny)
    try:
        agrees_with_a_fresh_start(context, edits, last)
    finally:
        context.close()


def test_rows_are_the_last_ones(tiny: Model):
    tokens = [n * 7 % VOCABULARY for n in range(50)]
    context = opened(tiny, ubatch=8)
    assert context.chunk == 8
    assert context.evaluate(tokens, rows=0).shape == (0, VOCABULARY)
    context.truncate(0)
    # more rows than a chunk holds, after tokens that fill several chunks
    rows = context.evaluate(tokens, rows=ROWS).copy()
    context.close()
    assert rows.shape == (ROWS, VOCABULARY)
    assert np.array_equal(rows[-1], fresh(tiny, tokens))
    assert np.array_equal(rows[0], fresh(tiny, tokens[: 50 - ROWS + 1]))


def test_a_full_context_is_a_sentence_and_changes_nothing(tiny: Model):
    tokens = [n * 7 % VOCABULARY for n in range(250)]
    context = opened(tiny)
    context.evaluate(tokens, rows=0)
    for too_many in ([1] * 7, [1] * 40):  # in one pass, and in a pass that fits before one that does not
        with pytest.raises(EvaluationError, match="The context is full: start a new chat"):
            context.evaluate(too_many, rows=1)
        assert context.tokens == tokens
        assert held(context) == 250
    assert np.array_equal(context.evaluate([5], rows=1)[0], fresh(tiny, [*tokens, 5]))
    context.close()


def test_an_interrupt_within_a_pass_leaves_the_context_unchanged(smol: Model, monkeypatch: pytest.MonkeyPatch):
    interrupt = Interrupt()
    asked, due = 0, -1

    @llama.ggml_abort_callback
    def when_due(_: object) -> bool:
        nonlocal asked
        asked += 1
        if asked == due:
            interrupt.set()
        return interrupt.is_set()

    monkeypatch.setattr("spectui.llama.context._ABORT", when_due)
    context = opened(smol, interrupt=interrupt)
    context.evaluate([10, 11, 12], rows=0)
    nodes = asked  # llama.cpp asks before each node of its graph
    assert nodes > 20
    asked, due = 0, nodes // 2
    with pytest.raises(Interrupted):
        context.evaluate(list(range(20, 50)), rows=1)
    assert asked >= due
    assert (context.tokens, held(context)) == ([10, 11, 12], 3)
    # and when it comes in the second chunk, the cells of the first one are removed too
    interrupt.clear()
    asked, due = 0, nodes + nodes // 2
    with pytest.raises(Interrupted):
        context.evaluate(list(range(20, 90)), rows=1)
    assert asked >= due
    assert (context.tokens, held(context)) == ([10, 11, 12], 3)
    interrupt.clear()
    due = -1
    assert np.array_equal(context.evaluate([13], rows=1)[0], fresh(smol, [10, 11, 12, 13]))
    context.close()


def test_cells_beyond_the_free_memory_are_a_sentence(gemma: Model, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(context_memory, "free_memory", lambda: 2**30)
    check_cells(gemma, 4096, 2**30)
    with pytest.raises(SpectuiError) as caught:
        check_cells(gemma, 4096, 3 * 2**30)
    assert str(caught.value) == (
        "A context of 4096 tokens needs 3.0 GiB and 1.0 GiB are free: choose -c 1280 or less, or a smaller -ctk and -ctv."
    )
    with pytest.raises(SpectuiError, match=r"free: choose a smaller model, or a smaller -ctk and -ctv\."):
        check_cells(gemma, 4096, 2**50)  # -c 0 would be the largest that the model was trained with


@pytest.mark.parametrize(
    ("flash_attn", "reason"),
    [("auto", r"V cache type q8_0 .* does not divide n_embd_head_v=16"), ("off", r"quantized V cache requires flash_attn .*")],
)
def test_the_advice_for_a_refused_context_fits_the_reason(gemma: Model, flash_attn: str, reason: str):
    with pytest.raises(SpectuiError, match=rf"\({reason}\): choose -fa on, or cells of f16 \(-ctk"):
        Context(gemma, Interrupt(), n_ctx=256, rows=1, type_v="q8_0", flash_attn=flash_attn)


def test_a_refusal_for_lack_of_memory_asks_for_a_smaller_context(gemma: Model):
    reason = "failed to initialize the context: failed to allocate compute pp buffers"
    assert refusal(gemma, 256, reason).endswith("buffers): choose a smaller -c, or another device (-dev).")


def test_the_advice_for_a_drafts_context_names_the_drafts_flags(gemma: Model, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gemma, "role", "draft")
    said = "A context of 256 tokens could not be made for the draft"
    with pytest.raises(SpectuiError) as caught:
        Context(gemma, Interrupt(), n_ctx=256, rows=1, type_v="q8_0", flash_attn="off")
    assert str(caught.value).startswith(said)
    assert str(caught.value).endswith(": choose -fad on, or cells of f16 (-ctkd and -ctvd).")
    advice = "choose a smaller -cd, or another device (-devd)"
    assert refusal(gemma, 256, "no backend") == f"{said} (no backend): {advice}."
    assert failure(gemma, 3, -2, "").endswith("with a smaller -cd, or with fewer layers on GPUs (-ngld).")
    assert failure(gemma, 3, 1, "").endswith("or load the model with a larger -cd.")
    assert failure(gemma, 3, -3, "").endswith("load the models on another device (-devd).")
    with pytest.raises(SpectuiError, match=r"tokens for the draft needs .* choose (-cd|a smaller model).* -ctkd and -ctvd\."):
        check_cells(gemma, 2**40, 2**50)


SMALL_BATCH = """
import sys
from spectui.llama.context import Context
from spectui.llama.devices.records import Device
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model, TooLargeError
model = Model(sys.argv[1], extra_buffers=False)
for batch, ubatch, n_ctx in ((1, 512, 256), (8, 4, 256), (2048, 512, 20), (4, 1, 17)):
    context = Context(model, Interrupt(), n_ctx=n_ctx, rows=17, batch=batch, ubatch=ubatch, threads=1)
    print(context.evaluate(range(17), rows=17).shape)
"""


def test_a_pass_may_be_larger_than_the_batch(tiny: Model):
    """`-b 1` with a draft of 16: llama.cpp would end the process, so it is tried in one of its own."""
    command = [sys.executable, "-c", SMALL_BATCH, str(tiny.path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert (done.returncode, done.stdout.split("\n")[:4]) == (0, ["(17, 64)"] * 4), done.stderr


class Calls:
    """The names of the llama.cpp functions that are called, in order; the functions themselves run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.names: list[str] = []
        self.hook: Callable[[], None] = lambda: None
        for name in names:
            monkeypatch.setattr(llama, name, self._noted(name, getattr(llama, name)))

    def _noted(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        def noted(*arguments: object) -> object:
            self.names.append(name)
            self.hook()
            return function(*arguments)

        return noted


WAITING = ("llama_synchronize", "llama_get_logits")


@pytest.mark.parametrize(("length", "rows"), [(1, 1), (5, 0), (9, 4), (32, 0), (150, 1), (150, 0)])
def test_an_evaluation_returns_when_the_device_has_computed_it(
    tiny: Model, monkeypatch: pytest.MonkeyPatch, length: int, rows: int
):
    """A GPU computes while Python continues; the time of a prompt must include the computation."""
    context = opened(tiny)
    calls = Calls(monkeypatch, "llama_decode", *WAITING)
    context.evaluate([n % VOCABULARY for n in range(length)], rows)
    passes = [n for n, name in enumerate(calls.names) if name == "llama_decode"]
    assert len(passes) == -(-length // 32)
    assert all(calls.names[n + 1] in WAITING for n in passes)
    context.close()


def test_an_interrupt_acts_between_chunks_if_a_pass_cannot_be_aborted(tiny: Model, monkeypatch: pytest.MonkeyPatch):
    """A GPU's pass cannot be aborted, but a draft that reads a long text within a round must stop soon."""
    monkeypatch.setattr("spectui.llama.context._ABORT", llama.ggml_abort_callback())
    interrupt = Interrupt()
    context = opened(tiny, interrupt=interrupt)
    context.evaluate([1, 2, 3], 0)
    calls = Calls(monkeypatch, "llama_decode")
    calls.hook = interrupt.set
    with pytest.raises(Interrupted):
        context.evaluate([n % VOCABULARY for n in range(150)], 1)
    assert calls.names == ["llama_decode"]
    assert context.tokens == [1, 2, 3] and held(context) == 3
    interrupt.clear()
    calls.hook = lambda: None
    assert context.evaluate([4], 1).shape == (1, VOCABULARY)
    context.close()


def test_rope_scaling_extends_the_context_that_a_model_was_trained_with(tmp_path: Path) -> None:
    def yarn(writer: gguf.GGUFWriter) -> None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(512)

    lengths = []
    for name, keys in (("plain", lambda _: None), ("yarn", yarn)):
        model = Model(str(write_model(tmp_path / f"{name}.gguf", keys=keys)), extra_buffers=False)
        lengths.append((model.trained_ctx, model.scaled_ctx))
        model.close()
    assert lengths == [(512, 512), (512, 2048)]


@pytest.mark.parametrize(
    ("devices", "advice"), [([], "choose a smaller quantisation"), (None, "lower -ngl, or choose a smaller quantisation")]
)
def test_weights_that_do_not_fit_are_no_matter_of_layers_where_no_gpu_has_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: list[Device] | None, advice: str
) -> None:
    path = str(write_model(tmp_path / "model.gguf"))
    monkeypatch.setattr(llama, "llama_model_load_from_file", lambda *_: None)
    monkeypatch.setattr("spectui.llama.model.first_error", lambda: "unable to allocate a buffer")
    with pytest.raises(TooLargeError, match=rf"does not fit into memory \(unable .*\): {advice}\.$"):
        Model(path, on_devices=devices)
