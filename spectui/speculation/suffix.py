"""A suffix automaton over the conversation: what followed the last time these words stood here?

Blumer et al. 1985: built online, O(1) amortised per token. The suffix link of the newest state is the longest suffix of
the text that also stands further up; following the commonest transition from there proposes a continuation (as SAM
decoding does, arXiv:2411.10666). It costs microseconds and needs no draft model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spectui.knobs import Knobs
from spectui.speculation.calibration import trust
from spectui.speculation.model import Cancelled, common_prefix
from spectui.speculation.records import Candidate

_ANCESTORS = 24
"""Suffix links followed to count an occurrence. Text has about ten; only repetition without end has more."""


class SuffixAutomaton:
    """States are numbers; state 0 is the empty string."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._count = [0]
        self._last_end = [0]
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
        self._last = new
        for _ in range(_ANCESTORS):
            self._count[new] += 1
            self._last_end[new] = len(self.tokens)
            new = self._link[new]
            if new <= 0:
                break

    def _split(self, state: int, token: int, target: int) -> int:
        """A copy of `target` for the shorter strings that end there."""
        clone = self._state(self._length[state] + 1, dict(self._next[target]))
        self._link[clone] = self._link[target]
        self._count[clone] = self._count[target]
        self._last_end[clone] = self._last_end[target]
        while state >= 0 and self._next[state].get(token) == target:
            self._next[state][token] = clone
            state = self._link[state]
        return clone

    def _state(self, length: int, transitions: dict[int, int]) -> int:
        self._next.append(transitions)
        self._link.append(-1)
        self._length.append(length)
        self._count.append(0)
        self._last_end.append(0)
        return len(self._next) - 1

    @property
    def match(self) -> int:
        """Length of the longest suffix of the text that also stands further up, in tokens."""
        return self._length[self._link[self._last]] if self._last else 0

    def continuation(self) -> Iterator[tuple[int, float, int]]:
        """(token, share of the times that it followed, length of the match behind it), for as long as anything followed."""
        state = self._link[self._last] if self._last else 0
        length = self._length[state]
        while length and self._next[state]:
            followers = self._next[state]
            # The commonest; of equally common ones the one that stood last.
            token = max(followers, key=lambda each: (self._count[followers[each]], self._last_end[followers[each]]))
            total = sum(self._count[each] for each in followers.values())
            yield token, self._count[followers[token]] / total, length
            state = followers[token]
            length += 1


class SuffixDrafter:
    """Proposes what followed the longest match. Knows everything in the conversation, and nothing else."""

    upcoming = "suffix"

    def __init__(self) -> None:
        self.automaton = SuffixAutomaton()

    def prepare(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        if common_prefix(self.automaton.tokens, tokens) < len(self.automaton.tokens):
            self.automaton = SuffixAutomaton()
        self._catch_up(tokens)

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        self._catch_up(tokens)
        for token, share, length in self.automaton.continuation():
            # Before anything is known of this text, a longer match is trusted more.
            yield Candidate(token, share * trust(length), "suffix", match=length)

    def _catch_up(self, tokens: Sequence[int]) -> None:
        for token in tokens[len(self.automaton.tokens) :]:
            self.automaton.extend(token)
