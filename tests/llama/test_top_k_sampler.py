"""What a device keeps of each row of logits is what looking at the whole row finds."""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from spectui.knobs import Knobs
from spectui.llama import selftest
from spectui.llama.context import Context
from spectui.llama.devices import rpc
from spectui.llama.devices.memory_use import logged
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import listening, llama
from spectui.llama.model import Model
from spectui.speculation.choice import choose, choose_rows, evaluate_rows, tokens_to_keep
from spectui.speculation.top_k import TopK, top_k
from tests.helpers.rpc_server import LIBRARIES, Server, needs_server
from tests.helpers.smollm2 import alone, setup
from tests.llama.ggufs import write_model

PROMPT = [5 + i * 7 % 50 for i in range(30)]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    model = Model(setup().model or "", extra_buffers=selftest.run().extra_buffers)
    yield model
    model.close()


@pytest.fixture
def context(model: Model) -> Iterator[Context]:
    """Behind a prompt of 30 tokens."""
    context = Context(model, Interrupt(), n_ctx=256, rows=9, ubatch=32, threads=1, keeps=tokens_to_keep(Knobs()) or 0)
    context.evaluate(PROMPT, 0)
    yield context
    context.close()


def test_the_memory_of_all_rows_is_counted(model: Model):
    """llama.cpp logs that of one row, and needs more in the first long pass."""
    for keeps in (0, 104):
        log: list[str] = []
        with listening(log.append):
            context = Context(model, Interrupt(), n_ctx=256, rows=9, ubatch=32, keeps=keeps)
        counted = sum(use.compute for use in context.memory) - sum(use.compute for use in logged(log))
        of_one_kind = 9 * 4 * model.n_vocab
        if keeps:  # the buffer has four kinds of results; the candidates come last
            assert isinstance(context.submit(PROMPT[:9], 9, keeps)(), TopK)
            last = llama.llama_get_sampled_candidates_ith(context.handle, 0)
            begun = ctypes.cast(llama.llama_get_logits(context.handle), ctypes.c_void_p).value or 0
            taken = ctypes.addressof(last.contents) + of_one_kind - begun
        else:
            taken = of_one_kind
        assert counted == pytest.approx(taken, rel=0.03), "the log has two decimals of a MiB"
        context.close()


def again(context: Context) -> Context:
    context.truncate(len(PROMPT))
    return context


def test_the_tokens_logits_and_sums_are_those_of_whole_rows(context: Context):
    for k, n in ((104, 1), (104, 3), (104, 9), (20, 1), (20, 4), (1, 2), (104, 1)):
        tokens = PROMPT[:n]
        found = again(context).submit(tokens, n, k)()
        assert isinstance(found, TopK)
        rows = np.array(again(context).evaluate(tokens, n))
        expected = top_k(rows, k)
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.logits.tolist() == expected.logits.tolist()
        total = np.log(np.exp(rows.astype(np.float64)).sum(axis=1))
        assert found.log_totals == pytest.approx(total, abs=1e-5)


def test_rows_behind_tokens_without_and_in_more_chunks_than_one(context: Context):
    found = again(context).submit(PROMPT * 2, 2, 104)()
    assert isinstance(found, TopK)
    expected = top_k(again(context).evaluate(PROMPT * 2, 2), 104)
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.logits.tolist() == expected.logits.tolist()


def test_servers_are_asked_only_where_nothing_is_read(context: Context, monkeypatch: pytest.MonkeyPatch):
    """An RPC server's answer costs each round the time of a message, and a draft's server may be drafting ahead."""
    asked: list[int] = []
    monkeypatch.setattr(rpc, "synchronise", lambda: asked.append(1))
    assert isinstance(again(context).submit(PROMPT[:3], 3, 104)(), TopK)
    again(context).evaluate(PROMPT[:3], 3)
    assert not asked
    again(context).evaluate(PROMPT[:3], 0)
    assert asked


def test_more_than_the_vocabulary_is_not_kept(context: Context):
    assert isinstance(context.submit(PROMPT, 1, context.n_vocab + 1)(), np.ndarray)


