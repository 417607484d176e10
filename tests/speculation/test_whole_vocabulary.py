"""Without top-k any token can be chosen. Few are looked at, and the choice is that of looking at all."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.knobs import Knobs
from spectui.speculation import choice, noise
from spectui.speculation.choice import choose, choose_rows
from spectui.speculation.noise import gumbel, perhaps_louder

ADVISED = Knobs(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=1)
"""gpt-oss's."""


def by_looking_at_all(row: np.ndarray, knobs: Knobs, position: int, history: list[int]) -> int:
    """The definition: every token's logit under the penalties, top-p and min-p, divided by the temperature, and its noise."""
    logits = row.astype(np.float32)
    recent = history[-64:]
    for token in set(recent):
        repeat = np.float32(knobs.repeat_penalty)
        logits[token] = logits[token] * repeat if logits[token] <= 0 else logits[token] / repeat
        logits[token] -= np.float32(recent.count(token)) * np.float32(knobs.frequency_penalty) + np.float32(
            knobs.presence_penalty
        )
    scores = logits.astype(np.float64) - logits.max()
    left = scores >= np.log(max(knobs.min_p, 1e-300))
    if knobs.top_p < 1.0:
        order = np.argsort(-logits, kind="stable")
        share = np.exp(scores[order])
        total = np.exp(logits - logits.max()).sum(dtype=np.float64)  # as the rule adds them up
        left[order[1:]] &= np.cumsum(share)[:-1] < knobs.top_p * total
    noisy = np.where(left, scores / knobs.temperature, -np.inf) + gumbel(knobs.seed, position, np.arange(len(row)))
    return int(noisy.argmax())


def rows_like(kind: str, seed: int, n: int, vocabulary: int) -> np.ndarray:
    """Rows of logits: of a model that is sure, of one that is not, all alike, or with steps of equal ones."""
    spread = {"sure": 4.0, "unsure": 1.5, "flat": 0.01, "steps": 2.0}[kind]
    rows = np.random.default_rng(seed).normal(0, spread, (n, vocabulary))
    if kind == "steps":
        rows = np.round(rows)
    return rows.astype(np.float32)


samplers = st.builds(
    Knobs,
    temperature=st.sampled_from([0.05, 0.7, 1.0, 2.0, 5.0]),
    top_k=st.just(0),
    top_p=st.sampled_from([1.0, 1.0, 1.0, 0.95, 0.5]),
    min_p=st.sampled_from([0.0, 0.0, 0.0, 0.05, 0.5]),
    repeat_penalty=st.sampled_from([1.0, 1.0, 0.8, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.5, -0.5]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.5]),
    seed=st.integers(0, 2**32 - 1),
)


@given(
    samplers, st.sampled_from(["sure", "unsure", "flat", "steps"]), st.integers(0, 1000),
    st.sampled_from([2, 30, 1500, 40_000, 151_936]), st.integers(0, 10_000),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_token_is_that_of_looking_at_all(knobs, kind, seed, vocabulary, position):
    row = rows_like(kind, seed, 1, vocabulary)[0]
    history = [*np.argsort(-row)[:3].tolist(), 1, 0, 1]
    expected = by_looking_at_all(row, knobs, position, history)
    assert choose(row, knobs, position, history)[0] == expected


def test_the_rows_of_a_pass_are_those_of_looking_at_all():
    for seed in range(40):
        rows, history = rows_like("unsure", seed, 6, 30_011), [5]
        knobs = replace(ADVISED, seed=seed)
        for row, found in zip(rows, choose_rows(rows, knobs, history), strict=True):
            assert found.token == by_looking_at_all(row, knobs, len(history), history)
            history.append(found.token)


def test_a_row_whose_other_tokens_cannot_be_chosen():
    """A draft of another vocabulary lacks most tokens."""
    row = np.full(5000, -np.inf, np.float32)
    row[[7, 4000]] = 1.0, 1.5
    chosen = {choose(row, ADVISED, position, [])[0] for position in range(50)}
    assert chosen == {7, 4000}


@pytest.mark.parametrize("n", [1, 5, 16_384, 16_385, 50_000])
@pytest.mark.parametrize("bound", [-50.0, -3.0, 0.0, 5.0, 9.0, 40.0, np.inf])
def test_no_louder_noise_is_missed_and_little_else_is_named(n, bound):
    for position in (0, 1, 77_777):
        loud = np.flatnonzero(gumbel(3, position, np.arange(n)) > bound)
        found = perhaps_louder(3, position, bound, n)
        assert set(loud.tolist()) <= set(found.tolist())
        assert len(found) <= len(loud) + 1
        assert found.tolist() == sorted(set(found.tolist()))


@pytest.mark.parametrize(("kind", "most"), [("sure", 2_000), ("unsure", 30_000)])
def test_noise_is_calculated_for_few_of_the_tokens(kind, most, monkeypatch):
    asked: list[int] = []
    monkeypatch.setattr(choice, "gumbel", lambda seed, at, ids: asked.append(ids.size) or noise.gumbel(seed, at, ids))
    for position, row in enumerate(rows_like(kind, 2, 20, 151_936)):
        choose(row, ADVISED, position, [])
    assert sum(asked) / 20 < most
