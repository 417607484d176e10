"""What is learned of a drafter: from tokens that the target judged, and from no others."""

from __future__ import annotations

import numpy as np
import pytest

from spectui.speculation.policies.acceptance import Calibration
from spectui.speculation.records import Candidate
from tests.speculation.replaying import RECORDED, recorded


def drafted(*tokens: tuple[int, float], source: str = "model") -> list[Candidate]:
    return [Candidate(id, p, source) for id, p in tokens]


def test_what_stands_behind_the_first_difference_is_not_seen():
    """Whether it agrees there says nothing: the target went another way."""
    one, other = Calibration(), Calibration()
    one.observe(drafted((1, 0.9), (2, 0.7), (3, 0.3)), [1, 7])
    other.observe(drafted((1, 0.9), (2, 0.7)), [1, 7])
    for p in (0.9, 0.7, 0.3):
        assert one.chance(Candidate(0, p, "model")) == other.chance(Candidate(0, p, "model"))
    assert one.hope() == other.hope()


def test_what_was_left_out_is_seen_where_the_target_came_as_far():
    """A token is drafted, found too uncertain, and left out; the target's own choice tells what it would have been worth."""
    calibration = Calibration()
    before = calibration.chance(Candidate(0, 0.3, "model"))
    for _ in range(20):
        calibration.observe(drafted((1, 0.3)), [1])
    right = calibration.chance(Candidate(0, 0.3, "model"))
    for _ in range(60):
        calibration.observe(drafted((1, 0.3)), [2])
    assert before < 0.4 < 0.8 < right
    assert calibration.chance(Candidate(0, 0.3, "model")) < 0.3


@pytest.mark.parametrize("kept", [0, 1, 3, 8])
def test_what_is_learned_does_not_depend_on_how_much_is_kept(kept: int):
    """Drafts of eight whose confidence p is really p squared, cut at several lengths: each learns p squared."""
    numbers = np.random.default_rng(kept)
    calibration = Calibration()
    for _ in range(3000):
        draft = [Candidate(1, float(p), "model") for p in numbers.choice([0.35, 0.6, 0.85, 0.95], 8)]
        agreed = [bool(numbers.random() < each.p**2) for each in draft]
        accepted = (*agreed[:kept], False).index(False)
        calibration.observe(draft, [1] * accepted + [int(agreed[accepted]) if accepted < len(draft) else 5])
    for p in (0.35, 0.6, 0.85, 0.95):
        assert calibration.chance(Candidate(0, p, "model")) == pytest.approx(p * p, abs=0.12)


def test_sources_are_told_apart():
    calibration = Calibration()
    for _ in range(30):
        calibration.observe(drafted((1, 0.8), source="suffix"), [2])
    assert calibration.chance(Candidate(0, 0.8, "suffix")) < 0.2
    assert calibration.chance(Candidate(0, 0.8, "model")) == pytest.approx(0.8)


def test_less_is_hoped_for_where_the_target_doubts():
    calibration = Calibration()
    hopes = [calibration.hope(doubt) for doubt in (0.0, 0.05, 0.2, 0.5, 1.0)]
    assert hopes == sorted(hopes, reverse=True)
    assert (hopes[0], hopes[-1]) == (1.0, 0.0)
    for doubt, hope in zip((0.05, 0.2, 0.5), hopes[1:], strict=False):
        assert 1 - doubt < hope < 1 - doubt + 0.1


def test_a_model_that_fails_where_the_target_is_sure_is_hoped_for_no_more():
    calibration = Calibration()
    calibration.doubt = 0.02
    numbers = np.random.default_rng(0)
    for _ in range(400):
        calibration.observe(drafted((1, 0.9)), [1 if numbers.random() < 0.7 else 2])
    assert calibration.hope() == pytest.approx(0.7, abs=0.1)
    assert calibration.hope(0.3) < 0.6, "of a doubt at which nothing was drafted yet its failures elsewhere tell"


def test_repetitions_say_nothing_of_what_the_model_would_do():
    calibration = Calibration()
    before = calibration.hope()
    for _ in range(50):
        calibration.observe(drafted((1, 0.8), source="suffix"), [2])
    assert calibration.hope() == before


def test_the_targets_doubt_follows_the_text_and_a_reply_begins_with_much_of_it():
    calibration = Calibration()
    for _ in range(300):
        calibration.wrote(0.9)
    for _ in range(20):
        calibration.wrote(0.4)
    assert calibration.doubt == pytest.approx(0.6, abs=0.02)
    assert 0.1 < calibration.usual < 0.25
    calibration.doubt = 0.0
    calibration.begin()
    assert calibration.doubt > 0.3


def test_a_target_that_is_surer_than_sure_is_sure():
    """float32 rounds: the likeliest token's probability may be a little more than 1."""
    calibration = Calibration()
    for _ in range(100):
        calibration.wrote(1.0000002)
        calibration.observe(drafted((1, 1.0)), [1])
    assert calibration.hope() == pytest.approx(1.0)


def test_a_draft_model_fails_about_as_often_as_its_target_doubts():
    """What `hope` stands on, in nine replies of the 1.5B and what its 0.5B would have drafted at each of their places."""
    doubts, agreed = [], []
    openings = []
    for reply in recorded(RECORDED / "q8.json").values():
        calibration = Calibration()
        openings.append(1 - reply.sure[0])
        assert reply.chains is not None
        for token, sure, chain in zip(reply.tokens[reply.prompt :], reply.sure, reply.chains, strict=True):
            doubts.append(calibration.doubt)
            agreed.append(chain[0][0] == token)
            calibration.wrote(sure)
    shares = [
        (np.mean(np.array(doubts)[among]), 1 - np.mean(np.array(agreed)[among]))
        for among in np.array_split(np.argsort(doubts), 6)
    ]
    for doubt, failed in shares:
        assert failed == pytest.approx(doubt, abs=0.08)
    assert shares[-1][1] > 4 * shares[0][1]
    assert np.mean(openings) == pytest.approx(Calibration().doubt, abs=0.05)
