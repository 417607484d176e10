"""Figures over rounds, by hand."""

import pytest

from spectui.knobs import Knobs
from spectui.speculation.records import DraftToken, Round, Token
from spectui.speculation.statistics import Statistics, speed_up


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


@pytest.mark.parametrize(
    ("seconds", "other_s", "told"),
    [(0.7, 0.77, False), (0.77, 0.7, False), (0.7, 0.85, False), (7.0, 7.5, False), (7.0, 9.0, True), (9.0, 7.0, True)],
)
def test_one_pair_of_replies_tells_only_what_is_above_its_noise(seconds, other_s, told):
    """A tenth in any case, and more where the replies are short."""
    one, other = (Statistics(emitted=20, decode_s=each) for each in (seconds, other_s))
    measured = speed_up(one, other)
    assert measured.ratio == pytest.approx(other_s / seconds) and measured.low < measured.ratio < measured.high
    assert measured.told is told and ("as fast" in str(measured)) is told
    assert speed_up(one, Statistics()) is None
