"""The text as drafters see it: nothing that they do in a round takes longer, or more memory, the longer the text is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

from spectui.speculation.evaluator import common_prefix


class DraftedText(Sequence[int]):
    """The first tokens of a list, which only grows and is not copied, and drafted tokens behind them."""

    base: Sequence[int]
    """The text's tokens, and what was added to them since."""
    length: int
    """How many of these it has."""
    _drafted: list[int]

    def __init__(self, tokens: Sequence[int], drafted: Iterable[int] = ()) -> None:
        """All of `tokens`, as many as they are now, and these behind them."""
        if isinstance(tokens, DraftedText):
            self.base, self.length, self._drafted = tokens.base, tokens.length, [*tokens._drafted, *drafted]
        else:
            self.base, self.length, self._drafted = tokens, len(tokens), [*drafted]

    def __len__(self) -> int:
        return self.length + len(self._drafted)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            of_base = self.base[start : min(stop, self.length)]
            return [*of_base, *self._drafted[max(0, start - self.length) : max(0, stop - self.length)]]
        if index < 0:
            index += len(self)
        if index < 0:
            raise IndexError("no such token")
        return self.base[index] if index < self.length else self._drafted[index - self.length]

    def append(self, token: int) -> None:
        """One more drafted token."""
        self._drafted.append(token)

    def common(self, other: Sequence[int]) -> int:
        """How many tokens both begin with in common. Those of one list are not compared."""
        text = DraftedText(other)
        shared = min(self.length, text.length) if text.base is self.base else 0
        return shared + common_prefix(self[shared:], text[shared:])


class CommonPrefix:
    """How many tokens of the text the tokens of a KV cache begin with. Only what is new of either is compared.

    For that the text has to be the same list that only grows, as within a reply; with another one all is compared. The cache
    may lose tokens at its end, and gets tokens of this text and drafted ones behind it alone.
    """

    def __init__(self) -> None:
        self._base: Sequence[int] | None = None
        self._known = 0

    def of(self, cached: Sequence[int], text: Sequence[int], unchanged: int | None = None) -> int:
        """The number for this cache and this text. `unchanged`: how many tokens of a text that does not only grow are
        as they were at the last question."""
        seen = DraftedText(text)
        if seen.base is not self._base:
            self._base, self._known = seen.base, 0
        known = min(self._known, len(cached), seen.length)
        if unchanged is not None:
            known = min(known, unchanged)
        common = known + common_prefix(cached[known:], seen[known : len(cached)])
        self._known = min(common, seen.length)
        return common
