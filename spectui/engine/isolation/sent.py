"""Rounds on their way between two processes: ids and numbers. Knobs and texts of tokens are not sent twice."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any, NamedTuple

from spectui.engine.events import RoundDone
from spectui.knobs import Knobs


class SentRound(NamedTuple):
    """`done`: the event. Its round has no knobs, and none of the texts of single tokens. `knobs`: None for the last round's.

    `pieces`: token -> its text, of those that were not sent before.
    """

    done: RoundDone
    knobs: Knobs | None
    pieces: dict[int, str]


class Sender:
    """One end."""

    def __init__(self) -> None:
        self._knobs: Knobs | None = None
        self._pieces: dict[int, str] = {}

    def pack(self, done: RoundDone) -> SentRound:
        """To be sent in the order of the rounds."""
        round, likeliest = done.round, done.round.likeliest
        shown = [(each.id, each.text) for each in round.drafted]
        if likeliest is not None:
            shown += zip(array("i", likeliest.ids), likeliest.texts, strict=True)
        new = {id: text for id, text in shown if self._pieces.get(id) != text}
        self._pieces.update(new)
        knobs, self._knobs = None if round.knobs is self._knobs else round.knobs, round.knobs
        bare: dict[str, Any] = {
            "knobs": None,
            "drafted": tuple(each._replace(text="") for each in round.drafted),
            "likeliest": likeliest and likeliest._replace(texts=()),
        }
        return SentRound(done._replace(round=replace(round, **bare)), knobs, new)


class Receiver:
    """The other end. Rounds between two changes share their knobs, and all of them the texts of tokens."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs
        self._pieces: dict[int, str] = {}

    def unpack(self, sent: SentRound) -> RoundDone:
        """The event as it was."""
        self._pieces.update(sent.pieces)
        if sent.knobs is not None and sent.knobs != self._knobs:
            self._knobs = sent.knobs
        round, pieces = sent.done.round, self._pieces
        likeliest = round.likeliest
        if likeliest is not None:
            likeliest = likeliest._replace(texts=tuple(pieces[id] for id in array("i", likeliest.ids)))
        drafted = tuple(each._replace(text=pieces[each.id]) for each in round.drafted)
        return sent.done._replace(round=replace(round, knobs=self._knobs, drafted=drafted, likeliest=likeliest))
