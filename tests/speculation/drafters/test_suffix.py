"""The suffix automaton against a search by hand."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.speculation.drafters.suffix import SuffixAutomaton, SuffixDrafter

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
        assert automaton.end[1] == length
        first = next(automaton.continuation(*automaton.end), None)
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
    assert automaton.end[1] == 3
    assert [token for token, _, _ in islice(automaton.continuation(*automaton.end), 27)] == passage[3:]


def test_of_equally_common_continuations_the_latest_is_proposed():
    automaton = SuffixAutomaton()
    for token in [5, 6, 7, 1, 5, 6, 8, 2, 5, 6]:
        automaton.extend(token)
    assert next(automaton.continuation(*automaton.end))[:2] == (8, 0.5)


def test_states_and_transitions_stay_linear():
    automaton = SuffixAutomaton()
    for n in range(3000):
        automaton.extend((n * n) % 7)
    assert len(automaton._next) <= 2 * 3000
    assert sum(map(len, automaton._next)) <= 3 * 3000


def proposed(drafter: SuffixDrafter, tokens: list[int], most: int = 5) -> list[int]:
    return [candidate.id for candidate in islice(drafter.cursor(tokens).candidates(), most)]


def test_another_conversation_begins_anew():
    drafter = SuffixDrafter()
    drafter.prepare([1, 2, 3, 4, 1, 2], lambda: False)
    assert proposed(drafter, [1, 2, 3, 4, 1, 2], 2) == [3, 4]
    drafter.prepare([1, 9, 1, 2], lambda: False)
    assert proposed(drafter, [1, 9, 1, 2]) == []


PASSAGE = list(range(10, 50))


def edited(replaced: int, by: list[int]) -> list[int]:
    """A passage, and its first half again with the last `replaced` tokens replaced."""
    return [*PASSAGE, 1, *PASSAGE[: 20 - replaced], *by]


@pytest.mark.parametrize(
    ("text", "follows"),
    [
        (edited(1, [77]), PASSAGE[20:25]),  # one token for another
        (edited(2, [77, 78]), PASSAGE[20:25]),
        (edited(0, [PASSAGE[23]]), PASSAGE[24:29]),  # three left out
        (edited(0, [77, 78, *PASSAGE[20:22]]), PASSAGE[22:27]),  # two put in
    ],
)
def test_copying_goes_on_behind_an_edit(text, follows):
    drafter = SuffixDrafter()
    drafter.prepare(text, lambda: False)
    assert proposed(drafter, text) == follows


def test_an_edit_is_followed_in_its_own_place_not_where_the_same_words_stood_last():
    elsewhere = [PASSAGE[23], 90, 91, 92]
    text = [*PASSAGE, *elsewhere, 1, *PASSAGE[:20], PASSAGE[23]]
    drafter = SuffixDrafter()
    drafter.prepare(text, lambda: False)
    assert proposed(drafter, text) == PASSAGE[24:29]


@given(texts, st.lists(st.integers(0, 3), max_size=8))
def test_a_cursor_sees_what_the_text_would_show(text, drafted):
    """Moving the cursor over a draft finds the matches that adding it to the text would find, but those within itself."""
    automaton = SuffixAutomaton()
    for token in text:
        automaton.extend(token)
    state, length = automaton.end
    for n, token in enumerate(drafted, 1):
        before = length
        state, length = automaton.advance(state, length, token)
        whole = [*text, *drafted[:n]]
        ends = [
            size
            for size in range(len(whole))
            for end in range(size, len(text) + 1)
            if text[end - size : end] == whole[len(whole) - size :]
        ]
        longest = max(size for size in ends if size < len(whole))
        assert length == longest or (before > 24 and length < longest), "a long match is shortened by 24 links at most"
