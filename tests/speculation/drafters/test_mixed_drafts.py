"""Model and suffix in one draft: the suffix goes on with what the model has begun."""

from __future__ import annotations

from itertools import accumulate, islice
from operator import mul
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.knobs import Knobs
from spectui.speculation.drafters.mixed import MixedDrafter
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.drafters.suffix import SuffixDrafter
from spectui.speculation.policies.acceptance import Acceptance
from spectui.speculation.policies.cost_model import CostModel, DraftCost, VerifyCost
from spectui.speculation.policies.value import DraftValue
from spectui.speculation.records import Candidate
from tests.toys import ToyModel, never

FLAT = {1: 1.0, 2: 1.05, 16: 1.1, 32: 1.2}
PASSAGE = list(range(10, 60))


class Script(ToyModel):
    """A draft model that is sure of what it will say."""

    def __init__(self, says: dict[int, int]) -> None:
        super().__init__(0, n_vocab=100)
        self._says = says

    def logits(self, tokens):
        row = super().logits(tokens) * 0
        row[self._says.get(tokens[-1], 0)] = 50.0
        return row


def value(costs: CostModel, limit: int) -> DraftValue:
    """Of a draft about which nothing was learned yet."""
    return DraftValue(costs, Acceptance(), 1.0, 0, limit)


def sources(prompt: list[int], says: dict[int, int], most: int = 12) -> list[tuple[int, str]]:
    suffix, model = SuffixDrafter(), ModelDrafter(Script(says), 100)
    suffix.prepare(prompt, lambda: False)
    model.prepare(prompt, lambda: False)
    drafter = MixedDrafter(suffix, model, value(CostModel(VerifyCost(FLAT), DraftCost(0.1, 0.1)), 48), never)
    return [
        (each.id, each.source) for each in islice(drafter.propose(prompt, Knobs(temperature=0, draft_max=48)), most)
    ]


def test_the_suffix_goes_on_with_a_passage_that_the_model_has_begun():
    prompt = [*PASSAGE, 1, 2, 3]
    says = {3: 20, **{token: token + 1 for token in range(20, 60)}}
    drafted = sources(prompt, says)
    assert [token for token, _ in drafted] == list(range(20, 32))
    by = [source for _, source in drafted]
    begun = by.index("suffix")
    assert 1 <= begun <= 6
    assert set(by[:begun]) == {"model"}
    assert set(by[begun:]) == {"suffix"}


def test_the_draft_model_reads_what_was_accepted_after_a_mixed_draft_was_not():
    model = Script({})
    drafter = ModelDrafter(model, 100)
    text, knobs = [1, 2, 3], Knobs(temperature=0)
    drafter.prepare(text, lambda: False)
    for tokens in ([*text], [*text, 7], [*text, 7, 0, 8], [*text, 9, 10, 11, 12, 13]):
        next(drafter.propose(tokens, knobs))
        assert model.tokens == tokens


def test_a_repetition_that_is_unlikely_does_not_take_over():
    prompt = [20, 5, 30, 6, 40, 7, 1, 2, 3]
    drafted = sources(prompt, {3: 20, 20: 30, 30: 40, 40: 50}, 4)
    assert drafted == [(20, "model"), (30, "model"), (40, "model"), (50, "model")]


@pytest.mark.parametrize(("common", "drafted"), [(1, 2), (6, 16)])
def test_a_word_in_common_is_not_followed_far(common: int, drafted: int):
    passage = list(range(20, 60))
    prompt = [*passage, 1, 2, *passage[:common]]
    suffix = SuffixDrafter()
    suffix.prepare(prompt, lambda: False)
    proposed = MixedDrafter(suffix, None, value(CostModel(VerifyCost(FLAT)), 16), never).propose(prompt, Knobs())
    assert [each.id for each in proposed] == passage[common : common + drafted]


@given(st.integers(0, 10_000), st.integers(1, 24), st.integers(0, 5))
def test_running_sums_say_what_the_definition_says(seed, limit, least):
    """Whatever was asked before: V(m) = 1 + S_1 + .. + S_m - rate * passes(m), at the best m."""
    numbers = Random(seed)
    costs = CostModel(VerifyCost({1: 1.0, 2: 1.3, 9: 1.6 + numbers.random()}, 1.0), DraftCost(0.2, 0.1))
    acceptance = Acceptance()
    running = DraftValue(costs, acceptance, 1.0 + numbers.random(), 100, limit)
    drafted: list[Candidate] = []
    rate = running.rate
    for _ in range(limit):
        by_suffix = numbers.random() < 0.3
        drafted.append(Candidate(1, numbers.random(), "suffix" if by_suffix else "model", match=3 if by_suffix else 0))
        running.follow(drafted)
        survival = list(accumulate((acceptance.expected(each) for each in drafted), mul, initial=1.0))
        tokens = list(accumulate(survival))
        models = sum(each.source == "model" for each in drafted)
        assert running.survival == pytest.approx(survival[-1])

        def best(most: int, least: int = 0, tokens: list[float] = tokens) -> float:
            lengths = [0, *range(max(1, least), most + 1)]
            return max(tokens[length] - rate * running.passes[length] for length in lengths)

        for most in (len(drafted), numbers.randrange(len(drafted) + 1)):
            assert running.stop(most).value == pytest.approx(best(most))
            assert running.stop(most, least).value == pytest.approx(best(most, least))
        value, reached, yields, sent, reaches = 0.0, 1.0, tokens[-1], best(len(drafted)), [float("-inf")]
        for more in range(1, limit - len(drafted) + 1):
            value -= reached * rate * (running.drafting[models + more] - running.drafting[models + more - 1])
            value += reached * (1 - running.expected_ahead) * sent
            reached *= running.expected_ahead
            yields += survival[-1]
            sent = max(sent, yields - rate * running.passes[len(drafted) + more])
            reaches.append(value + reached * sent)
        assert running.extends(max(reaches) - 1e-6) == (len(reaches) > 1)
        assert not running.extends(max(reaches) + 1e-6)
