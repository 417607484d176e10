"""Contexts that cannot be truncated are restored from a checkpoint, never corrupted. With a tiny Mamba and a tiny hybrid."""

import ctypes
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from spectui.engine.costs import measuring
from spectui.errors import SpectuiError
from spectui.gguf_files.header import read_header
from spectui.knobs import Knobs, Setup
from spectui.llama.context import Context
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import llama
from spectui.llama.model import Model
from spectui.speculation.evaluator import Interrupted, feed
from spectui.speculation.policies.strategy import Drafted, Strategy
from spectui.speculation.records import Candidate, Reason
from spectui.speculation.statistics import Statistics
from tests.helpers.smollm2 import opened
from tests.llama.ggufs import add_vocabulary, finished, sized
from tests.toys import decode, emitted

N_VOCAB, WIDTH, INNER, STATE, RANK, KERNEL = 261, 32, 64, 8, 4, 4
HEAD = 8
KV_HEADS = [0, 2, 0]


def write(
    path: Path, architecture: str, layers: int, feed_forward: int, shapes: dict[str, tuple[int, ...]], ones: dict[str, int],
    template: str | None = None,
) -> GGUFWriter:  # fmt: skip
    """The head and the tensors: random ones of these shapes, and norms of these widths. Keys may be added. `template`: of a
    model that chats; others have no texts."""
    numbers = np.random.default_rng(1)
    writer = sized(path, architecture, layers, WIDTH, feed_forward)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(N_VOCAB)
    if template is None:
        writer.add_tokenizer_model("no_vocab")
    else:
        add_vocabulary(writer)
        writer.add_chat_template(template)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", (numbers.standard_normal(shape) / 2).astype(np.float32))
    for name, width in ones.items():
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
    return writer


def write_mamba(path: Path) -> None:
    """One layer of Mamba without a vocabulary's texts: all of it is recurrent."""
    shapes = {
        "token_embd": (N_VOCAB, WIDTH),
        "output": (N_VOCAB, WIDTH),
        "blk.0.ssm_in": (2 * INNER, WIDTH),
        "blk.0.ssm_conv1d": (INNER, KERNEL),
        "blk.0.ssm_x": (RANK + 2 * STATE, INNER),
        "blk.0.ssm_dt": (INNER, RANK),
        "blk.0.ssm_out": (WIDTH, INNER),
    }
    writer = write(path, "mamba", 1, 0, shapes, {"output_norm": WIDTH, "blk.0.attn_norm": WIDTH})
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(KERNEL)
    writer.add_ssm_inner_size(INNER)
    writer.add_ssm_state_size(STATE)
    writer.add_ssm_time_step_rank(RANK)
    numbers = np.random.default_rng(2)
    for name in ("ssm_conv1d.bias", "ssm_dt.bias", "ssm_d"):
        writer.add_tensor(f"blk.0.{name}", (numbers.standard_normal(INNER) / 2).astype(np.float32))
    writer.add_tensor("blk.0.ssm_a", -np.exp(numbers.standard_normal((INNER, STATE))).astype(np.float32))
    finished(writer, path)


def write_lfm2(path: Path, template: str | None = None) -> None:
    """A convolution, attention, a convolution: a hybrid, whose heads are counted per layer. `template`: as above."""
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (N_VOCAB, WIDTH)}
    ones = {"token_embd_norm": WIDTH}
    for layer, kv_heads in enumerate(KV_HEADS):
        block = f"blk.{layer}"
        shapes |= {f"{block}.ffn_gate": (INNER, WIDTH), f"{block}.ffn_up": (INNER, WIDTH)}
        shapes |= {f"{block}.ffn_down": (WIDTH, INNER)}
        ones |= {f"{block}.ffn_norm": WIDTH, f"{block}.attn_norm": WIDTH}
        if kv_heads:
            shapes |= {f"{block}.attn_{name}": (kv_heads * HEAD, WIDTH) for name in "kv"}
            shapes |= {f"{block}.attn_{name}": (WIDTH, WIDTH) for name in ("q", "output")}
            ones |= {f"{block}.attn_{name}_norm": HEAD for name in "qk"}
        else:
            shapes |= {f"{block}.shortconv.conv": (WIDTH, KERNEL), f"{block}.shortconv.in_proj": (3 * WIDTH, WIDTH)}
            shapes |= {f"{block}.shortconv.out_proj": (WIDTH, WIDTH)}
    writer = write(path, "lfm2", len(KV_HEADS), INNER, shapes, ones, template)
    writer.add_head_count(WIDTH // HEAD)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_shortconv_l_cache(KERNEL)
    finished(writer, path)


WRITERS = {"mamba": write_mamba, "lfm2": write_lfm2}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Model]]:
    found = {}
    for name, write_it in WRITERS.items():
        path = tmp_path_factory.mktemp(name) / "model.gguf"
        write_it(path)
        found[name] = Model(str(path), extra_buffers=False)
    yield found
    for model in found.values():
        model.close()


