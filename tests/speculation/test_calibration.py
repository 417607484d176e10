"""What is learned of a drafter: from tokens that the target judged, and from no others."""

from __future__ import annotations

import numpy as np
import pytest

from spectui.speculation.calibration import Calibration
from spectui.speculation.records import Candidate


def drafted(*tokens: tuple[int, float], source: str = "model") -> list[Candidate]:
    return [Candidate(id, p, source) for id, p in tokens]


def test_what_stands_behind_the_first_difference_is_not_seen():
    """Whether it agrees there says nothing: the target went another way."""
    one, other = Calibration(), Calibration()
    one.observe(drafted((1, 0.9), (2, 0.7), (3, 0.3)), [1, 7])
    other.observe(drafted((1, 0.9), (2, 0.7)), [1, 7])
    for p in (0.9, 0.7, 0.3):
        assert one.chance(Candidate(0, p, "model")) == other.chance(Candidate(0, p, "model"))
    assert one.mean("model") == other.mean("model")


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
