"""spectui's sampler chain against llama.cpp's own: the same tokens kept, with the same probabilities."""

import ctypes
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spectui.knobs import Knobs
from spectui.llama import selftest
from spectui.llama.context import Context
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import llama
from spectui.llama.model import Model
from spectui.speculation.sampling import PENALTY_WINDOW, distribution, penalised
from tests.helpers.smollm2 import SNAKE, setup

Row = NDArray[np.float32]

CELL = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""llama_token_data."""

EDGE = 2e-4
"""llama.cpp adds probabilities up in float32, 49,152 of them: so near to top-p either answer is right."""


def llama_cpps(row: Row, knobs: Knobs, history: Sequence[int]) -> dict[int, float]:
    """Token -> probability behind llama.cpp's chain."""
    params = llama.llama_sampler_chain_default_params()
    chain = llama.llama_sampler_chain_init(params)
    for sampler in (
        llama.llama_sampler_init_penalties(len(row), PENALTY_WINDOW, *penalties(knobs)),
        llama.llama_sampler_init_top_k(knobs.top_k),
        llama.llama_sampler_init_top_p(knobs.top_p, 1),
        llama.llama_sampler_init_min_p(knobs.min_p, 1),
        llama.llama_sampler_init_temp(knobs.temperature),
        llama.llama_sampler_init_dist(0),  # it turns the logits that are left into probabilities
    ):
        llama.llama_sampler_chain_add(chain, sampler)
    for token in history:
        llama.llama_sampler_accept(chain, token)
    cells = np.zeros(len(row), CELL)
    cells["id"] = np.arange(len(row))
    cells["logit"] = row
    array = llama.llama_token_data_array()
    array.data = ctypes.cast(cells.ctypes.data, llama.llama_token_data_p)
    array.size = len(row)
    array.selected = -1
    array.sorted = False
    llama.llama_sampler_apply(chain, ctypes.byref(array))
    left = np.ctypeslib.as_array(ctypes.cast(array.data, ctypes.POINTER(ctypes.c_uint8)), (array.size * CELL.itemsize,))
    found = {int(cell["id"]): float(cell["p"]) for cell in left.view(CELL)}
    llama.llama_sampler_free(chain)
    return found


def penalties(knobs: Knobs) -> tuple[float, float, float]:
    """In the order of llama.cpp's sampler."""
    return knobs.repeat_penalty, knobs.frequency_penalty, knobs.presence_penalty


def spectuis(row: Row, knobs: Knobs, history: Sequence[int]) -> dict[int, float]:
    """Token -> probability behind spectui's."""
    ids, log_p = distribution(penalised(row, knobs, history), knobs)
    return dict(zip(ids.tolist(), np.exp(log_p).tolist(), strict=True))


def agree(row: Row, knobs: Knobs, history: Sequence[int]) -> None:
    theirs, ours = llama_cpps(row, knobs, history), spectuis(row, knobs, history)
    assert sum(ours.values()) == pytest.approx(1)
    seen = penalised(row, knobs, history)
    if set(theirs) != set(ours):
        # Equal logits at a cut: either may be kept, as many of them, and with the same probability.
        # A rounding at a cut: one more token, and only where the cut is within the rounding.
        event("the sets differ")
        assert abs(len(theirs) - len(ours)) <= 1 or near_a_cut(seen, knobs)
        for one, other in ((theirs, ours), (ours, theirs)):
            rest = [token for token in one if token not in other]
            least = min(seen[token] for token in other)
            assert all(seen[token] <= least + 1e-5 for token in rest)
        if len(theirs) != len(ours):
            assert near_a_cut(seen, knobs)
            return
        assert sorted(theirs.values()) == pytest.approx(sorted(ours.values()), abs=1e-4)
        return
    for token, p in theirs.items():
        assert ours[token] == pytest.approx(p, abs=1e-4), token


def near_a_cut(row: Row, knobs: Knobs) -> bool:
    """Does top-p or min-p cut so near to a token that float32 decides?"""
    logits = np.sort(row.astype(np.float64))[::-1][: knobs.top_k or None]
    share = np.exp(logits - logits[0])
    held = np.cumsum(share) / share.sum()
    at_min_p = np.abs(logits - logits[0] - np.log(max(knobs.min_p, 1e-30))).min() < 1e-5
    return bool(np.abs(held - knobs.top_p).min() < EDGE or at_min_p)


@cache
def real_rows() -> list[Row]:
    """SmolLM2's logits along a prompt."""
    model = Model(setup().model or "", extra_buffers=selftest.run().extra_buffers)
    context = Context(model, Interrupt(), n_ctx=256, rows=8, threads=1, ubatch=32)
    tokens = model.tokenize(f"{SNAKE} and explain each line of it, as to a child", special=False)
    rows = list(context.evaluate(tokens, rows=8).copy())
    context.close()
    model.close()
    return rows


knobs = st.builds(
    Knobs,
    temperature=st.sampled_from([0.05, 0.7, 0.8, 1.0, 1.7, 5.0]),
    top_k=st.one_of(st.sampled_from([0, 1, 2, 40, 100, 1000]), st.integers(1, 1000)),
    top_p=st.one_of(st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.999, 1.0]), st.floats(0.01, 1.0)),
    min_p=st.one_of(st.sampled_from([0.0, 0.05, 0.5, 1.0]), st.floats(0.001, 1.0)),
    repeat_penalty=st.sampled_from([1.0, 0.5, 1.1, 1.5, 3.0]),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.5, -1.0, 0.3]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.7, -0.4, 2.0]),
)


@given(place=st.integers(0, 7), knobs=knobs, history=st.lists(st.integers(0, 49_151), max_size=100), likely=st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_on_real_logits(place: int, knobs: Knobs, history: list[int], likely: bool):
    row = real_rows()[place]
    if likely:  # random ids hardly ever meet a token that counts
        history = [*history, *np.argsort(-row)[:30:3].tolist()]
    agree(row, knobs, history)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_vocab=st.sampled_from([2, 12, 513, 3000]),
    spread=st.sampled_from([0.1, 1.0, 4.0, 15.0]),
    knobs=knobs,
    history=st.lists(st.integers(0, 11), max_size=80),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_on_random_logits(seed: int, n_vocab: int, spread: float, knobs: Knobs, history: list[int]):
    row = np.random.default_rng(seed).normal(0, spread, n_vocab).astype(np.float32)
    agree(row, knobs, [token for token in history if token < n_vocab])


@given(logits=st.lists(st.sampled_from([-2.0, 0.0, 1.0, 3.0]), min_size=2, max_size=30), knobs=knobs)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_on_equal_logits(logits: list[float], knobs: Knobs):
    agree(np.array(logits, np.float32), knobs, [0, 1])


def test_the_window_of_the_repeat_penalty_is_llama_cpps():
    row = np.array([2.0, 1.9, -1.0, 0.5], np.float32)
    knobs = Knobs(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=2.0)
    for length in (63, 64, 65):
        history = [0] + [3] * (length - 1)
        agree(row, knobs, history)
    assert spectuis(row, knobs, [0] + [3] * 63) != pytest.approx(spectuis(row, knobs, [0] + [3] * 64))
