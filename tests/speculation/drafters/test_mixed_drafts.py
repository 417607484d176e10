"""Model and suffix in one draft: the suffix goes on with what the model has begun."""

import pytest

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.drafters.suffix import Cursor
from spectui.speculation.drafters.text import DraftedText
from spectui.speculation.policies.strategy import Strategy
from tests.toys import SameCosts, ToyModel, never, wrote

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


def sources(prompt: list[int], says: dict[int, int] | None, most: int = 12, **knobs: str) -> list[tuple[int, str]]:
    """What is drafted behind the prompt, and by whom."""
    model = ModelDrafter(Script(says), 100) if says is not None else None
    strategy = Strategy(model, SameCosts(FLAT, first=0.1, next=0.1))
    asked = Knobs(temperature=0.0, draft_max=48, p_min=0.0, **knobs)
    strategy.prepare(prompt, 0, 0.0, lambda: False, never)
    wrote(strategy, 1)
    return [(each.id, each.source) for each in strategy.draft(prompt, asked, most).tokens]


@pytest.mark.parametrize("policy", ["auto", "fixed"])
def test_the_suffix_goes_on_with_a_passage_that_the_model_has_begun(policy: str):
    prompt = [*PASSAGE, 1, 2, 3]
    says = {3: 20, **{token: token + 1 for token in range(20, 60)}}
    drafted = sources(prompt, says, policy=policy)
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
    drafter.catch_up(text, lambda: False)
    for tokens in ([*text], [*text, 7], [*text, 7, 0, 8], [*text, 9, 10, 11, 12, 13]):
        next(drafter.propose(tokens, knobs))
        assert model.tokens == tokens


def test_a_repetition_that_is_unlikely_does_not_take_over():
    prompt = [20, 5, 30, 6, 40, 7, 1, 2, 3]
    drafted = sources(prompt, {3: 20, 20: 30, 30: 40, 40: 50}, 4)
    assert drafted == [(20, "model"), (30, "model"), (40, "model"), (50, "model")]


@pytest.mark.parametrize("drafter", ["suffix", "auto"])
@pytest.mark.parametrize(("common", "most"), [(1, 5), (6, 16)])
def test_a_word_in_common_is_not_followed_far(common: int, most: int, drafter: str):
    passage = list(range(20, 60))
    prompt = [*passage, 1, 2, *passage[:common]]
    drafted = [token for token, _ in sources(prompt, None, 16, drafter=drafter)]
    assert drafted == passage[common : common + len(drafted)]
    assert 1 <= len(drafted) <= most
    assert common == 1 or len(drafted) == 16
    assert len(sources(prompt, None, 16, drafter=drafter, policy="fixed")) == 16, "a person asks for it"


def test_only_the_named_drafter_drafts():
    prompt = [*PASSAGE, 1, 2, *PASSAGE[:6]]
    says = {token: token + 1 for token in range(10, 60)}
    assert {source for _, source in sources(prompt, says, drafter="model")} == {"model"}
    assert {source for _, source in sources(prompt, says, drafter="suffix")} == {"suffix"}


def test_a_repetition_is_looked_at_again_only_where_the_model_goes_on_as_it_does(monkeypatch: pytest.MonkeyPatch):
    looks = []
    look = Cursor.candidates
    monkeypatch.setattr(Cursor, "candidates", lambda self: looks.append(1) or look(self))
    prompt = [20, 5, 30, 6, 40, 7, 1, 2, 3]
    sources(prompt, {3: 20, 20: 30, 30: 40, 40: 50}, 4)
    assert len(looks) == 2, "at the beginning, and behind 20, which stood before; behind 30 and 40 no more is in common"


def test_a_head_foresees_no_further_behind_a_repetition() -> None:
    """It foresees from the text's last token on, whoever has drafted what follows."""
    model = Script({})
    model.max_drafted = 3
    drafter = ModelDrafter(model, 100)
    drafted = [len(list(drafter.propose(DraftedText(PASSAGE, repeated), Knobs()))) for repeated in ((), (1,), (1, 2, 3))]
    assert drafted == [3, 2, 0]
