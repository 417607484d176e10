"""The choice rule under a grammar: the best allowed candidate, whatever was drafted."""

import math

import numpy as np
import pytest

from spectui.knobs import Knobs
from spectui.speculation.choice import NothingAllowed, choose, choose_rows
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.records import StopReason
from tests.speculation.test_decoder import PROMPT
from tests.toys import ToyGrammar, ToyModel, decode, emitted, toy_drafter


class Eager(ModelDrafter):
    """Drafts what no grammar was asked about."""

    grammar = property(lambda self: None, lambda self, grammar: None)


def test_a_draft_that_knows_no_grammar_is_cut_at_the_first_token_that_is_refused():
    knobs = Knobs(policy="fixed", drafter="model", temperature=0.8, seed=5, draft_max=6, p_min=0.0, predict=60)
    _, plain, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, grammar=ToyGrammar())
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, Eager(ToyModel(1, ends=False), 12), grammar=ToyGrammar())
    assert emitted(rounds) == emitted(plain)
    grammar = ToyGrammar()
    for round in rounds:
        asked = grammar.clone()
        assert all(asked.accept(token.id) for token in round.drafted)
        assert all(grammar.accept(token.id) for token in round.tokens)


def test_a_draft_made_ahead_is_cut_there_too(ahead):
    knobs = Knobs(policy="fixed", drafter="model", temperature=0.8, seed=5, draft_max=6, p_min=0.0, predict=60)
    _, plain, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, grammar=ToyGrammar())
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, ahead(ToyModel(1, ends=False)), grammar=ToyGrammar())
    assert emitted(rounds) == emitted(plain) and any(token.origin == "accepted" for each in rounds for token in each.tokens)


def test_a_device_returns_whole_rows_while_there_is_a_grammar():
    asked = []

    class Device(ToyModel):
        def submit(self, tokens, rows, k):
            asked.append(k)
            found = self.evaluate(tokens, rows)
            return lambda: found

    knobs = Knobs(policy="fixed", drafter="model", draft_max=3, p_min=0.0, predict=20)
    for grammar, kept in ((None, {104}), (ToyGrammar(), {None})):
        asked.clear()
        drafter = ModelDrafter(Device(1, ends=False), 12)
        decode(Device(1, ends=False), PROMPT, knobs, drafter, grammar=grammar)
        assert {*asked} == kept and len(asked) > 10


def test_the_end_of_a_grammar_ends_the_reply():
    knobs = Knobs(policy="fixed", drafter="model", temperature=0.0, draft_max=6, p_min=0.0)
    for target in (ToyModel(1, ends=False), ToyModel(2, ends=False)):
        decoder, rounds, _ = decode(target, PROMPT, knobs, toy_drafter(1, 0.0, ends=False), grammar=ToyGrammar(13))
        assert decoder.reason is StopReason.EOS and len(emitted(rounds)) == 13
        assert all(round.tokens for round in rounds)


class Only:
    """Allows these tokens."""

    def __init__(self, *ids):
        self.ids, self.asked = ids, []

    def allowed(self, ids):
        self.asked.append(len(ids))
        return np.isin(ids, self.ids)


@pytest.mark.parametrize("sampler", [{"top_k": 0, "top_p": 1.0, "min_p": 0.0}, {"top_k": 5, "top_p": 1.0, "min_p": 0.0}, {}])
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_the_choice_is_the_one_from_a_row_without_what_is_refused(sampler, penalty):
    numbers = np.random.default_rng(3)
    for position in range(40):
        row = numbers.normal(0, 2, 300).astype(np.float32)
        allowed = numbers.choice(300, 30, replace=False)
        knobs = Knobs(seed=position, repeat_penalty=penalty, **sampler)
        history = [*allowed[:5].tolist(), *range(position)]
        free = choose(row, knobs, len(history), history)[0]
        without = np.full_like(row, -np.inf)
        without[allowed] = row[allowed]
        expected = free if free in allowed else choose(without, knobs, len(history), history)[0]
        [choice] = choose_rows(row[None], knobs, history, Only(*allowed))
        assert choice.token == expected == choose(row, knobs, len(history), history, Only(*allowed))[0]
        total = math.log(np.exp(row.astype(np.float64)).sum())
        assert choice.p == pytest.approx(math.exp(row[expected] - total), rel=1e-5)
        assert choice.ids.tolist() == np.argsort(-row)[:5].tolist()


def test_the_grammar_is_asked_about_few_tokens_while_one_of_them_is_allowed():
    row = -np.arange(1000, dtype=np.float32)
    for token, asked in ((0, [1]), (300, [1, 400]), (900, [1, 400, 1000])):
        grammar = Only(token)
        assert choose(row, Knobs(temperature=0), 5, [], grammar)[0] == token and grammar.asked == asked
    with pytest.raises(NothingAllowed):
        choose(row, Knobs(temperature=0), 5, [], Only())


def test_a_token_without_a_probability_is_not_chosen_because_it_is_allowed():
    row = np.array([3.0, -np.inf, 1.0], np.float32)
    with pytest.raises(NothingAllowed):
        choose(row, Knobs(temperature=0), 5, [], Only(1))
