"""Rebuilds the rounds of a reply from a server's running counters.

llama-server counts the drafted and the accepted tokens before it sends the first token of a round. So the counters jump there:
the next `accepted` tokens are accepted drafts, and the one behind them is the correction or the bonus. A token after that, at
which no counter jumps, is plain. Tokens without a chunk of their own (parts of a character, marks that the server keeps) are
counted by `predicted`: they have empty texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from spectui.attach.chunks import Chosen, Counters, likeliest
from spectui.knobs import Knobs
from spectui.speculation.records import UNKNOWN, DraftToken, Origin, Reason, Round, Token
from spectui.text import safe

MOST_AT_ONCE = 4096
"""Tokens that one chunk may count: a chunk that counts more is cut there, so that a wrong number takes no memory."""

_NOTHING = Counters(0, 0, 0, None, 0, 0, None)

FEWEST_PLAIN, _LATEST = 4, 200
"""Rounds without a draft that must be seen before their time is taken for that of a plain pass, and the latest that count."""


class _Piece(NamedTuple):
    """The text of a token, or of several that came in one chunk."""

    text: str
    chosen: Chosen | None = None
    thought: bool | None = None
    """None: as that of the token before."""


@dataclass
class _Open:
    """A round whose tokens are still coming."""

    drafted: int
    accepted: int
    pieces: list[_Piece]
    seconds: float
    untimed: bool = False
    """The server counts its time as the prompt's."""

    @property
    def missing(self) -> int:
        """The tokens that are still to come."""
        return self.accepted + 1 - len(self.pieces)


