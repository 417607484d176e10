"""What the suffix automaton costs, in lines of Python that it runs: linear in the text, and never long at once."""

import sys
from collections.abc import Callable
from itertools import islice
from random import Random
from types import FrameType
from typing import Any

import pytest

from spectui.knobs import Knobs
from spectui.speculation.drafters.suffix import SuffixDrafter
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from tests.toys import ToyModel, decode, never

COMMA = 11
OTHER = 5
"""A token that no text has."""


def prose(n: int) -> list[int]:
    """Words as often as in a language: the k-th word comes 1/k times as often as the first."""
    return Random(1).choices(range(100, 8100), [1 / rank for rank in range(1, 8001)], k=n)


def code(n: int) -> list[int]:
    names = Random(1).choices(range(100, 400), k=n)
    return [token for line in range(n // 8 + 1) for token in (20, 21, names[line], 22, names[-line], 23, 24, 25)][:n]


def words_with_commas(n: int) -> list[int]:
    return [token for word in range(n // 2 + 1) for token in (100 + word, COMMA)][:n]


def few_words_with_commas(n: int) -> list[int]:
    return [token for word in Random(1).choices(range(100, 1100), k=n // 2 + 1) for token in (word, COMMA)][:n]


TEXTS: dict[str, Callable[[int], list[int]]] = {
    "prose": prose,
    "code": code,
    "words with commas": words_with_commas,
    "few words with commas": few_words_with_commas,
    "one token": lambda n: [7] * n,
    "a phrase again and again": lambda n: [7 + index % 5 for index in range(n)],
    "one token, then others": lambda n: [7] * (n // 2) + list(range(100, 100 + n // 2)),
}
each_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


def lines(function: Callable[[], object]) -> int:
    """How many lines of Python the function runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def drafter_of(text: list[int]) -> SuffixDrafter:
    drafter = SuffixDrafter()
    drafter.prepare(text, lambda: False)
    return drafter


@each_text
def test_twice_the_text_takes_twice_as_long(text: Callable[[int], list[int]]):
    short, long = (lines(lambda n=n: drafter_of(text(n))) for n in (1500, 3000))
    assert long < 2.3 * short


@each_text
def test_a_draft_takes_as_long_behind_a_long_text_as_behind_a_short_one(text: Callable[[int], list[int]]):
    """Eight tokens, a token that no text has, and eight more."""

    def draft(tokens: list[int], drafter: SuffixDrafter) -> None:
        cursor = drafter.cursor(tokens)
        for _ in range(2):
            for candidate in list(islice(cursor.candidates(), 8)):
                cursor.advance(candidate.id)
            cursor.advance(OTHER)

    taken = []
    for n in (500, 5000):
        for tokens in (text(n), [*text(n), COMMA]):
            drafter = drafter_of(tokens)
            taken.append(lines(lambda tokens=tokens, drafter=drafter: draft(tokens, drafter)))
    assert max(taken) < 3000


@pytest.mark.parametrize("text", [prose, TEXTS["one token, then others"]])
def test_it_stops_soon_and_goes_on_later(text: Callable[[int], list[int]]):
    tokens = text(6000)
    drafter, asked = SuffixDrafter(), 0

    def stop_after_two() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    drafter.prepare(tokens, stop_after_two)
    assert asked == 3, "2,048 tokens at once"
    left = lines(lambda: drafter.prepare(tokens, lambda: False))
    assert left < 0.6 * lines(lambda: drafter_of(tokens))
    again = [[*islice(each.cursor(tokens).candidates(), 8)] for each in (drafter, drafter_of(tokens))]
    assert again[0] == again[1]


def test_a_prompt_is_read_between_the_targets_passes_over_it():
    read: list[tuple[int, int]] = []

    class Noted(SuffixDrafter):
        def read(self, tokens, end):
            read.append((end, len(target.passes)))
            return super().read(tokens, end)

    target, strategy = ToyModel(1, ends=False), Strategy(None, CostModel())
    strategy.suffix = Noted()
    decode(target, [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], Knobs(predict=1), strategy=strategy, is_end=never)
    assert read == [(5, 1), (10, 2), (11, 3), (12, 3)]
