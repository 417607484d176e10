"""Running figures: of a reply, of all replies of a conversation, and those that are shown now."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from spectui.chat.figures.counts import RoundCounts
from spectui.chat.figures.records import Figures, State
from spectui.chat.messages import ChatMessage
from spectui.chat.models import LoadedModels
from spectui.engine.events import Event, Finished, Loaded, LoadFailed, Notice, Prompt, RoundDone
from spectui.speculation.records import Round
from spectui.speculation.statistics import SpeedUp, Statistics

LATEST = 256
"""Latest rounds of a reply that stay unpacked for figures and plots."""

LIVE_SECONDS = 3.0
"""Seconds of decoding over which the live speed is averaged."""


@dataclass(slots=True, eq=False)
class LastReply:
    """The reply in progress, or the last one: its figures, latest rounds and prompt."""

    figures: RoundCounts = field(default_factory=RoundCounts)
    rounds: deque[Round] = field(default_factory=lambda: deque(maxlen=LATEST))
    prompt: Prompt | None = None
    first_token_s: float | None = None
    draft_failed: bool = False

    @classmethod
    def of(cls, message: ChatMessage) -> LastReply:
        """The record of a message."""
        latest = message.rounds.between(max(0, len(message.rounds) - LATEST), len(message.rounds))
        return cls(message.figures, deque(latest, LATEST), first_token_s=message.reply.first_token_s)

    def add(self, round: Round) -> None:
        """Count one more round."""
        self.figures.add(round)
        self.rounds.append(round)
        if self.first_token_s is None and self.prompt is not None:
            self.first_token_s = self.prompt.seconds + round.seconds  # until `Finished` brings the measured one

    def live_speed(self) -> float | None:
        """Tokens per second over the last `LIVE_SECONDS` of decoding."""
        lately = Statistics()
        for round in reversed(self.rounds):
            lately.add(round)
            if lately.decode_s >= LIVE_SECONDS:
                break
        return lately.tokens_per_s


class RunningFigures:
    """The figures of one conversation: of its last reply, finished or in progress, and of all its replies."""

    def __init__(self, chat: RoundCounts | None = None) -> None:
        """`chat`: the figures of the replies so far."""
        self.n_context: int | None = None
        """Tokens in the target's context; None if that is unknown."""
        self._chat = chat or RoundCounts.of_conversation()
        self._last = LastReply()

    @property
    def first_token_s(self) -> float | None:
        """Seconds from the last prompt to the first token of its reply."""
        return self._last.first_token_s

    def show(self, message: ChatMessage | None) -> None:
        """The last message is this one now: a reply in progress, a finished one, or a prompt; None: there is no message."""
        if message is None:
            self._last = LastReply()
        elif message.figures is not self._last.figures:
            self._last = LastReply.of(message)
        if message is None or message.reply.stop is not None:
            self.n_context = None  # until it is known what of it the context has

    def take(self, event: Event) -> None:
        """Count an event. The rounds of a continuation are numbered within the whole reply."""
        match event:
            case Loaded() | LoadFailed():
                self.n_context = None
            case Notice(draft_failed=True):
                self._last.draft_failed = True
            case Prompt(done=done):
                self._last.prompt = event
                self.n_context = done
            case RoundDone(round=round, n_context=n_context):
                self._last.add(round)
                self._chat.add(round)
                self.n_context = n_context
            case Finished(time_to_first_token_s=first_token_s):
                self._last.first_token_s = first_token_s

    def now(self, state: State, models: LoadedModels, measured: SpeedUp | None = None, typed: int = 0) -> Figures:
        """The figures of this moment. `measured`: how many times faster the reply was than its plain decoding; `typed`: tokens
        of the prompt that is being written."""
        live, last, statistics = state == "writing", self._last, self._last.figures.statistics
        return Figures(
            reply=statistics, chat=self._chat.statistics, origins=last.figures.origins, sources=last.figures.sources,
            rounds=tuple(last.rounds), reply_history=last.figures.history, chat_history=self._chat.history,
            speed=last.live_speed() if live else statistics.tokens_per_s, live=live, state=state,
            prompt=last.prompt, first_token_s=last.first_token_s, n_context=self.n_context,
            n_ctx=models.n_ctx, typed=typed, has_draft=models.draft is not None,
            translated=models.draft is not None and models.draft.translated,
            draft_failed=last.draft_failed, draft_problem=models.draft_problem,
            draft_max_flag=models.fixed["draft_max"].flag if "draft_max" in models.fixed else "", counted=models.counted,
            measured=measured,
        )  # fmt: skip
