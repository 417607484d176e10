"""A suffix automaton over the conversation: it proposes what followed the same tokens before.

Blumer et al. 1985: built online, O(1) amortised per token. The suffix link of the newest state is the longest suffix of
the text that also occurs earlier; following the commonest transition from there proposes a continuation (as SAM
decoding does, arXiv:2411.10666). Which one that is, is kept up to date: in a list thousands of words follow the same comma.
It costs microseconds and needs no draft model.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from copy import copy

from spectui.speculation.drafters.copy_cursor import CopyCursor
from spectui.speculation.drafters.text import DraftedText
from spectui.speculation.evaluator import Cancelled, common_prefix
from spectui.speculation.records import Candidate

_LOOK_BACK = 32
"""Tokens of the text to look for in past replies: longer matches are no more reliable."""

_ANCESTORS = 24
"""Most suffix links followed to count an occurrence or to shorten a match. Text has about ten; only endless repetition has
more."""

_AT_ONCE = 2048
"""Tokens that are read without asking whether to go on: some hundredths of a second."""


_LONG_MATCH, _HALF_MATCH = 0.96, 12.0
"""Copied text changes once in 25 tokens of the recorded replies; half as sure is a match of the root of 12 tokens."""


def match_prior(match: int) -> float:
    """The chance that text goes on as it did after a match of this length: .07, .24, .41, .55, .65, .72 ... .89 at 12."""
    return _LONG_MATCH * match * match / (match * match + _HALF_MATCH)


class SuffixAutomaton:
    """States are numbers; state 0 is the empty string. Time and memory are linear in the text, and no query depends on it."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Empty the automaton. Earlier matches in it become invalid."""
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = array("i", [-1])
        self._length = array("i", [0])
        self._count = array("i", [0])
        self._last_end = array("i", [0])
        self._followed = array("i", [0])  # the number of times that any token followed, and ...
        self._commonest = array("i", [0])  # ... the one that followed most often, the latest of equally common ones
        self._last = 0

    def extend(self, token: int) -> None:
        """Append a token to the text."""
        new = self._state(self._length[self._last] + 1, {})
        self.tokens.append(token)
        state = self._last
        while state >= 0 and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        if state < 0:
            self._link[new] = 0
        else:
            target = self._next[state][token]
            if self._length[state] + 1 == self._length[target]:
                self._link[new] = target
            else:
                self._link[new] = self._link[target] = self._split(state, token, target)
        before, self._last = self._last, new
        self._count_occurrence(before, token)

    def _count_occurrence(self, before: int, token: int) -> None:
        """Count the newest token behind each suffix of the text before it, whose longest is this state's."""
        count, last_end, link, end = self._count, self._last_end, self._link, len(self.tokens)
        counted = -1
        for _ in range(_ANCESTORS):
            followers = self._next[before]
            state = followers[token]
            if state != counted:  # several suffixes may lead to one
                counted = state
                count[state] += 1
                last_end[state] = end
            if not self._followed[before] or count[state] >= count[followers[self._commonest[before]]]:
                self._commonest[before] = token
            self._followed[before] += 1
            before = link[before]
            if before < 0:
                break

    def _split(self, state: int, token: int, target: int) -> int:
        """A copy of `target` for the shorter strings that end there."""
        clone = self._state(self._length[state] + 1, dict(self._next[target]))
        self._link[clone] = self._link[target]
        for column in (self._count, self._last_end, self._followed, self._commonest):
            column[clone] = column[target]
        while state >= 0 and self._next[state].get(token) == target:
            self._next[state][token] = clone
            state = self._link[state]
        return clone

    def _state(self, length: int, transitions: dict[int, int]) -> int:
        self._next.append(transitions)
        self._link.append(-1)
        self._length.append(length)
        for column in (self._count, self._last_end, self._followed, self._commonest):
            column.append(0)
        return len(self._next) - 1

    @property
    def end(self) -> tuple[int, int]:
        """The state of the longest suffix of the text that also occurs earlier, and its length in tokens."""
        state = self._link[self._last] if self._last else 0
        return state, self._length[state]

    def advance(self, state: int, length: int, token: int) -> tuple[int, int]:
        """Extend a match by one token that is not part of the text: the longest match that ends with it, or a token's."""
        for _ in range(_ANCESTORS):
            if not state or token in self._next[state]:
                break
            state = self._link[state]
            length = self._length[state]
        else:
            state = length = 0
        following = self._next[state].get(token)
        return (following, length + 1) if following is not None else (0, 0)

    def continuation(self, state: int, length: int) -> Iterator[tuple[int, float, int]]:
        """(token, share of the times that it followed, length of the match behind it), for as long as anything followed."""
        while length and self._followed[state]:
            token = self._commonest[state]
            if token < 0:  # what stands between two texts
                return
            following = self._next[state][token]
            yield token, self._count[following] / self._followed[state], length
            state = following
            length += 1

    def earlier_end(self, state: int) -> int | None:
        """The end position of this match's latest occurrence with its commonest continuation; None if nothing followed."""
        if not self._followed[state]:
            return None
        return self._last_end[self._next[state][self._commonest[state]]] - 1


