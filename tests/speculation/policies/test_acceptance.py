"""What is learned of a drafter: from tokens that the target judged, and from no others."""

import numpy as np
import pytest

from spectui.speculation.drafters.suffix import SuffixDrafter, match_prior
from spectui.speculation.policies.draft import Acceptance
from spectui.speculation.records import Candidate
from tests.speculation.replaying import RECORDED, recorded


def drafted(*tokens: tuple[int, float], source: str = "model") -> list[Candidate]:
    return [Candidate(id, p, source) for id, p in tokens]


def test_before_anything_is_known_a_confidence_counts_as_it_is():
    acceptance = Acceptance()
    for p in (0.0, 0.3, 0.9, 0.99):
        for source in ("model", "suffix"):
            assert acceptance.expected(Candidate(0, p, source)) == pytest.approx(p)
        assert acceptance.undrafted(p) == pytest.approx(p)


def test_what_stands_behind_the_first_difference_is_not_seen():
    """Whether it agrees there says nothing: the target went another way."""
    one, other = Acceptance(), Acceptance()
    one.observe(drafted((1, 0.9), (2, 0.7), (3, 0.3)), [1, 7], ())
    other.observe(drafted((1, 0.9), (2, 0.7)), [1, 7], ())
    for p in (0.9, 0.7, 0.3):
        assert one.expected(Candidate(0, p, "model")) == other.expected(Candidate(0, p, "model"))
    assert one.undrafted() == other.undrafted()


def test_what_was_left_out_is_seen_where_the_target_came_as_far():
    """A token is drafted, found too uncertain, and left out; the target's own choice tells what it would have been worth."""
    acceptance = Acceptance()
    for _ in range(60):
        acceptance.observe(drafted((1, 0.3)), [1], ())
    assert acceptance.expected(Candidate(0, 0.3, "model")) > 0.6
    for _ in range(60):
        acceptance.observe(drafted((1, 0.3)), [2], ())
    assert acceptance.expected(Candidate(0, 0.3, "model")) < 0.3


@pytest.mark.parametrize("kept", [0, 1, 3, 8])
def test_what_is_learned_does_not_depend_on_how_much_is_kept(kept: int):
    """Drafts of eight whose odds are a third of what their confidence says, cut at several lengths."""
    numbers = np.random.default_rng(kept)
    acceptance, learned = Acceptance(), []
    confidences = [0.35, 0.6, 0.85, 0.95]
    truth = [p / 3 / (1 - p + p / 3) for p in confidences]
    for _ in range(3000):
        draft = [Candidate(1, float(p), "model") for p in numbers.choice(confidences, 8)]
        agreed = [bool(numbers.random() < truth[confidences.index(each.p)]) for each in draft]
        accepted = (*agreed[:kept], False).index(False)
        acceptance.observe(draft, [1] * accepted + [int(agreed[accepted]) if accepted < len(draft) else 5], ())
        learned.append([acceptance.expected(Candidate(0, p, "model")) for p in confidences])
    assert np.mean(learned[500:], axis=0) == pytest.approx(truth, abs=0.09)


def test_sources_are_told_apart():
    acceptance = Acceptance()
    for _ in range(60):
        acceptance.observe(drafted((1, 0.8), source="suffix"), [2], ())
    assert acceptance.expected(Candidate(0, 0.8, "suffix")) < 0.4
    assert acceptance.expected(Candidate(0, 0.8, "model")) == pytest.approx(0.8)
    assert acceptance.undrafted(0.8) == pytest.approx(0.8)


def test_words_in_common_that_lead_nowhere_say_nothing_of_a_copied_page():
    acceptance = Acceptance()
    before = acceptance.expected(Candidate(0, match_prior(40), "suffix", match=40))
    for _ in range(60):
        acceptance.observe([Candidate(1, match_prior(2), "suffix", match=2)], [2], ())
    assert acceptance.expected(Candidate(0, match_prior(40), "suffix", match=40)) == before
    for _ in range(60):
        acceptance.observe([Candidate(1, match_prior(20), "suffix", match=20)], [2], ())
    assert acceptance.expected(Candidate(0, match_prior(40), "suffix", match=40)) < 0.6


def test_a_model_that_is_always_sure_and_wrong_is_expected_to_be_wrong():
    acceptance = Acceptance()
    for _ in range(100):
        acceptance.observe(drafted((1, 1.0)), [2], [1.0000002])
    assert acceptance.expected(Candidate(0, 1.0, "model")) < 0.8
    assert acceptance.expected(Candidate(0, 0.9, "model")) < 0.1


def test_the_targets_confidence_follows_the_text():
    acceptance = Acceptance()
    acceptance.observe((), (), [0.9] * 300)
    assert acceptance.undrafted() == pytest.approx(0.9)
    acceptance.observe((), (), [0.4] * 20)
    assert acceptance.undrafted() == pytest.approx(0.4, abs=0.02)


def test_what_failed_is_tried_again_after_a_while():
    """Also while nothing is drafted: the text may have changed."""
    acceptance = Acceptance()
    for _ in range(200):
        acceptance.observe(drafted((1, 0.8)), [2], [0.8])
    assert acceptance.undrafted() < 0.3
    for _ in range(500):
        acceptance.observe((), (), [0.8])
    assert acceptance.undrafted() == pytest.approx(0.8, abs=0.06)


def test_a_draft_model_fails_about_as_often_as_its_target_is_not_confident():
    """What `undrafted` stands on, in replies of the 1.5B and what its 0.5B would have drafted at each of their places."""
    confidences, agreed = [], []
    openings = []
    for reply in recorded(RECORDED / "q8").values():
        acceptance = Acceptance()
        openings.append(reply.confidences[0])
        assert reply.chains is not None
        for token, confidence, chain in zip(reply.tokens[reply.prompt :], reply.confidences, reply.chains, strict=True):
            confidences.append(acceptance.undrafted())
            agreed.append(chain[0][0] == token)
            acceptance.observe((), (), [confidence])
    shares = [
        (np.mean(np.array(confidences)[among]), np.mean(np.array(agreed)[among]))
        for among in np.array_split(np.argsort(confidences), 6)
    ]
    for confidence, accepted in shares:
        assert accepted == pytest.approx(confidence, abs=0.08)
    assert 1 - shares[0][1] > 4 * (1 - shares[-1][1])
    assert np.mean(openings) == pytest.approx(Acceptance().undrafted(), abs=0.05)


def test_long_matches_are_trusted_as_much_as_the_recorded_replies_follow_them():
    """Text that is copied changes now and then, however long the match: the names of a table stay, its values do not."""
    followed, expected = [], []
    for pair in ("q8", "smollm2"):
        for recording in recorded(RECORDED / pair).values():
            drafter, position = SuffixDrafter(), recording.prompt
            while position < len(recording.tokens):
                for candidate in drafter.cursor(recording.tokens[:position]).candidates():
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
    assert len(followed) > 150
    assert np.mean(expected) == pytest.approx(np.mean(followed), abs=0.02)
