"""The suffix automaton against a search by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from spectui.knobs import Knobs
from spectui.speculation.suffix import SuffixAutomaton, SuffixDrafter
from tests.toys import ToyModel, decode, emitted

texts = st.lists(st.integers(0, 3), max_size=60) | st.lists(st.integers(0, 30), max_size=60)


def longest_match(text: list[int]) -> int:
    """The longest proper suffix that also ends earlier."""
    for length in range(len(text) - 1, 0, -1):
        if any(text[end - length : end] == text[-length:] for end in range(length, len(text))):
            return length
    return 0


def followers(text: list[int], length: int) -> dict[int, int]:
    """How often each token followed the last `length` tokens."""
    counts: dict[int, int] = {}
    for end in range(length, len(text)):
        if text[end - length : end] == text[-length:]:
            counts[text[end]] = counts.get(text[end], 0) + 1
    return counts


@given(texts)
def test_match_and_first_proposal_at_every_length(text):
    automaton = SuffixAutomaton()
    for n, token in enumerate(text, 1):
        automaton.extend(token)
        seen = text[:n]
        length = longest_match(seen)
        assert automaton.match == length
        first = next(automaton.continuation(), None)
        if not length:
            assert first is None
            continue
        counts = followers(seen, length)
        assert first[0] in counts
        assert first[2] == length
        if len(set(seen)) > 1 and n < 24:  # beyond that, the bound on ancestors may round counts
            assert counts[first[0]] == max(counts.values())
            assert first[1] == counts[first[0]] / sum(counts.values())


def test_a_repeated_passage_is_proposed_whole():
    passage = list(range(10, 40))
    automaton = SuffixAutomaton()
    for token in [*passage, 1, 2, *passage[:3]]:
        automaton.extend(token)
    assert automaton.match == 3
    assert [token for token, _, _ in islice(automaton.continuation(), 27)] == passage[3:]


def test_of_equally_common_continuations_the_latest_is_proposed():
    automaton = SuffixAutomaton()
    for token in [5, 6, 7, 1, 5, 6, 8, 2, 5, 6]:
        automaton.extend(token)
    assert next(automaton.continuation())[:2] == (8, 0.5)


def test_states_and_transitions_stay_linear():
    automaton = SuffixAutomaton()
    for n in range(3000):
        automaton.extend((n * n) % 7)
    assert len(automaton._next) <= 2 * 3000
    assert sum(map(len, automaton._next)) <= 3 * 3000


@given(st.integers(0, 30), st.sampled_from([0.0, 0.9]), st.integers(0, 20))
def test_text_is_plain_decodings(seed, temperature, most):
    prompt = [3, 1, 4, 1, 5, 3, 1, 4]
    knobs = Knobs(
        drafter="suffix", policy="fixed", temperature=temperature, seed=seed, draft_max=most, p_min=0.0, predict=60
    )
    _, plain, _ = decode(ToyModel(seed), prompt, replace(knobs, drafter="off"))
    _, rounds, _ = decode(ToyModel(seed), prompt, knobs)
    assert emitted(rounds) == emitted(plain)


def test_another_conversation_begins_anew():
    drafter = SuffixDrafter()
    drafter.prepare([1, 2, 3], lambda: False)
    drafter.prepare([1, 2, 3, 4], lambda: False)
    assert drafter.automaton.tokens == [1, 2, 3, 4]
    drafter.prepare([1, 9], lambda: False)
    assert drafter.automaton.tokens == [1, 9]
