"""The replies of a trace, one by one, with their records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from spectui.engine.events import Asked, Event, Failed, Finished, Loaded, Prompt, RoundDone
from spectui.speculation.records import Round, StopReason
from tests.speculation.simulation import Chain, Recording


@dataclass
class RecordedReply:
    """A reply and the models that wrote it. `loaded` is None where the trace does not say."""

    loaded: Loaded | None
    asked: Asked
    read: Prompt | None = None
    rounds: list[Round] = field(default_factory=list)
    finished: Finished | None = None

    @property
    def tokens(self) -> list[int]:
        """Prompt and reply."""
        return [*self.asked.tokens, *(token.id for each in self.rounds for token in each.tokens)]

    def recording(self, chains: list[Chain] | None) -> Recording:
        """For a simulation, with these drafts."""
        sure = [p for each in self.rounds for p in each.sure]
        ends = self.finished is not None and self.finished.reason in (StopReason.EOS, StopReason.STOP)
        reused = self.read.reused if self.read is not None else 0
        return Recording(self.tokens, len(self.asked.tokens), sure, chains, reused, ends)


def replies(entries: Iterable[Event]) -> Iterator[RecordedReply]:
    """The replies that have rounds, in order."""
    loaded: Loaded | None = None
    reply: RecordedReply | None = None
    for entry in entries:
        match entry:
            case Loaded():
                loaded = entry
            case Asked():
                if reply is not None and reply.rounds:
                    yield reply
                reply = RecordedReply(loaded, entry)
            case Prompt() if reply is not None:
                reply.read = entry
            case RoundDone(round=done) if reply is not None:
                reply.rounds.append(done)
            case Finished() if reply is not None:
                reply.finished = entry
            case Failed():
                pass  # the rounds until then count
    if reply is not None and reply.rounds:
        yield reply


def drafts_line(position: int, tokens: Chain) -> bytes:
    """A line of a recorded trace: what the draft model drafts behind the first `position` tokens of the text, with its
    confidence. The chat's own traces have none, and their reader leaves it out.
    """
    row = {"type": "drafts", "position": position, "tokens": tokens}
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def drafts_in(file: Path) -> dict[int, Chain]:
    """The drafts in a trace of one reply, by position."""
    rows = [json.loads(line) for line in file.read_bytes().splitlines() if line.startswith(b'{"type":"drafts"')]
    return {row["position"]: [(token, p) for token, p in row["tokens"]] for row in rows}
