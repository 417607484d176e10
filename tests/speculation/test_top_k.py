"""What is chosen from the likeliest tokens of several rows at once is what each row by itself would give."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.knobs import Knobs
from spectui.speculation.choice import NumericsError, choose, choose_rows, needed
from spectui.speculation.noise import gumbel
from spectui.speculation.sampling import distribution, penalised
from spectui.speculation.top_k import TopK, top_k

samplers = st.builds(
    Knobs,
    temperature=st.sampled_from([0.0, 0.3, 0.8, 1.5]),
    top_k=st.sampled_from([0, 1, 3, 40, 400]),
    top_p=st.sampled_from([0.5, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.3]),
    repeat_penalty=st.sampled_from([1.0, 1.0, 0.8, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.5, -0.5]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.5, -0.5]),
    seed=st.integers(0, 2**32 - 1),
)


def random_rows(seed: int, n: int, vocabulary: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2.5, (n, vocabulary)).astype(np.float32)


def log_totals(found: TopK) -> np.ndarray:
    return np.array([found.of(index).log_total() for index in range(len(found.ids))])


def kept_of(found: TopK) -> TopK:
    """The same without the whole rows, as a device keeps it."""
    return found._replace(whole=None, log_totals=log_totals(found))


@given(samplers, st.integers(0, 1000), st.integers(1, 10), st.sampled_from([12, 700, 12_000]))
def test_rows_chosen_at_once_give_what_the_rule_says_of_each(knobs, seed, n, vocabulary):
    rows, history = random_rows(seed, n, vocabulary), [3, 1, 4]
    for row, choice in zip(rows, choose_rows(rows, knobs, history), strict=True):
        p = np.exp(row.astype(np.float64))
        p /= p.sum()
        own = penalised(row, knobs, history)
        expected = int(own.argmax())
        if knobs.temperature > 0:
            ids, log_p = distribution(own, knobs)
            expected = int(ids[(log_p + gumbel(knobs.seed, len(history), ids)).argmax()])
        assert choice.token == expected
        assert choose(row, knobs, len(history), history)[0] == expected
        assert choice.p == pytest.approx(p[expected], rel=1e-4)
        best = np.argsort(-row, kind="stable")[:5]
        assert choice.ids.tolist() == best.tolist()
        assert choice.shares == pytest.approx(p[best], rel=1e-4)
        history.append(choice.token)


@given(samplers, st.integers(0, 1000), st.integers(1, 10), st.sampled_from([400, 12_000]), st.integers(0, 3))
def test_the_likeliest_tokens_alone_give_the_same_choices(knobs, seed, n, vocabulary, more):
    rows, history = random_rows(seed, n, vocabulary), [3, 1, 4]
    history += [int(token) for row in rows for token in np.argsort(-row)[:6]]  # likely ones, which a penalty lowers
    k = needed(knobs)
    if k is None:
        raised = knobs.repeat_penalty < 1.0 or min(knobs.presence_penalty, knobs.frequency_penalty) < 0.0
        assert raised or not knobs.top_k
        return
    kept = kept_of(top_k(rows, max(10, k) + more))
    for index, (whole, choice) in enumerate(
        zip(choose_rows(rows, knobs, history), choose_rows(kept, knobs, history), strict=True)
    ):
        assert choice.token == whole.token
        assert choice.p == pytest.approx(whole.p, rel=1e-6)
        assert choice.ids.tolist() == whole.ids.tolist()
        assert choice.shares == pytest.approx(whole.shares, rel=1e-6)
        drafted = choose(rows[index], knobs, len(history), history)
        assert choose(kept.of(index), knobs, len(history), history) == drafted
        history.append(choice.token)


def test_tokens_that_a_device_kept_are_put_in_order():
    rows = random_rows(6, 3, 400)
    rows[1, [3, 50, 7]] = 9.0  # equal ones are in the order of their ids
    expected = top_k(rows, 20)
    shuffled = np.random.default_rng(1).permutation(20)
    ids, logits = expected.ids[:, shuffled].astype(np.int32), expected.logits[:, shuffled]
    found = TopK.kept(ids, logits, np.exp(logits - log_totals(expected)[:, None]).astype(np.float32))
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.logits.tolist() == expected.logits.tolist()
    assert log_totals(found) == pytest.approx(log_totals(expected), abs=1e-6)


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_penalty_on_all_of_the_likeliest_tokens_leaves_others_to_choose(temperature):
    knobs = replace(Knobs(), temperature=temperature, top_k=20, top_p=1.0, min_p=0.0, repeat_penalty=3.0)
    for row in random_rows(4, 8, 700):
        history = np.argsort(-row)[:64].tolist()
        kept = kept_of(top_k(row[None], needed(knobs) or 0))
        chosen = next(choose_rows(kept, knobs, history)).token
        assert chosen not in history
        assert chosen == next(choose_rows(row[None], knobs, history)).token == choose(row, knobs, 64, history)[0]


def test_in_a_large_vocabulary_the_probabilities_are_exact():
    rows = random_rows(5, 4, 150_037)
    rows[::2, 140_000] = 12.0
    found = top_k(rows, 40)
    assert np.exp(log_totals(found)) == pytest.approx(np.exp(rows.astype(np.float64)).sum(axis=1), rel=1e-5)
    assert found.ids.tolist() == [np.argsort(-row, kind="stable")[:40].tolist() for row in rows]


def test_noise_of_several_rows_is_that_of_each_position():
    ids = np.random.default_rng(1).integers(0, 1000, (4, 7))
    together = gumbel(9, np.arange(20, 24), ids)
    for place, row in enumerate(ids):
        assert together[place].tolist() == gumbel(9, 20 + place, row).tolist()


@pytest.mark.parametrize("vocabulary", [12, 12_000, 12_001])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_without_numbers_is_refused_only_when_it_is_reached(vocabulary, bad):
    for temperature in (0.0, 0.8):
        rows = random_rows(1, 3, vocabulary)
        if bad == -np.inf:
            rows[1] = bad
        else:
            rows[1, -1] = bad
        choices = choose_rows(rows, replace(Knobs(), temperature=temperature), [])
        assert next(choices).token >= 0
        with pytest.raises(NumericsError):
            next(choices)
        # What a device keeps of such a row has probabilities that are no numbers.
        few = top_k(random_rows(1, 3, vocabulary), 10)
        p = np.exp(few.logits - log_totals(few)[:, None]).astype(np.float32)
        p[1] = np.nan
        kept = TopK.kept(few.ids.astype(np.int32), few.logits, p)
        choices = choose_rows(kept, replace(Knobs(), temperature=temperature, top_k=10), [])
        assert next(choices).token >= 0
        with pytest.raises(NumericsError):
            next(choices)
        with pytest.raises(NumericsError):
            choose(kept.of(1), replace(Knobs(), temperature=temperature, top_k=10), 0, [])
