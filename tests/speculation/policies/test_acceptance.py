"""What is learned of a drafter: from tokens that the target judged, and from no others."""

from __future__ import annotations

import numpy as np
import pytest

from spectui.knobs import Knobs
from spectui.speculation.drafters.suffix import SuffixDrafter
from spectui.speculation.policies.acceptance import Acceptance, match_prior
from spectui.speculation.records import Candidate
from tests.speculation.replaying import RECORDED, recorded


def drafted(*tokens: tuple[int, float], source: str = "model") -> list[Candidate]:
    return [Candidate(id, p, source) for id, p in tokens]


def test_what_stands_behind_the_first_difference_is_not_seen():
    """Whether it agrees there says nothing: the target went another way."""
    one, other = Acceptance(), Acceptance()
    one.observe(drafted((1, 0.9), (2, 0.7), (3, 0.3)), [1, 7], ())
    other.observe(drafted((1, 0.9), (2, 0.7)), [1, 7], ())
    for p in (0.9, 0.7, 0.3):
        assert one.expected(Candidate(0, p, "model")) == other.expected(Candidate(0, p, "model"))
    assert one.expected_ahead() == other.expected_ahead()


def test_what_was_left_out_is_seen_where_the_target_came_as_far():
    """A token is drafted, found too uncertain, and left out; the target's own choice tells what it would have been worth."""
    acceptance = Acceptance()
    before = acceptance.expected(Candidate(0, 0.3, "model"))
    for _ in range(20):
        acceptance.observe(drafted((1, 0.3)), [1], ())
    right = acceptance.expected(Candidate(0, 0.3, "model"))
    for _ in range(60):
        acceptance.observe(drafted((1, 0.3)), [2], ())
    assert before < 0.4 < 0.7 < right
    assert acceptance.expected(Candidate(0, 0.3, "model")) < 0.3


@pytest.mark.parametrize("kept", [0, 1, 3, 8])
def test_what_is_learned_does_not_depend_on_how_much_is_kept(kept: int):
    """Drafts of eight whose confidence p is really p squared, cut at several lengths: by the mean each learns p squared."""
    numbers = np.random.default_rng(kept)
    acceptance, learned = Acceptance(), []
    for _ in range(3000):
        draft = [Candidate(1, float(p), "model") for p in numbers.choice([0.35, 0.6, 0.85, 0.95], 8)]
        agreed = [bool(numbers.random() < each.p**2) for each in draft]
        accepted = (*agreed[:kept], False).index(False)
        acceptance.observe(draft, [1] * accepted + [int(agreed[accepted]) if accepted < len(draft) else 5], ())
        learned.append([acceptance.expected(Candidate(0, p, "model")) for p in (0.35, 0.6, 0.85, 0.95)])
    assert np.mean(learned[500:], axis=0) == pytest.approx([0.35**2, 0.6**2, 0.85**2, 0.95**2], abs=0.09)


def test_long_and_short_matches_are_told_apart():
    """Words in common that lead nowhere say nothing of a copied page."""
    acceptance = Acceptance()
    before = acceptance.expected(Candidate(0, match_prior(40), "suffix", match=40))
    for _ in range(30):
        acceptance.observe([Candidate(1, match_prior(2), "suffix", match=2)], [2], ())
    assert acceptance.expected(Candidate(0, match_prior(2), "suffix", match=2)) < 0.1
    assert acceptance.expected(Candidate(0, match_prior(40), "suffix", match=40)) == before


def test_sources_are_told_apart():
    acceptance = Acceptance()
    for _ in range(30):
        acceptance.observe(drafted((1, 0.8), source="suffix"), [2], ())
    assert acceptance.expected(Candidate(0, 0.8, "suffix")) < 0.25
    assert acceptance.expected(Candidate(0, 0.8, "model")) == pytest.approx(0.8)


def test_less_is_expected_where_the_target_is_less_confident():
    """Before anything is known the model is expected to agree as often as the target is sure."""
    acceptance = Acceptance()
    for confidence in (0.0, 0.5, 0.8, 0.95, 1.0):
        assert acceptance.expected_ahead(confidence) == pytest.approx(confidence)


def test_a_model_that_fails_where_the_target_is_confident_is_expected_to_fail_again_there():
    acceptance = Acceptance()
    acceptance.observe((), (), [0.98] * 40)
    numbers = np.random.default_rng(0)
    for _ in range(400):
        acceptance.observe(drafted((1, 0.9)), [1 if numbers.random() < 0.7 else 2], [0.98])
    assert acceptance.expected_ahead() == pytest.approx(0.7, abs=0.1)
    assert acceptance.expected_ahead(0.4) == pytest.approx(0.4), "of other confidences nothing was seen"


