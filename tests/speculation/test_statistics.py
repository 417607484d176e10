"""Figures over rounds, by hand."""

from __future__ import annotations

from spectui.knobs import Knobs
from spectui.speculation.records import DraftToken, Round, Token
from spectui.speculation.statistics import Statistics


def a_round(fates: str, emitted: int) -> Round:
    names = {"a": "accepted", "r": "rejected", "i": "ignored"}
    drafted = tuple(DraftToken(1, "x", 0.9, "model", names[fate]) for fate in fates)
    tokens = tuple(Token(1, "x", "plain", None, 0, place, None, 0.5) for place in range(emitted))
    return Round(0, 0, Knobs(), drafted, tokens, draft_s=1.0, verify_s=2.0, choose_s=0.5, seconds=4.0)


def test_nothing_is_unknown_not_zero():
    empty = Statistics()
    assert (empty.acceptance, empty.tokens_per_pass, empty.tokens_per_s, empty.per_position) == (None, None, None, [])


def test_sums_and_ratios():
    statistics = Statistics.of([a_round("aar", 3), a_round("ii", 1), a_round("rr", 1), a_round("aai", 2)])
    assert (statistics.accepted, statistics.rejected, statistics.ignored, statistics.drafted) == (4, 3, 3, 10)
    assert statistics.acceptance == 4 / 7
    assert statistics.tokens_per_pass == 7 / 4
    assert statistics.tokens_per_s == 7 / 16
    # place 1 was reached in three rounds and kept in two; place 2 in two and two; place 3 in one
    assert statistics.per_position == [2 / 3, 1.0, 0.0]
    assert a_round("a", 2).rest_s == 0.5
