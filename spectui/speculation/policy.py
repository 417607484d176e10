"""Draft-length policies: when to stop drafting, and how much of the draft to verify."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spectui.knobs import Knobs
from spectui.speculation.records import Candidate


class Policy(Protocol):
    """Asked anew for each candidate. `limit`: most tokens that this round has room for."""

    def wants_more(self, drafted: Sequence[Candidate], knobs: Knobs, limit: int) -> bool:
        """Is another candidate worth its cost? Asked before it is paid for."""

    def takes(self, candidate: Candidate, knobs: Knobs) -> bool:
        """Does the candidate go into the draft? If not, drafting stops."""

    def keep(self, drafted: Sequence[Candidate], knobs: Knobs) -> int:
        """How many of the drafted tokens the target is shown; the others are ignored."""


class FixedPolicy:
    """draft-max, draft-min and p-min as llama.cpp means them.

    p-min is checked before a token is taken; a draft shorter than draft-min is ignored.
    """

    def wants_more(self, drafted: Sequence[Candidate], knobs: Knobs, limit: int) -> bool:
        return knobs.draft_min <= limit and len(drafted) < limit

    def takes(self, candidate: Candidate, knobs: Knobs) -> bool:
        return candidate.p >= knobs.p_min

    def keep(self, drafted: Sequence[Candidate], knobs: Knobs) -> int:
        return len(drafted) if len(drafted) >= knobs.draft_min else 0
