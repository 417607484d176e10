"""The choice rule samples p exactly, a rule that does not is caught, and every way to choose gives what the rule says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.knobs import Knobs
from spectui.speculation import choice, noise
from spectui.speculation.choice import NumericsError, choose, choose_rows, needed
from spectui.speculation.noise import gumbel, perhaps_louder
from spectui.speculation.sampling import confidence, distribution, penalised
from spectui.speculation.top_k import TopK, top_k

N = 5_000
ROW = np.array([1.0, 0.2, -0.5, 2.0, 0.0, -1.0, 1.5, 0.7], np.float32)
WHOLE = Knobs(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=1)
"""Any token can be chosen. gpt-oss's."""


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("vary", ["seed", "position"])
def test_choose_samples_p(vary):
    knobs = replace(WHOLE, temperature=0.9)
    p = np.exp(ROW / 0.9)
    p /= p.sum()
    counts, biased = np.zeros(len(ROW)), np.zeros(len(ROW))
    for number in range(N):
        seed, position = (number, 17) if vary == "seed" else (17, number)
        counts[choose(ROW, replace(knobs, seed=seed), position, [])[0]] += 1
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


def by_looking_at_all(row: np.ndarray, knobs: Knobs, position: int, history: list[int]) -> int:
    """The definition: every token's logit under the penalties, top-k, top-p and min-p, divided by the temperature, and its
    noise."""
    logits = row.copy()
    recent = history[-64:]
    for token in {*recent} & {*range(len(row))}:
        repeat = np.float32(knobs.repeat_penalty)
        logits[token] = logits[token] * repeat if logits[token] <= 0 else logits[token] / repeat
        logits[token] -= np.float32(recent.count(token)) * np.float32(knobs.frequency_penalty) + np.float32(
            knobs.presence_penalty
        )
    order = np.argsort(-logits, kind="stable")
    if knobs.temperature == 0.0:
        return int(order[0])
    order = order[: knobs.top_k or None]
    scores = logits[order].astype(np.float64) - logits.max()
    share = np.exp(scores)
    left = scores >= np.log(max(knobs.min_p, 1e-300))
    if knobs.top_p < 1.0:
        # as the rule adds them up
        total = share.sum() if knobs.top_k else np.exp(logits - logits.max()).sum(dtype=np.float64)
        left[1:] &= np.cumsum(share)[:-1] < knobs.top_p * total
    noisy = np.where(left, scores / knobs.temperature, -np.inf) + gumbel(knobs.seed, position, order)
    return int(order[noisy.argmax()])


def rows_like(kind: str, seed: int, n: int, vocabulary: int) -> np.ndarray:
    """Rows of logits: of a model that is sure, of one that is not, all alike, or with steps of equal ones."""
    spread = {"sure": 4.0, "unsure": 1.5, "flat": 0.01, "steps": 2.0}[kind]
    rows = np.random.default_rng(seed).normal(0, spread, (n, vocabulary))
    return (np.round(rows) if kind == "steps" else rows).astype(np.float32)


def log_totals(found: TopK) -> np.ndarray:
    return np.array([found.of(index).log_total() for index in range(len(found.ids))])


def kept_of(found: TopK) -> TopK:
    """The same without the whole rows, as a device keeps it."""
    return found._replace(whole=None, log_totals=log_totals(found))


samplers = st.builds(
    Knobs,
    temperature=st.sampled_from([0.0, 0.05, 0.7, 1.0, 2.0, 5.0]),
    top_k=st.sampled_from([0, 0, 0, 1, 3, 40, 400]),
    top_p=st.sampled_from([1.0, 1.0, 0.95, 0.5]),
    min_p=st.sampled_from([0.0, 0.0, 0.05, 0.5]),
    repeat_penalty=st.sampled_from([1.0, 1.0, 0.8, 1.3, 3.0]),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.5, -0.5]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.5, -0.5]),
    seed=st.integers(0, 2**32 - 1),
)


