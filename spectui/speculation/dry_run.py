"""Drafts that are not sent: what would they have gained?"""

from __future__ import annotations

from collections.abc import Sequence

from spectui.speculation.records import Candidate, Token


class DryRun:
    """A draft that the ledger did not let go, held beside the text as it comes: that costs nothing, and tells as much."""

    def __init__(self) -> None:
        self._drafted: Sequence[Candidate] = ()
        self._begin = 0
        self._agreed = 0

    def begin(self, drafted: Sequence[Candidate], position: int) -> None:
        """Watch this draft, whose first token would stand at this position. One at a time."""
        if not self._drafted:
            self._drafted, self._begin, self._agreed = drafted, position, 0

    def follow(self, tokens: Sequence[Token]) -> tuple[int, int] | None:
        """The tokens of a round have come. Returns how many tokens of a draft the text agreed with, and how many there were,
        when that is known; None until then, and if the text did not go on from there."""
        for token in tokens:
            if not self._drafted:
                break
            if token.position != self._begin + self._agreed:
                self._drafted = ()
            elif token.id == self._drafted[self._agreed].id and self._agreed + 1 < len(self._drafted):
                self._agreed += 1
            else:
                agreed, drafted = self._agreed + (token.id == self._drafted[self._agreed].id), len(self._drafted)
                self._drafted = ()
                return agreed, drafted
        return None