class SuffixMatch:
    """The longest suffix of a text that occurs in an automaton, updated token by token. The text may be another one."""

    def __init__(self, automaton: SuffixAutomaton, state: int = 0, length: int = 0) -> None:
        self.automaton = automaton
        self.state = state
        self.length = length

    def advance(self, token: int) -> None:
        """Append a token of the text."""
        self.state, self.length = self.automaton.advance(self.state, self.length, token)

    def candidates(self) -> Iterator[Candidate]:
        """The tokens that followed. Before anything is known of this text, a longer match has a higher expected acceptance."""
        for token, share, length in self.automaton.continuation(self.state, self.length):
            yield Candidate(token, share * match_prior(length), "suffix", match=length)


class Cursor:
    """A position at the end of the text, which advances with each drafted token.

    It proposes from the longest match, in this conversation or, if longer, in past ones; or from the passage being copied.
    """

    def __init__(self, text: Sequence[int], here: SuffixMatch, past: SuffixMatch | None, reader: CopyCursor) -> None:
        self._text = DraftedText(text)
        self._here = here
        self._past = past
        self._reader = reader

    def advance(self, token: int) -> None:
        """Advance by a drafted token."""
        self._text.append(token)
        self._here.advance(token)
        if self._past is not None:
            self._past.advance(token)
        self._reader.follow(self._text)
        _reseat(self._reader, self._here)

    @property
    def match(self) -> int:
        """Tokens that what it proposes has in common with the text before."""
        return max(self._here.length, self._past.length if self._past is not None else 0, self._reader.run)

    def candidates(self) -> Iterator[Candidate]:
        """The proposed tokens, one after the other."""
        longest = self._here
        if self._past is not None and self._past.length > longest.length:
            longest = self._past
        if self._reader.run <= longest.length:
            yield from longest.candidates()
            return
        for length, position in enumerate(range(self._reader.position, len(self._text)), self._reader.run):
            yield Candidate(self._text[position], match_prior(length), "suffix", match=length)


class SuffixDrafter:
    """Proposes what followed the same tokens before, in this conversation and, if given, in past replies."""

    def __init__(self, past: SuffixAutomaton | None = None) -> None:
        self._automaton = SuffixAutomaton()
        self._reader = CopyCursor()
        self._past = past

    def begin(self, tokens: Sequence[int]) -> None:
        """The conversation goes on with this prompt, or another one begins with it."""
        if common_prefix(self._automaton.tokens, tokens) < len(self._automaton.tokens):
            self._automaton, self._reader = SuffixAutomaton(), CopyCursor()

    def read(self, tokens: Sequence[int], end: int) -> bool:
        """Read on in the prompt, up to this end of it at most. Returns whether some of it is left.

        Takes some hundredths of a second at most, so that it can be done between two passes of the target over the prompt.
        """
        self._catch_up(tokens, min(end, len(self._automaton.tokens) + _AT_ONCE))
        return len(self._automaton.tokens) < end

    def prepare(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        self.begin(tokens)
        while not cancelled() and self.read(tokens, len(tokens)):
            pass

    def cursor(self, tokens: Sequence[int]) -> Cursor:
        """A cursor behind `tokens`."""
        self._catch_up(tokens, len(tokens))
        past = None
        if self._past is not None:
            past = SuffixMatch(self._past)
            for token in tokens[-_LOOK_BACK:]:
                past.advance(token)
        return Cursor(tokens, SuffixMatch(self._automaton, *self._automaton.end), past, copy(self._reader))

    def _catch_up(self, tokens: Sequence[int], end: int) -> None:
        automaton, reader = self._automaton, self._reader
        for token in tokens[len(automaton.tokens) : end]:
            automaton.extend(token)
            reader.follow(automaton.tokens)
            _reseat(reader, SuffixMatch(automaton, *automaton.end))


def _reseat(reader: CopyCursor, match: SuffixMatch) -> None:
    """A match that is longer than the passage being copied becomes the passage."""
    if match.length > reader.run:
        position = match.automaton.earlier_end(match.state)
        if position is not None:
            reader.start(position, match.length)
