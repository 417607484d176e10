"""How much time speculation may lose against plain decoding: a token bucket of the conversation and one of the reply."""

from __future__ import annotations

_CONVERSATION = 10.0, 0.02
"""Plain passes that a conversation may lose at first, and share of its time: together 2 % from 500 tokens on."""

_REPLY = 0.5, 0.05
"""Seconds that a reply may lose at first, and share of its time: the more of the two."""


class LossBudget:
    """Each bucket holds max(first, share * time) - lost. `time` and `lost` are in seconds of plain decoding."""

    def __init__(self) -> None:
        self._time = self._lost = 0.0
        self._reply_time = self._reply_lost = 0.0

    def begin_reply(self) -> None:
        """Fill the reply's bucket anew."""
        self._reply_time = self._reply_lost = 0.0

    def begin_conversation(self) -> None:
        """Fill both buckets anew."""
        self.__init__()  # type: ignore[misc]

    def left(self, plain_s: float) -> float:
        """Seconds that may be lost now. `plain_s`: seconds of a plain pass."""
        passes, share = _CONVERSATION
        seconds, reply_share = _REPLY
        conversation = max(passes * plain_s, share * self._time) - self._lost
        return min(conversation, max(seconds, reply_share * self._reply_time) - self._reply_lost)

    def add(self, plain_s: float, lost_s: float) -> None:
        """A round took `lost_s` longer than plain decoding, which takes `plain_s` for its tokens; below 0 it gained."""
        self._time += plain_s
        self._lost += lost_s
        self._reply_time += plain_s
        self._reply_lost += lost_s