@pytest.fixture(params=WRITERS)
def model(request: pytest.FixtureRequest, models: dict[str, Model]) -> Model:
    found = models[request.param]
    assert found.recurrent
    return found


@pytest.fixture
def memory(model: Model) -> Iterator[Context]:
    context = Context(model, Interrupt(), n_ctx=256, rows=9, threads=1)
    yield context
    context.close()


class HalfRight:
    """Drafts what the text will be, but for every third place."""

    def __init__(self, text: list[int]) -> None:
        self.text = text

    def prepare(self, tokens, cancelled):
        pass

    def propose(self, tokens, knobs):
        for place in range(len(tokens), len(self.text)):
            token = self.text[place]
            yield Candidate((token + 1) % N_VOCAB if place % 3 == 0 else token, 1.0, "model")


class Drafting(Strategy):
    """A strategy with that drafter."""

    def __init__(self, drafter: HalfRight) -> None:
        from spectui.speculation.policies.cost_model import CostModel

        super().__init__(None, CostModel())
        self._drafter = drafter

    def draft(self, text, knobs, limit):
        drafted = [*islice(self._drafter.propose(text, knobs), limit)]
        return Drafted(drafted, len(drafted), Reason("draft"))


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_drafts_on_a_recurrent_target_change_no_token(memory: Context, temperature: float):
    prompt = [3, 1, 4, 1, 5, 9, 2, 6]
    knobs = Knobs(policy="fixed", drafter="off", temperature=temperature, seed=3, predict=60, draft_max=8, p_min=0.0)
    decoder, plain, _ = decode(memory, prompt, knobs)
    memory.clear()
    _, rounds, _ = decode(memory, prompt, knobs, strategy=Drafting(HalfRight(decoder.tokens)))
    assert emitted(rounds) == emitted(plain)
    statistics = Statistics.of(rounds)
    assert statistics.accepted > 10
    assert statistics.rejected > 10


def test_a_checkpoint_restores_the_state_bit_for_bit(memory: Context):
    memory.evaluate([1, 2, 3], 0)
    expected = memory.evaluate([4], 1).copy()
    memory.clear()
    memory.evaluate([1, 2, 3], 0)
    memory.evaluate([9, 8, 7, 6, 5, 4], 6)
    memory.truncate(4)
    # the checkpoint lies before the draft, so the first of its tokens goes too and is evaluated again by who needs it
    assert memory.tokens == [1, 2, 3]
    assert np.array_equal(memory.evaluate([4], 1), expected)


def test_checkpoints_share_their_memory(memory: Context, monkeypatch: pytest.MonkeyPatch):
    """Each round with a draft makes one."""
    real, used = llama.llama_state_seq_get_data_ext, []

    def saved(*given):
        used.append(ctypes.addressof(given[1].contents))
        return real(*given)

    monkeypatch.setattr(llama, "llama_state_seq_get_data_ext", saved)
    memory.evaluate([1, 2, 3], 0)
    for _ in range(4):
        memory.evaluate([9, 8, 7, 6, 5, 4], 6)
        memory.truncate(4)
    assert len(used) == 4 and len(set(used)) == 1


@pytest.mark.parametrize("drafted", [1, 2, 4])
def test_a_hybrid_drops_a_short_draft_without_a_second_pass(models: dict[str, Model], drafted: int):
    memory = Context(models["lfm2"], Interrupt(), n_ctx=256, rows=9, threads=1)
    try:
        memory.evaluate([1, 2, 3, 4], 0)
        expected = memory.evaluate([5, 6], 2).copy()
        memory.clear()
        memory.evaluate([1, 2, 3], 0)
        memory.evaluate([4, 9, 8, 7, 6][: drafted + 1], drafted + 1)
        memory.truncate(4)
        assert memory.tokens == [1, 2, 3, 4]
        assert np.array_equal(memory.evaluate([5, 6], 2), expected)
    finally:
        memory.close()


@pytest.mark.parametrize("passes", [[[4], [5], [6]], [[4, 5], [6]], [[4, 5, 6]]])
@pytest.mark.parametrize("length", [3, 4, 5])
def test_no_token_of_an_earlier_pass_is_taken_back(models: dict[str, Model], passes: list[list[int]], length: int):
    """llama.cpp would, to a state that is another's."""
    memory = Context(models["lfm2"], Interrupt(), n_ctx=256, rows=9, threads=1)
    text = [1, 2, 3, 4, 5, 6]
    memory.evaluate(text[:length], 0)
    expected = memory.evaluate([9], 1).copy()
    memory.clear()
    memory.evaluate(text[:3], 0)
    for tokens in passes:
        memory.evaluate(tokens, 1)
    memory.truncate(length)
    assert np.allclose(memory.evaluate([*text[len(memory.tokens) : length], 9], 1), expected, atol=1e-3)
    memory.close()