def test_repetitions_say_nothing_of_what_the_model_would_do():
    acceptance = Acceptance()
    before = acceptance.expected_ahead()
    for _ in range(50):
        acceptance.observe(drafted((1, 0.8), source="suffix"), [2], ())
    assert acceptance.expected_ahead() == before


def test_the_targets_confidence_follows_the_text():
    acceptance = Acceptance()
    acceptance.observe((), (), [0.9] * 300)
    assert acceptance.expected_ahead() == pytest.approx(0.9)
    acceptance.observe((), (), [0.4] * 20)
    assert acceptance.expected_ahead() == pytest.approx(0.4, abs=0.02)


def test_what_failed_is_tried_again_after_a_while():
    """Observations fade while nothing is drafted, too: the text may have changed."""
    acceptance = Acceptance()
    for _ in range(200):
        acceptance.observe(drafted((1, 0.8)), [2], [0.8])
    assert acceptance.expected_ahead() < 0.1
    for _ in range(500):
        acceptance.observe((), (), [0.8])
    assert acceptance.expected_ahead() == pytest.approx(0.8, abs=0.06)


def test_old_observations_fade():
    """200 of prose, then 200 of code: the code's count."""
    acceptance = Acceptance()
    for token in [2] * 200 + [1] * 200:
        acceptance.observe(drafted((1, 0.8)), [token], ())
    assert acceptance.expected(Candidate(0, 0.8, "model")) > 0.8


def test_matches_of_several_lengths_are_told_apart():
    acceptance = Acceptance()
    for _ in range(50):
        acceptance.observe([Candidate(1, 0.5, "suffix", match=2)], [2], ())
        acceptance.observe([Candidate(1, 0.5, "suffix", match=20)], [1], ())
    short, long = (acceptance.expected(Candidate(1, 0.5, "suffix", match=match)) for match in (2, 20))
    assert short < 0.15 and long > 0.85


def test_a_confidence_that_float32_rounds_above_1_counts_as_1():
    acceptance = Acceptance()
    for _ in range(100):
        acceptance.observe(drafted((1, 1.0)), [1], [1.0000002])
    assert acceptance.expected_ahead() == pytest.approx(1.0)


def test_a_draft_model_fails_about_as_often_as_its_target_is_not_confident():
    """What `expected` stands on, in replies of the 1.5B and what its 0.5B would have drafted at each of their places."""
    confidences, agreed = [], []
    openings = []
    for reply in recorded(RECORDED / "q8").values():
        acceptance = Acceptance()
        openings.append(reply.sure[0])
        assert reply.chains is not None
        for token, sure, chain in zip(reply.tokens[reply.prompt :], reply.sure, reply.chains, strict=True):
            confidences.append(acceptance.expected_ahead())
            agreed.append(chain[0][0] == token)
            acceptance.observe((), (), [sure])
    shares = [
        (np.mean(np.array(confidences)[among]), np.mean(np.array(agreed)[among]))
        for among in np.array_split(np.argsort(confidences), 6)
    ]
    for confidence, accepted in shares:
        assert accepted == pytest.approx(confidence, abs=0.08)
    assert 1 - shares[0][1] > 4 * (1 - shares[-1][1])
    assert np.mean(openings) == pytest.approx(Acceptance().expected_ahead(), abs=0.05)


def test_long_matches_are_trusted_as_much_as_the_recorded_replies_follow_them():
    """Text that is copied changes now and then, however long the match: the names of a table stay, its values do not."""
    followed, expected = [], []
    for pair in ("q8", "smollm2"):
        for recording in recorded(RECORDED / pair).values():
            drafter, position = SuffixDrafter(), recording.prompt
            while position < len(recording.tokens):
                for candidate in drafter.propose(recording.tokens[:position], Knobs()):
                    if position == len(recording.tokens):
                        break
                    agrees = candidate.id == recording.tokens[position]
                    position += 1
                    if 15 <= candidate.match < 40:
                        followed.append(agrees)
                        expected.append(match_prior(candidate.match))
                    if not agrees:
                        break
                else:
                    position += 1
    assert len(followed) > 200
    assert np.mean(expected) == pytest.approx(np.mean(followed), abs=0.02)