@pytest.mark.parametrize("temperature", [0.0, 0.8, 2.0])
@pytest.mark.parametrize("penalty", [1.0, 1.5])
def test_the_choices_and_confidences_are_those_of_whole_rows(context: Context, temperature: float, penalty: float):
    for seed in range(2):
        knobs = replace(Knobs(), temperature=temperature, repeat_penalty=penalty, seed=seed, min_p=0.0)
        tokens, whole, few = PROMPT[:9], list(PROMPT), list(PROMPT)
        rows = evaluate_rows(again(context), tokens, 9, knobs)
        assert isinstance(rows, TopK)
        chosen = []
        for choice in choose_rows(rows, knobs, few):
            few.append(choice.token)
            chosen.append(choice)
        confident = choose(rows.of(8), knobs, len(few), few)
        logits = again(context).evaluate(tokens, 9)
        for choice, other in zip(choose_rows(logits, knobs, whole), chosen, strict=True):
            whole.append(choice.token)
            assert choice.p == pytest.approx(other.p, rel=1e-4)
        assert whole == few
        assert choose(logits[8], knobs, len(whole), whole) == confident


@pytest.mark.parametrize("knobs", [Knobs(temperature=0.8, top_k=0), Knobs(temperature=0.8, repeat_penalty=0.9)])
def test_whole_rows_where_the_likeliest_tokens_do_not_tell_the_choice(context: Context, knobs: Knobs):
    assert not isinstance(evaluate_rows(again(context), PROMPT[:2], 2, knobs), TopK)


def test_nothing_is_kept_on_a_cpu(model: Model):
    assert not model.output_on_gpu
    context = Context(model, Interrupt(), n_ctx=64, rows=1, threads=1)
    assert isinstance(context.submit(PROMPT, 1, 104)(), np.ndarray)
    assert isinstance(evaluate_rows(context, PROMPT, 1, Knobs()), np.ndarray)
    context.close()


def likeliest(path: Path, forbidden: Sequence[int], keeps: int) -> TopK:
    """Of the row behind the prompt, from a model whose file forbids these tokens."""

    def keys(writer: GGUFWriter) -> None:
        if forbidden:
            writer.add_array("tokenizer.ggml.suppress_tokens", forbidden)

    model = Model(str(write_model(path, keys=keys)))
    context = Context(model, Interrupt(), n_ctx=64, rows=4, threads=1, keeps=keeps)
    rows = context.submit(PROMPT, 1, keeps or None)()
    found = rows if isinstance(rows, TopK) else top_k(rows.copy(), 104)
    assert (found.whole is None) == bool(keeps)
    context.close()
    model.close()
    return found


@pytest.mark.parametrize("keeps", [0, 104], ids=["whole rows", "the likeliest"])
def test_tokens_that_the_file_forbids_have_no_probability(tmp_path: Path, keeps: int):
    free = likeliest(tmp_path / "free.gguf", [], keeps)
    bound = likeliest(tmp_path / "bound.gguf", free.ids[0, :3].tolist(), keeps)
    assert bound.ids[0, :101].tolist() == free.ids[0, 3:].tolist()
    lost = np.exp(free.logits[0, :3] - free.log_total()).sum()
    assert bound.log_total() == pytest.approx(free.log_total() + np.log1p(-lost), abs=1e-4)


REPLY = """
import json, sys
from spectui.engine.events import Message, RoundDone
from spectui.engine.loading import models
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.llama.top_k_sampler import TopKSampler

kept = []
read = TopKSampler.read
TopKSampler.read = lambda self, context, first, rows, n: kept.append(rows) or read(self, context, first, rows, n)
found = {}
for name, keeps in (("kept", models.tokens_to_keep_on), ("whole", lambda model: 0)):
    models.tokens_to_keep_on = keeps
    events = []
    session = Session(events.append)
    session.load(Setup(**json.loads(sys.argv[1])))
    session.knobs = Knobs(temperature=0.3, seed=7, predict=40, policy="fixed", drafter="suffix", draft_max=4, p_min=0.0)
    kept.clear()
    session.generate([Message("user", "Say one two three one two three one two")])
    rounds = [event.round for event in events if isinstance(event, RoundDone)]
    found[name] = [token.id for round in rounds for token in round.tokens], len(rounds), kept[:]
    session.close()
print(json.dumps(found))
"""


@needs_server
def test_a_device_keeps_them_for_each_round_and_the_text_is_the_same():
    with Server() as server:
        given = {"model": alone().model, "ctx_size": 256, "no_profile": "on", "rpc": server.address}
        done = subprocess.run(
            [sys.executable, "-c", REPLY, json.dumps(given)],
            env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES), "LLAMA_CPP_LIB_PATH": str(LIBRARIES)},
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    (tokens, rounds, kept), (whole_tokens, _, none) = found["kept"], found["whole"]
    assert len(kept) == rounds
    assert max(kept) > 1
    assert tokens == whole_tokens
    assert not none
