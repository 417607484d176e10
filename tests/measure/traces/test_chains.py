"""What a round tells about drafts at other positions, and what is drawn where none does."""

from __future__ import annotations

from random import Random

from spectui.engine.events import Asked, Message
from spectui.knobs import Knobs
from spectui.measure.traces.chains import Draws, known
from spectui.measure.traces.replies import RecordedReply
from spectui.speculation.records import Candidate, Outcome, Reason, Round

FIXED = Knobs(policy="fixed", drafter="model", p_min=0.5)
Draft = list[tuple[int, float]]


def reply(*rounds: tuple[Draft, list[int]], source: str = "model", refused: float | None = None) -> RecordedReply:
    """Rounds of what was drafted and what came of it, behind a prompt of two tokens."""
    position, made = 2, []
    for index, (drafted, emitted) in enumerate(rounds):
        candidates = [Candidate(token, p, source) for token, p in drafted]
        made.append(
            Round.of(
                Outcome(
                    index, position, FIXED, candidates, len(candidates), emitted, [0.9] * len(emitted), [0.9] * len(emitted),
                    draft_s=0.0, verify_s=1.0, choose_s=0.0, seconds=1.0, reason=Reason("draft", confidence=refused),
                ),
                [""] * len(emitted),
                str,
            )
        )  # fmt: skip
        position += len(emitted)
    return RecordedReply(None, Asked((Message("user", "x"),), (1, 2)), rounds=made)


def test_an_accepted_draft_tells_what_is_drafted_at_the_positions_behind_it():
    found = known(reply(([(5, 0.9), (6, 0.8), (9, 0.7)], [5, 6, 7])))
    assert found.chains == {2: [(5, 0.9), (6, 0.8), (9, 0.7)], 3: [(6, 0.8), (9, 0.7)], 4: [(9, 0.7)]}


def test_behind_a_wrong_token_nothing_is_known_of_the_text():
    found = known(reply(([(9, 0.9), (6, 0.8)], [5]), ([(6, 0.7)], [6, 7])))
    assert found.chains == {2: [(9, 0.9), (6, 0.8)], 3: [(6, 0.7)]}


def test_what_repetitions_drafted_is_not_the_models():
    assert known(reply(([(5, 0.9), (6, 0.8)], [5, 6, 7]), source="suffix")).chains == {}


def test_a_token_that_p_min_refused_is_known_by_its_confidence():
    found = known(reply(([(5, 0.9)], [5, 6]), refused=0.4))
    assert found.refused == {3: 0.4}
    assert known(reply(([(9, 0.9)], [5]), refused=0.4)).refused_behind == [0.4]


def test_a_chain_goes_on_with_what_the_next_round_tells():
    recorded = reply(([(5, 0.9), (6, 0.8)], [5, 6, 7]), ([(8, 0.7), (9, 0.6)], [8, 9, 10]))
    drawn = Draws([recorded]).draw(recorded, known(recorded), Random(0))
    first = drawn.chains[0]
    assert first[:2] == [(5, 0.9), (6, 0.8)]
    assert drawn.recorded[0] == 2  # nobody drafted at the place of 7
    if first[2][0] == 7:  # if the drawn token is right, what is known of the text behind it follows
        assert first[3:5] == [(8, 0.7), (9, 0.6)]
    assert drawn.chains[3][:2] == [(8, 0.7), (9, 0.6)]
    assert first[2][0] == 7  # all that was recorded was right, so what is drawn is


def test_what_is_drawn_is_as_often_right_as_what_was_recorded_where_the_target_was_as_confident():
    wrong, right = ([(99, 0.3)], [5]), ([(6, 0.95)], [6, 7])
    recorded = reply(*[wrong, right] * 20)
    draws = Draws([recorded])
    found = known(recorded)
    bonus = [n for n, chain in enumerate(draws.draw(recorded, found, Random(1)).chains) if n % 3 == 2 and chain]
    firsts = [draws.draw(recorded, found, Random(seed)).chains[n][0] for seed in range(6) for n in bonus]
    share = sum(token == 7 for token, _ in firsts) / len(firsts)
    assert 0.35 < share < 0.65
    assert {p for token, p in firsts if token == 7} == {0.95} and {p for token, p in firsts if token != 7} == {0.3}
