"""`run --verify`: the same text is found the same, and another one is explained."""

import re
from dataclasses import replace

import pytest

from spectui.engine.events import Message, RoundDone
from spectui.engine.exactness.verify import verify
from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from tests.helpers.smollm2 import SNAKE, ask, setup

KNOBS = Knobs(temperature=0.7, seed=3, predict=30)


def rounds_of(events: list) -> list:
    return [event.round for event in events if isinstance(event, RoundDone)]


def test_the_same_text_is_found_the_same(pair):
    session, events = pair
    events.clear()
    finished = ask(session, KNOBS, SNAKE)
    verdict = verify(session, [Message("user", SNAKE)], finished, rounds_of(events))
    assert verdict.same
    assert verdict.speed_up > 0
    assert "over 30 tokens" in verdict.sentences[0]


def test_a_difference_that_kernels_make_is_explained_with_both_probabilities(pair):
    """Without flash attention a single row rounds differently from several, at every length."""
    session, events = pair
    session.load(replace(setup(), flash_attn="off", requantise_draft="off"))
    knobs = replace(KNOBS, policy="fixed", draft_max=5, p_min=0.0, predict=24)
    for seed in range(1, 80):  # 0 gives one text either way with the kernels of this build
        events.clear()
        finished = ask(session, replace(knobs, seed=seed), SNAKE)
        verdict = verify(session, [Message("user", SNAKE)], finished, rounds_of(events))
        if not verdict.same:
            break
    session.load(setup())
    differs, explained = verdict.sentences
    assert differs.startswith("The texts differ from token")
    assert re.fullmatch(r"A near-tie with this seed's noise, \.\d{3} and \.\d{3}: .*; --strict avoids it\.", explained)


def test_a_text_that_no_kernel_explains_is_told_apart(pair):
    """The negative control: a token that the target did not choose, in a text whose rows are equal otherwise."""
    session, events = pair
    events.clear()
    finished = ask(session, KNOBS, SNAKE)
    rounds = rounds_of(events)
    number = next(n for n, round in enumerate(rounds) if n > 3)
    wrong = rounds[number].tokens[0]._replace(id=17, text="wrong")
    rounds[number] = replace(rounds[number], tokens=(wrong, *rounds[number].tokens[1:]))
    verdict = verify(session, [Message("user", SNAKE)], finished, rounds)
    assert not verdict.same
    assert "'wrong' with drafts" in verdict.sentences[0]
    assert not verdict.sentences[-1].startswith("A near-tie")


def test_the_comparison_can_be_stopped(pair):
    session, events = pair
    events.clear()
    finished = ask(session, KNOBS, SNAKE)
    session._interrupt.set()
    with pytest.raises(SpectuiError, match="comparison with plain decoding was stopped"):
        verify(session, [Message("user", SNAKE)], finished, rounds_of(events))
    session._interrupt.clear()
