"""Nothing is drafted behind the end of a reply, and no row of a pass lies behind it: counted, in every drafter."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.knobs import Knobs
from spectui.speculation.drafters.cross_vocabulary.drafters import IntersectionDrafter, RetokenisingDrafter
from spectui.speculation.drafters.cross_vocabulary.vocabulary_map import VocabularyMap
from spectui.speculation.drafters.model import DraftModel, ModelDrafter
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import Round
from tests.helpers.words import Reciter, ToyWords
from tests.toys import END, SameCosts, ToyModel, decode, never, wrote

PROMPT = [3, 1, 4, 1, 5]
FIXED = Knobs(policy="fixed", p_min=0.0, draft_max=8, temperature=0.0)
TABLE = {1: 1.0, 2: 1.05, 5: 1.12, 9: 1.2, 17: 1.4}
TURN = [5, 6, 7, 8, 9]
"""What stands behind the end of each earlier reply: the opening of a turn."""


class Script(ToyModel):
    """Says what it was told to, then ends the reply; behind the end it is very sure of the opening of a turn."""

    def __init__(self, reply: Sequence[int], prompt: Sequence[int] = PROMPT) -> None:
        super().__init__(n_vocab=100, n_ctx=4096)
        self._text = [*prompt, *reply, END, *TURN * 40]
        self.read: list[int] = []

    def logits(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        row = np.zeros(self.n_vocab, np.float32)
        row[self._text[len(tokens)]] = 50.0
        return row

    def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        self.read += tokens
        return super().evaluate(tokens, rows)


def reply(target: Script, knobs: Knobs, model: DraftModel | None, prompt: Sequence[int] = PROMPT) -> list[Round]:
    """The rounds of a reply that ends by itself. What passes cost is known, and stays as it is."""
    strategy = Strategy(model, SameCosts(TABLE, first=0.05, next=0.05))
    rounds = decode(target, prompt, knobs, strategy=strategy, is_end=lambda token: token == END)[1]
    assert rounds[-1].tokens[-1].id == END
    return rounds


def without_waste(rounds: Sequence[Round]) -> bool:
    """Whether each row of each pass gave a token: the drafts were right, and none went beyond the end."""
    return [round.pass_size for round in rounds] == [len(round.tokens) for round in rounds]


@pytest.fixture(params=["alone", "ahead"])
def drafting(request: pytest.FixtureRequest, ahead: Callable[[ToyModel], DraftModel]) -> Callable[[ToyModel], DraftModel]:
    """Makes the drafter of a model: one that waits for its rounds, or one that drafts ahead."""
    return ahead if request.param == "ahead" else partial(ModelDrafter, n_vocab=100)


@pytest.mark.parametrize("policy", ["fixed", "auto", "expected"])
@pytest.mark.parametrize("drafter", ["model", "auto"])
@pytest.mark.parametrize("length", range(7))
def test_a_draft_model_stops_at_the_end(drafting, policy: str, drafter: str, length: int):
    words, knobs = list(range(20, 20 + length)), Knobs(policy=policy, drafter=drafter, p_min=0.0, temperature=0.0)
    draft = Script(words)
    rounds = reply(Script(words), knobs, drafting(draft))
    assert without_waste(rounds)
    for round in rounds:
        assert END not in [token.id for token in round.drafted[:-1]]
    assert END not in draft.read, "its pass over the end would tell what follows"
    assert len(draft.read) <= len(PROMPT) + length + len(rounds)


@pytest.mark.parametrize("drafter", ["suffix", "auto"])
@pytest.mark.parametrize("policy", ["fixed", "auto", "expected"])
def test_a_repetition_stops_at_the_end(drafter: str, policy: str):
    """The reply was given twice before, and each time the next turn followed it."""
    words = list(range(20, 50))
    prompt = [*PROMPT, *words, END, *TURN, *words, END, *TURN]
    knobs = Knobs(policy=policy, drafter=drafter, p_min=0.0, temperature=0.0)
    rounds = reply(Script(words, prompt), knobs, None, prompt)
    assert any(round.drafted and round.drafted[-1].id == END for round in rounds)
    assert not any(END in [token.id for token in round.drafted[:-1]] for round in rounds)
    assert without_waste(rounds)


def test_an_end_is_judged_without_a_row_of_its_own():
    (round,) = reply(Script([]), FIXED, ModelDrafter(Script([]), 100))
    assert [(token.id, token.fate) for token in round.drafted] == [(END, "accepted")]
    assert (round.pass_size, round.tokens[0].origin) == (1, "accepted")


def test_a_wrong_end_costs_no_more_than_the_draft_before_it():
    rounds = reply(Script([20, 21, 22, 23]), FIXED, ModelDrafter(Script([20, 21]), 100))
    assert [(token.id, token.fate) for token in rounds[0].drafted] == [(20, "accepted"), (21, "accepted"), (END, "rejected")]
    assert [(token.id, token.origin) for token in rounds[0].tokens][2:] == [(22, "correction")]
    assert rounds[0].pass_size == 3


@pytest.mark.parametrize("ends", [True, False])
def test_what_stands_behind_an_end_does_not_make_a_repetition_worth_more_than_the_model(ends: bool):
    prompt = [*PROMPT, *range(20, 40), END, *TURN, *range(60, 99), *range(20, 40)]
    strategy = Strategy(ModelDrafter(Script([1], prompt), 100), SameCosts(TABLE, first=0.01, next=0.01))
    strategy.prepare(prompt, 0, 0.0, lambda: False, (lambda token: token == END) if ends else never)
    wrote(strategy, 1)
    drafted = strategy.draft(prompt, Knobs(temperature=0.0), 16).tokens
    assert drafted[0].source == ("model" if ends else "suffix")


TARGET = ToyWords(["ab", "abc", " a", " ab", "ca"], opening=True)
WORDS = {
    IntersectionDrafter: ToyWords(["ab", "abc", " a", " ab", "ca", "bca"], end="<stop>", opening=True),
    RetokenisingDrafter: ToyWords(["abca", " c", "abc", " ab", "bb"], end="<stop>"),
}


@pytest.mark.parametrize("kind", WORDS)
def test_a_draft_of_another_vocabulary_stops_at_the_end(kind: type[IntersectionDrafter | RetokenisingDrafter]):
    text, before = "abc ab ca bca ab abc", "abc a"
    drafter = kind(Reciter(WORDS[kind], text), VocabularyMap(TARGET, WORDS[kind]))
    prompt = [*TARGET.bos, *TARGET.tokenize(before)]
    end = partial(decode, is_end=lambda token: token == END)
    rounds = end(Reciter(TARGET, text), prompt, FIXED, drafter)[1]
    assert (rounds[-1].tokens[-1].id, rounds[-1].tokens[-1].origin, rounds[-1].drafted[-1].id) == (END, "accepted", END)
    rejected = sum(round.count("rejected") for round in rounds)
    ends = sum(token.id == END for round in rounds for token in round.drafted if token.fate == "rejected")
    assert sum(round.pass_size - len(round.tokens) for round in rounds) == rejected - ends
