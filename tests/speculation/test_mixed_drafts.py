"""Model and suffix in one draft: the suffix goes on with what the model has begun."""

from __future__ import annotations

from itertools import islice

import pytest

from spectui.knobs import Knobs
from spectui.speculation.drafters.mixed import MixedDrafter
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.drafters.suffix import SuffixDrafter
from spectui.speculation.policies.acceptance import Acceptance
from spectui.speculation.policies.cost_model import CostModel, DraftCost, VerifyCost
from spectui.speculation.policies.value import DraftValue
from tests.toys import ToyModel

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
    drafter = MixedDrafter(suffix, model, value(CostModel(VerifyCost(FLAT), DraftCost(0.1, 0.1)), 48))
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
    proposed = MixedDrafter(suffix, None, value(CostModel(VerifyCost(FLAT)), 16)).propose(prompt, Knobs())
    assert [each.id for each in proposed] == passage[common : common + drafted]