@given(
    knobs=samplers, kind=st.sampled_from(["sure", "unsure", "flat", "steps"]), seed=st.integers(0, 1000), n=st.integers(1, 9),
    vocabulary=st.sampled_from([2, 30, 700, 12_001, 151_936]), penalised=st.sampled_from([0, 3, 64]), more=st.integers(0, 3),
    position=st.integers(0, 5),
)  # fmt: skip
@settings(max_examples=200)
def test_rows_chosen_at_once_or_alone_whole_or_few_are_chosen_as_it_is_defined(
    knobs: Knobs, kind: str, seed: int, n: int, vocabulary: int, penalised: int, more: int, position: int
):
    rows = rows_like(kind, seed, n if vocabulary < 100_000 else 1, vocabulary)
    history = [*np.argsort(-rows[0])[:penalised].tolist(), *(1, 0, 1, vocabulary + 7)[:position]]
    whole, k = choose_rows(rows, knobs, history), needed(knobs)
    raised = knobs.repeat_penalty < 1.0 or min(knobs.presence_penalty, knobs.frequency_penalty) < 0.0
    assert (k is None) == (raised or (knobs.temperature > 0.0 and not knobs.top_k))
    kept = kept_of(top_k(rows, max(10, k) + more)) if k is not None else None
    few = choose_rows(kept, knobs, history) if kept is not None else None
    for index, row in enumerate(rows):
        found, alone = next(whole), choose(row, knobs, len(history), history)
        assert found.token == alone[0] == by_looking_at_all(row, knobs, len(history), history)
        p = np.exp(row.astype(np.float64))
        p /= p.sum()
        assert found.p == pytest.approx(p[found.token], rel=1e-5)
        best = np.argsort(-row, kind="stable")[:5]
        assert found.ids.tolist() == best.tolist()
        assert found.shares == pytest.approx(p[best], rel=1e-5)
        if kept is not None and few is not None:
            same = next(few)
            assert (same.token, same.ids.tolist()) == (found.token, found.ids.tolist())
            assert [same.p, *same.shares] == pytest.approx([found.p, *found.shares], rel=1e-6)
            assert choose(kept.of(index), knobs, len(history), history) == alone
        history.append(found.token)


@given(st.integers(1, 20_000), st.sampled_from([1, 5, 10, 40, 104, 400]), st.integers(0, 10_000), st.booleans())
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


def test_tokens_that_a_device_kept_are_put_in_order():
    rows = rows_like("unsure", 6, 3, 400)
    rows[1, [3, 50, 7]] = 9.0  # equal ones are in the order of their ids
    expected = top_k(rows, 20)
    shuffled = np.random.default_rng(1).permutation(20)
    ids, logits = expected.ids[:, shuffled].astype(np.int32), expected.logits[:, shuffled]
    found = TopK.kept(ids, logits, np.exp(logits - log_totals(expected)[:, None]).astype(np.float32))
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.logits.tolist() == expected.logits.tolist()
    assert log_totals(found) == pytest.approx(log_totals(expected), abs=1e-6)


@pytest.mark.parametrize("vocabulary", [12, 12_000, 12_001])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_row_without_numbers_is_refused_only_when_it_is_reached(vocabulary, bad, temperature):
    rows = rows_like("unsure", 1, 3, vocabulary)
    few = top_k(rows, 10)
    p = np.exp(few.logits - log_totals(few)[:, None]).astype(np.float32)
    p[1] = np.nan  # of such a row a device keeps probabilities that are no numbers
    kept = TopK.kept(few.ids.astype(np.int32), few.logits, p)
    rows[1, slice(None) if bad == -np.inf else slice(-1, None)] = bad
    for found, row, top in ((rows, rows[1], 40), (kept, kept.of(1), 10)):
        knobs = Knobs(temperature=temperature, top_k=top)
        choices = choose_rows(found, knobs, [])
        assert next(choices).token >= 0
        with pytest.raises(NumericsError):
            next(choices)
        with pytest.raises(NumericsError):
            choose(row, knobs, 0, [])


def test_a_row_whose_other_tokens_cannot_be_chosen():
    """A draft of another vocabulary lacks most tokens."""
    row = np.full(5000, -np.inf, np.float32)
    row[[7, 4000]] = 1.0, 1.5
    chosen = {choose(row, WHOLE, position, [])[0] for position in range(50)}
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
        choose(row, WHOLE, position, [])
    assert sum(asked) / 20 < most
