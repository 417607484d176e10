"""When the draft model joins in: it must have read the text, which takes it time that its drafts have to save.

Before a prompt of 1,000 tokens a draft of a third of the target's size lets the first token wait a third longer. Whether
that pays depends on how much of a reply follows, which nobody knows: it is taken to be as long as replies were lately. Where
that does not pay, the model joins in as soon as waiting has cost as much as reading would have (ski rental), which it never
does where repetitions are drafted as fast.
"""

from __future__ import annotations

from spectui.speculation.policies.economics import Economics

_REPLY = 256.0
"""Tokens that a reply is expected to have before there was one."""

_RATE = 0.3
"""Weight of the last reply's length, and of the last look at the pace."""

_FEW = 32
"""Fewer tokens than these are read in passing, and say little about the pace."""


class Joining:
    """Lives as long as the pair is loaded. Seconds are as the machine is today."""

    def __init__(self, economics: Economics) -> None:
        self._economics = economics
        self.pace = 0.0
        """Seconds that the draft model takes to read a token; 0 before it was seen."""
        self.reply = _REPLY
        """Tokens that a reply is expected to have."""
        self._written = 0
        self._missed: float | None = None
        """Seconds that the model would have saved in this reply since it was not let in; None where it was."""
        self._guess = 0.0

    def begin(self, read: int, seconds: float) -> None:
        """A reply begins; of its prompt the target has read so many tokens in so many seconds."""
        if self._written:
            self.reply += _RATE * (self._written - self.reply)
        self._written, self._missed = 0, None
        economics = self._economics
        if read >= _FEW and economics.verify.known:
            # Until the draft model was seen to read: as much faster as it is in writing.
            self._guess = seconds / read * economics.drafting(2) / 2 / economics.verify(1, 0)

    def wrote(self, tokens: int, rows: int, context: int) -> None:
        """So many tokens more of the reply, by a pass over so many rows."""
        self._written += tokens
        if self._missed is not None:
            verify = self._economics.verify
            drafted = tokens * (verify(1, context) - self._economics.saves(context))
            self._missed += max(0.0, verify(rows, context) - drafted)

    def read(self, tokens: int, seconds: float, context: int) -> None:
        """The draft model has read so many tokens before the reply."""
        economics = self._economics
        if tokens >= _FEW:
            self.pace += (_RATE if self.pace else 1.0) * (seconds / tokens - self.pace)
        if economics.charged_s:
            economics.ledger.add(-seconds / economics.verify(1, context), 0.0)

    def pays(self, behind: int, context: int, most: int) -> bool:
        """Is it worth to have the draft model read so many tokens, for a reply of `most` tokens at most (-1: no bound)?

        What is expected to pay is an investment, and none of the ledger's business. What is not, the ledger may pay.
        """
        economics = self._economics
        seconds = behind * (self.pace or self._guess)
        if behind < _FEW or not seconds or not economics.verify.known:
            return True
        follows = max(self.reply, self._written)
        if most >= 0:
            follows = min(follows, most - self._written)
        ledger = economics.ledger
        waited = self._missed is None or self._missed >= seconds
        pays = ledger.credit > 0 and waited and seconds <= follows * economics.saves(context)
        if not pays and seconds <= ledger.credit * economics.verify(1, context):
            economics.charged_s = seconds
            pays = True
        if pays:
            self._missed = None
            return True
        self._missed = self._missed or 0.0
        economics.unread_s = seconds
        return False
