"""A draft that is not sent is held beside the text."""

from __future__ import annotations

import pytest

from spectui.speculation.dry_run import DryRun
from spectui.speculation.records import Candidate, Token

DRAFT = [Candidate(id, 0.9, "suffix", match=5) for id in (1, 2, 3)]


def said(*ids: int, position: int) -> list[Token]:
    return [Token(id, "", "plain", None, 0, position + place, None, 1.0) for place, id in enumerate(ids)]


@pytest.mark.parametrize(
    ("text", "agreed"), [((1, 2, 3, 4), 3), ((1, 2, 3), 3), ((1, 2, 9), 2), ((9, 2, 3), 0), ((1, 2), None)]
)
@pytest.mark.parametrize("each", [1, 2, 4])
def test_it_says_how_far_the_text_agreed_as_soon_as_that_is_known(text: tuple[int, ...], agreed: int | None, each: int):
    """Whether the text comes token by token or in rounds of several."""
    run = DryRun()
    run.begin(DRAFT, 7)
    found = [run.follow(said(*text[at : at + each], position=7 + at)) for at in range(0, len(text), each)]
    assert [one for one in found if one is not None] == ([(agreed, 3)] if agreed is not None else [])


def test_a_text_that_does_not_go_on_from_there_says_nothing():
    """The reply has ended, and another begins elsewhere."""
    run = DryRun()
    run.begin(DRAFT, 7)
    assert run.follow(said(1, position=7)) is None
    assert run.follow(said(2, 3, position=3)) is None
    assert run.follow(said(2, 3, position=8)) is None


def test_of_two_at_a_time_the_first_is_followed_and_afterwards_there_is_room_for_another():
    run = DryRun()
    run.begin(DRAFT, 7)
    run.begin([Candidate(9, 0.9, "suffix", match=5)], 7)
    assert run.follow(said(9, position=7)) == (0, 3)
    assert run.follow(said(9, position=8)) is None
    run.begin([Candidate(9, 0.9, "suffix", match=5)], 9)
    assert run.follow(said(9, position=9)) == (1, 1)
