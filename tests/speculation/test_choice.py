"""The choice rule samples p exactly, and a rule that does not is caught."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.knobs import Knobs
from spectui.speculation.choice import NumericsError, choose
from spectui.speculation.noise import gumbel
from spectui.speculation.sampling import confidence, distribution, penalised
from spectui.speculation.top_k import top_k

N = 5_000
ROW = np.array([1.0, 0.2, -0.5, 2.0, 0.0, -1.0, 1.5, 0.7], np.float32)


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("vary", ["seed", "position"])
def test_choose_samples_p(vary):
    knobs = Knobs(temperature=0.9, top_k=0, top_p=1.0, min_p=0.0)
    p = np.exp(ROW / 0.9)
    p /= p.sum()
    counts, biased = np.zeros(len(ROW)), np.zeros(len(ROW))
    for number in range(N):
        seed, position = (number, 17) if vary == "seed" else (17, number)
        counts[choose(ROW, Knobs(**{**knobs.__dict__, "seed": seed}), position, [])[0]] += 1
        # the negative control: noise added to p instead of log p
        noise = gumbel(seed, position, np.arange(len(ROW)))
        biased[(p + noise).argmax()] += 1
    # 7 degrees of freedom: 24.3 is exceeded once in a thousand
    assert chi_square(counts, p * N) < 24.3
    assert chi_square(biased, p * N) > 50


def test_noise_at_neighbouring_positions_is_independent():
    ids = np.arange(4)
    a = np.array([gumbel(1, position, ids) for position in range(4000)])
    correlation = np.corrcoef(np.hstack([a[:-1], a[1:]]).T)
    assert np.abs(correlation - np.eye(8)).max() < 0.08


def test_temperature_zero_is_argmax():
    assert choose(ROW, Knobs(temperature=0), 5, [])[0] == 3


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_refused(bad):
    row = ROW.copy()
    row[2] = bad
    for temperature in (0.0, 0.8):
        with pytest.raises(NumericsError):
            choose(row, Knobs(temperature=temperature, seed=1), 5, [])


@given(st.integers(1, 3000), st.integers(1, 400), st.integers(0, 10_000), st.booleans())
def test_the_likeliest_tokens_are_a_stable_sort(n, k, seed, ties):
    row = np.random.default_rng(seed).normal(size=n).astype(np.float32)
    if ties:
        row = np.round(row, 1)
    assert top_k(row[None], k).ids[0].tolist() == np.argsort(-row, kind="stable")[:k].tolist()


@given(st.integers(0, 1000), st.floats(0.1, 0.99), st.sampled_from([0.0, 0.1]), st.sampled_from([0.5, 1.0, 2.0]))
def test_distribution_without_top_k_is_the_sorted_definition(seed, top_p, min_p, temperature):
    row = (np.random.default_rng(seed).normal(size=2000) * 3).astype(np.float32)
    ids, log_p = distribution(row, Knobs(top_k=0, top_p=top_p, min_p=min_p, temperature=temperature))
    order = np.argsort(-row, kind="stable")
    share = np.exp(row[order].astype(np.float64) - row.max())
    share /= share.sum()
    kept = order[: int(np.searchsorted(np.cumsum(share), top_p)) + 1]
    if min_p:
        kept = kept[np.exp(row[kept] - row.max()) >= min_p]
    assert abs(len(ids) - len(kept)) <= 1  # float32 sums at the edge
    assert ids[: len(kept) - 1].tolist() == kept[:-1].tolist()[: len(ids)]
    assert np.exp(log_p).sum() == pytest.approx(1.0)


def test_penalty_divides_and_multiplies_and_copies():
    row = np.array([2.0, -2.0, 1.0], np.float32)
    assert penalised(row, Knobs(repeat_penalty=2.0), [0, 1]).tolist() == [1.0, -4.0, 1.0]
    assert row.tolist() == [2.0, -2.0, 1.0]
    assert penalised(row, Knobs(repeat_penalty=2.0), [0] + [2] * 64).tolist() == [2.0, -2.0, 0.5]


def test_confidence_is_the_share_among_ten():
    row = np.arange(20, dtype=np.float32)
    share = np.exp(np.arange(10.0))
    assert confidence(top_k(row[None], 10), 19) == pytest.approx(share[-1] / share.sum())
    assert confidence(top_k(row[None], 10), 3) == 0.0