@dataclass
class Origins:
    """The rounds of one reply."""

    knobs: Knobs
    source: str = "server"
    """What the drafter is called."""
    times: list[float] = field(default_factory=list)
    """Seconds of rounds without a draft, from reply to reply: what a pass without drafts takes. Rounds with drafts alone do not
    tell it."""
    reason: Reason | None = None
    """Of rounds without a draft."""
    position: int = 0
    """Tokens before the next round in the context."""
    counted: bool | None = None
    """Whether the server counts; None while that is not known."""
    _open: _Open | None = None
    _index: int = 0
    seen: Counters = _NOTHING
    """The server's counters so far."""
    _held: list[_Piece] = field(default_factory=list)  # what no token was counted for yet
    _thought: bool = False  # the last token was thought

    def add(
        self, text: str, counters: Counters | None, chosen: Sequence[Chosen] = (), seconds: float = 0.0, thought: bool = False
    ) -> Iterator[Round]:
        """One more chunk. Gives the rounds that it completes.

        `seconds`: since the last one, for a server without counters. `thought`: of the text is thinking.
        """
        if text or chosen:
            self._held.append(_Piece(safe(text), chosen[-1] if chosen else None, thought if text else None))
        if counters is not None:
            self.counted = True
            yield from self._count(counters)
        elif text and not self.counted and (self.counted is False or len(self._held) > 1):
            self.counted = False  # the counters might have come with the second chunk
            held, self._held = self._held, []
            yield from (self._plain(piece, seconds) for piece in held if piece.text)

    def end(self, total: int | None = None) -> Iterator[Round]:
        """The rest. `total`: tokens of the reply as a server without counters says in the end."""
        left = [self._piece()] if self._held else []
        if self._open is not None and self._open.missing > 0:
            self._open.pieces += left
            left = []
        yield from self._close()
        if total is not None and not self.counted:
            left += [_Piece("")] * min(MOST_AT_ONCE, total - self.seen.predicted - len(left))
        yield from (self._plain(piece, 0.0) for piece in left)

    def _count(self, now: Counters) -> Iterator[Round]:
        seen = self.seen
        new = min(MOST_AT_ONCE, max(0, now.predicted - seen.predicted))
        if not new:
            return
        accepted = min(MOST_AT_ONCE, max(0, now.accepted - seen.accepted))
        # One that is accepted was drafted, whatever the other counter says: it catches up later.
        drafted = max(accepted, min(MOST_AT_ONCE, max(0, now.drafted - seen.drafted)))
        seconds = max(0.0, (now.seconds or 0.0) - (seen.seconds or 0.0))
        self.seen = now._replace(
            predicted=seen.predicted + new, drafted=seen.drafted + drafted, accepted=seen.accepted + accepted,
            seconds=max(now.seconds or 0.0, seen.seconds or 0.0),
        )  # fmt: skip
        rest = [*[_Piece("")] * (new - 1), self._piece()]
        if self._open is not None:
            # The last one is of the round that the jump began.
            fills = min(self._open.missing, len(rest) - bool(drafted))
            self._open.pieces += rest[:fills]
            rest = rest[fills:]
            if not rest:
                self._open.seconds += seconds
        if rest or (self._open is not None and not self._open.missing):
            yield from self._close()
        own = min(len(rest), accepted + 1) if drafted else 0
        plain = rest[: len(rest) - own]
        # llama-server counts the first token's time as the prompt's: its speed is of the tokens after it.
        untimed = not seen.predicted and bool(plain) and now.speed is not None and now.speed * seconds < new - 0.5
        share = seconds / max(1, len(plain) + bool(own) - untimed)
        for number, piece in enumerate(plain):
            first = untimed and not number
            yield self._round(_Open(0, 0, [piece], 0.0 if first else share, first))
        if own:
            self._open = _Open(drafted, accepted, rest[len(plain) :], share)
            if not self._open.missing:
                yield from self._close()

    def _piece(self) -> _Piece:
        """What was held, as the text of one token."""
        held, self._held = self._held, []
        thoughts = [piece.thought for piece in held if piece.thought is not None]
        chosen = [piece.chosen for piece in held if piece.chosen is not None]
        text = "".join(piece.text for piece in held)
        return _Piece(text, chosen[-1] if chosen else None, any(thoughts) if thoughts else None)

    def _plain(self, piece: _Piece, seconds: float) -> Round:
        return self._round(_Open(0, 0, [piece], seconds))

    def _close(self) -> Iterator[Round]:
        opened, self._open = self._open, None
        if opened is not None:
            yield self._round(opened)

    def _round(self, opened: _Open) -> Round:
        judged: Origin = "bonus" if opened.accepted == opened.drafted else "correction"
        own: Origin = judged if opened.drafted else "plain"
        tokens = tuple(self._token(piece, n, n < opened.accepted, own) for n, piece in enumerate(opened.pieces))
        taken = [(token.id, token.text) for token in tokens[: opened.accepted]]
        taken += [(UNKNOWN, "")] * (opened.drafted - len(taken))
        drafted = tuple(
            DraftToken(token, text, None, self.source, "accepted" if n < opened.accepted else "rejected")
            for n, (token, text) in enumerate(taken)
        )
        if self._index and opened.seconds and not drafted:  # the first one has no time of its own
            self.times.append(opened.seconds)
        latest = self.times[-_LATEST:]
        known = self.counted and not opened.untimed and len(latest) >= FEWEST_PLAIN
        if not self.counted:
            self.seen = self.seen._replace(predicted=self.seen.predicted + len(tokens))
        made = Round(
            self._index, self.position, self.knobs, drafted, tokens, 0.0, 0.0, 0.0, opened.seconds,
            0 if opened.untimed else 1 + opened.drafted, None if drafted else self.reason,
            likeliest([piece.chosen for piece in opened.pieces]),
            sum(latest) / len(latest) if known else None,
        )  # fmt: skip
        self._index, self.position = self._index + 1, self.position + len(tokens)
        return made

    def _token(self, piece: _Piece, place: int, accepted: bool, own: Origin) -> Token:
        self._thought = self._thought if piece.thought is None else piece.thought
        id, p = (piece.chosen.id, piece.chosen.p) if piece.chosen else (UNKNOWN, None)
        origin: Origin = "accepted" if accepted else own
        source = self.source if accepted else None
        return Token(id, piece.text, origin, source, self._index, self.position + place, None, p, self._thought)
