"""Rebuilds the rounds of a reply from a server's running counters.

llama-server counts the drafted and the accepted tokens before it sends the first token of a round. So the counters jump there:
the next `accepted` tokens are accepted drafts, and the one behind them is the correction or the bonus. A token after that, at
which no counter jumps, is plain. Tokens without a chunk of their own (parts of a character, marks that the server keeps) are
counted by `predicted`: they have empty texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spectui.attach.chunks import Chosen, Counters, likeliest
from spectui.knobs import Knobs
from spectui.speculation.records import UNKNOWN, DraftToken, Origin, Reason, Round, Token
from spectui.text import safe

MOST_AT_ONCE = 4096
"""Tokens that one chunk may count: a chunk that counts more is cut there, so that a wrong number takes no memory."""


FEWEST_PLAIN = 4
"""Rounds without a draft that must be seen before their time is taken for that of a plain pass."""


class _Piece(NamedTuple):
    text: str
    chosen: Chosen | None = None


class _Open:
    """A round whose tokens are still coming."""

    def __init__(self, drafted: int, accepted: int) -> None:
        self.drafted, self.accepted = drafted, accepted
        self.pieces: list[_Piece] = []
        self.seconds = 0.0

    @property
    def missing(self) -> int:
        """The tokens that are still to come."""
        return self.accepted + 1 - len(self.pieces)


class PassTime:
    """What a pass without drafts takes: the mean of the rounds that had none. Rounds with drafts alone do not tell it."""

    def __init__(self) -> None:
        self._rounds, self._seconds = 0, 0.0

    def add(self, seconds: float) -> None:
        """One more round without a draft."""
        self._rounds, self._seconds = self._rounds + 1, self._seconds + seconds

    @property
    def plain_s(self) -> float | None:
        """Seconds; None until some were seen."""
        return self._seconds / self._rounds if self._rounds >= FEWEST_PLAIN else None


class Origins:
    """The rounds of one reply. `position`: tokens before it in the context."""

    def __init__(self, knobs: Knobs, source: str, times: PassTime | None = None, reason: Reason | None = None) -> None:
        """`source`: what the drafter is called. `times` is kept from reply to reply. `reason`: of rounds without a draft."""
        self.position = 0
        self.counted: bool | None = None
        """Whether the server counts; None while that is not known."""
        self._knobs, self._reason = knobs, reason
        self.source = source
        self._times = times or PassTime()
        self._open: _Open | None = None
        self._index = 0
        self._seen = Counters(0, 0, 0, None, 0, 0, None)
        self._held = ""
        self._chosen: list[Chosen] = []

    def add(
        self, text: str, counters: Counters | None, chosen: Sequence[Chosen] = (), seconds: float = 0.0
    ) -> Iterator[Round]:
        """One more chunk. Gives the rounds that it completes. `seconds`: since the last one, for a server without counters."""
        self._chosen += chosen
        if counters is not None:
            self.counted = True
            self._held += text
            yield from self._count(counters)
        elif self.counted or not text:
            self._held += text
        elif self.counted is None and not self._held:
            self._held = text  # the counters may come with the next chunk
        else:
            self.counted = False
            for each in filter(None, (self._held, text)):
                yield from self._plain([self._piece(each)], seconds)
            self._held = ""

    def end(self, counters: Counters | None = None, total: int | None = None) -> Iterator[Round]:
        """The rest. `counters`: the last ones. `total`: tokens of the reply as a server without counters says in the end."""
        if counters is not None:
            yield from self._count(counters)
        left = []
        if self._held:
            left, self._held = [self._piece(self._held)], ""
            room = self._open is not None and self._open.missing > 0
            if room and self._open is not None:
                self._open.pieces += left
                left = []
        yield from self._close()
        if total is not None and not self.counted:
            left += [_Piece("")] * min(MOST_AT_ONCE, total - self._seen.predicted - len(left))
        if left:
            yield from self._plain(left, 0.0)

    def _count(self, now: Counters) -> Iterator[Round]:
        seen = self._seen
        new = min(MOST_AT_ONCE, max(0, now.predicted - seen.predicted))
        if not new:
            return
        accepted = min(MOST_AT_ONCE, max(0, now.accepted - seen.accepted))
        # One that is accepted was drafted, whatever the other counter says: it catches up later.
        drafted = max(accepted, min(MOST_AT_ONCE, max(0, now.drafted - seen.drafted)))
        seconds = max(0.0, (now.seconds or 0.0) - (seen.seconds or 0.0))
        self._seen = now._replace(
            predicted=seen.predicted + new, drafted=seen.drafted + drafted, accepted=seen.accepted + accepted,
            seconds=max(now.seconds or 0.0, seen.seconds or 0.0),
        )  # fmt: skip
        pieces = [*[_Piece("")] * (new - 1), self._piece(self._held)]
        self._held = ""
        before = len(pieces) - bool(drafted)  # the last one is of the round that the jump began
        fills = min(self._open.missing, before) if self._open is not None else 0
        if self._open is not None and fills:
            self._open.pieces += pieces[:fills]
            if fills == len(pieces):
                self._open.seconds += seconds
                seconds = 0.0
        rest = pieces[fills:]
        if not rest:
            if self._open is not None and not self._open.missing:
                yield from self._close()
            return
        yield from self._close()
        own = min(len(rest), accepted + 1) if drafted else 0
        plain = rest[: len(rest) - own]
        share = seconds / (len(plain) + bool(own))
        yield from self._plain(plain, share)
        if own:
            self._open = _Open(drafted, accepted)
            self._open.pieces, self._open.seconds = rest[len(rest) - own :], share
            if not self._open.missing:
                yield from self._close()

    def _piece(self, text: str) -> _Piece:
        chosen, self._chosen = self._chosen, []
        return _Piece(safe(text), chosen[-1] if chosen else None)

    def _plain(self, pieces: Sequence[_Piece], seconds: float) -> Iterator[Round]:
        """A round for each."""
        for piece in pieces:
            opened = _Open(0, 0)
            opened.pieces, opened.seconds = [piece], seconds
            yield self._round(opened)

    def _close(self) -> Iterator[Round]:
        opened, self._open = self._open, None
        if opened is not None and opened.pieces:
            yield self._round(opened)

    def _round(self, opened: _Open) -> Round:
        index, position, pieces = self._index, self.position, opened.pieces
        own: Origin = (
            "plain" if not opened.drafted else "bonus" if opened.accepted == opened.drafted else "correction"
        )  # fmt: skip
        tokens = tuple(
            Token(
                piece.chosen.id if piece.chosen else UNKNOWN, piece.text, "accepted" if n < opened.accepted else own,
                self.source if n < opened.accepted else None, index, position + n, None,
                piece.chosen.p if piece.chosen else None,
            )
            for n, piece in enumerate(pieces)
        )  # fmt: skip
        taken = [(token.id, token.text) for token in tokens[: opened.accepted]]
        taken += [(UNKNOWN, "")] * (opened.drafted - len(taken))
        drafted = tuple(
            DraftToken(token, text, None, self.source, "accepted" if n < opened.accepted else "rejected")
            for n, (token, text) in enumerate(taken)
        )
        if index and opened.seconds and not opened.drafted:  # the first one has no time of its own
            self._times.add(opened.seconds)
        self._index += 1
        self.position += len(tokens)
        if not self.counted:
            self._seen = self._seen._replace(predicted=self._seen.predicted + len(tokens))
        return Round(
            index, position, self._knobs, drafted, tokens, 0.0, 0.0, 0.0, opened.seconds, 1 + opened.drafted,
            None if drafted else self._reason, likeliest([piece.chosen for piece in pieces]),
            self._times.plain_s if self.counted else None,
        )  # fmt: skip
