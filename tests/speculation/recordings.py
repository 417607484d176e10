"""The replies of a trace, one by one, with their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from spectui.engine.events import Asked, Failed, Finished, Loaded, Prompt, RoundDone
from spectui.measure.traces.format import Drafts, Entry
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
    drafts: dict[int, Chain] = field(default_factory=dict)
    """By position in the text: what the draft model was asked for there, beside the chat."""

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


def replies(entries: Iterable[Entry]) -> Iterator[RecordedReply]:
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
            case Drafts(position=position, tokens=tokens) if reply is not None:
                reply.drafts[position] = list(tokens)
            case Finished() if reply is not None:
                reply.finished = entry
            case Failed():
                pass  # the rounds until then count
    if reply is not None and reply.rounds:
        yield reply