def test_the_states_that_are_kept_are_gone_back_to(memory: Context):
    text = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
    rows = {}
    for length in (4, 9):
        memory.clear()
        memory.evaluate(text[:length], 0)
        rows[length] = memory.evaluate([7], 1).copy()
    memory.clear()
    memory.keep_at = [4, 9]
    memory.evaluate(text, 0)
    memory.evaluate([7], 1)
    for length, left in ((11, 9), (8, 4), (3, 0)):
        memory.truncate(length)
        assert memory.tokens == text[:left]
        if left:
            assert np.allclose(memory.evaluate([7], 1), rows[left], atol=1e-3)


@pytest.mark.parametrize("n", [1, 3, 9])
def test_passes_behind_a_context_are_measured_behind_that_context(memory: Context, n: int):
    text = [2 + number % 30 for number in range(20)]
    measuring.fill(memory, text, 20, lambda: False)
    for _ in range(2):
        memory.evaluate(text[:n], n)
        memory.truncate(20)
        assert memory.tokens == text


def test_a_draft_goes_back_to_the_text_that_it_drafted_behind(model: Model):
    draft = Context(model, Interrupt(), n_ctx=64, rows=1, threads=1)
    draft.evaluate([1, 2, 3, 4, 5], 0)
    expected = draft.evaluate([6], 1).copy()
    draft.truncate(0)
    draft.evaluate([1, 2, 3, 4], 1)
    for drafted in (7, 8, 9):
        draft.evaluate([drafted], 1)
    draft.truncate(4)
    assert draft.tokens == [1, 2, 3, 4]
    assert np.allclose(draft.evaluate([5, 6], 1), expected, atol=1e-3)
    draft.close()


@pytest.mark.parametrize("stopped", [[4], [9, 8, 7]])
def test_an_interrupted_pass_leaves_the_state_unchanged(model: Model, stopped: list[int]):
    interrupt = Interrupt()
    memory = Context(model, interrupt, n_ctx=256, rows=9, threads=1)
    try:
        memory.evaluate([1, 2, 3], 0)
        expected = memory.evaluate([4], 1).copy()
        memory.clear()
        memory.evaluate([1, 2, 3], 0)
        interrupt.set()
        with pytest.raises(Interrupted):
            memory.evaluate(stopped, len(stopped))
        interrupt.clear()
        feed(memory, [1, 2, 3], lambda: False)
        assert np.array_equal(memory.evaluate([4], 1), expected)
    finally:
        memory.close()


def test_a_model_without_texts_is_refused_as_a_target(tmp_path: Path):
    write_mamba(tmp_path / "mamba.gguf")
    assert read_header(tmp_path / "mamba.gguf").problem == "has no vocabulary of text: choose a chat model"
    with pytest.raises(SpectuiError, match="has no vocabulary of text: choose a chat model"):
        opened(Setup(model=str(tmp_path / "mamba.gguf")))


@pytest.mark.parametrize("function", ["llama_state_seq_get_data_ext", "llama_state_seq_set_data_ext"])
@pytest.mark.parametrize("lacks", [1, None])
def test_a_checkpoint_of_another_size_is_not_used(
    memory: Context, function: str, lacks: int | None, monkeypatch: pytest.MonkeyPatch
):
    """Whether it was saved or put back so: nothing of it (None), or all but a byte."""
    memory.evaluate([1, 2, 3], 0)
    expected = memory.evaluate([4], 1).copy()
    memory.clear()
    real = getattr(llama, function)

    def other_size(*arguments):
        done = real(*arguments)
        return done - lacks if lacks else 0

    monkeypatch.setattr(llama, function, other_size)
    memory.evaluate([1, 2, 3], 0)
    memory.evaluate([9, 8, 7, 6, 5, 4], 6)
    memory.truncate(4)
    assert memory.tokens == []
    memory.evaluate([1, 2, 3], 0)
    assert np.array_equal(memory.evaluate([4], 1), expected)


def test_without_a_checkpoint_the_context_is_emptied_not_corrupted(memory: Context):
    memory.evaluate([1, 2, 3, 4, 5, 6, 7, 8], 0)
    memory.truncate(2)
    assert memory.tokens == []
    fresh = memory.evaluate([1, 2, 6], 1).copy()
    memory.clear()
    assert np.array_equal(memory.evaluate([1, 2, 6], 1), fresh)
