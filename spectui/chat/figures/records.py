"""The figures of a conversation: of its last reply, and of all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from spectui.chat.figures.activity import State
from spectui.chat.figures.counts import RoundCounts
from spectui.chat.messages import ChatMessage
from spectui.chat.models import LoadedModels
from spectui.engine.events import Counted, Event, Finished, Loaded, LoadFailed, Notice, Prompt, RoundDone
from spectui.speculation.records import Round
from spectui.speculation.statistics import SpeedUp, Statistics, ratio

LATEST = 256
"""Latest rounds of a reply that stay unpacked for figures and plots."""

LIVE_SECONDS = 3.0
"""Seconds of decoding over which the live speed is averaged."""


@dataclass
class Figures:
    """The figures of a conversation, which grow with the engine's events.

    `reply`, `rounds`, the latest ones, oldest first, `prompt` and `first_token_s` are of the last reply, finished or in
    progress; `draft_failed`: its draft model gave up. `chat` is of all replies. `n_context`: tokens in the target's context,
    None if that is unknown; `n_ctx`: those that it holds; `typed`: those of the prompt that is being written, as far as they
    are known. `has_draft`: a draft model is loaded; `translated`: it has another vocabulary than the target;
    `draft_problem`: why there is none. `draft_max_flag`: a server's flag for draft-max, where it is fixed; `counted`: what a
    server has counted by itself. `measured`: how many times faster the reply was than its plain decoding.
    """

    reply: RoundCounts = field(default_factory=RoundCounts)
    chat: RoundCounts = field(default_factory=RoundCounts.of_conversation)
    rounds: tuple[Round, ...] = ()
    prompt: Prompt | None = None
    first_token_s: float | None = None
    draft_failed: bool = False
    n_context: int | None = None
    state: State = "no model"
    n_ctx: int | None = None
    typed: int = 0
    has_draft: bool = False
    translated: bool = False
    draft_problem: str = ""
    draft_max_flag: str = ""
    counted: Counted | None = None
    measured: SpeedUp | None = None

    def show(self, message: ChatMessage | None) -> None:
        """The last message is this one now: a reply in progress, a finished one, or a prompt; None: there is no message."""
        if message is None or message.figures is not self.reply:
            self.reply, self.rounds = RoundCounts(), ()
            self.prompt, self.first_token_s, self.draft_failed = None, None, False
        if message is not None and message.figures is not self.reply:
            self.reply, self.first_token_s = message.figures, message.reply.first_token_s
            self.rounds = tuple(message.rounds.between(max(0, len(message.rounds) - LATEST), len(message.rounds)))
        if message is None or message.reply.stop is not None:
            self.n_context = None  # until it is known what of it the context has

    def take(self, event: Event) -> None:
        """Count an event. The rounds of a continuation are numbered within the whole reply."""
        match event:
            case Loaded() | LoadFailed():
                self.n_context = None
            case Notice(draft_failed=True):
                self.draft_failed = True
            case Prompt(done=done):
                self.prompt, self.n_context = event, done
            case RoundDone(round=round, n_context=n_context):
                self.reply.add(round)
                self.chat.add(round)
                self.rounds, self.n_context = (*self.rounds, round)[-LATEST:], n_context
                if self.first_token_s is None and self.prompt is not None:
                    self.first_token_s = self.prompt.seconds + round.seconds  # until `Finished` brings the measured one
            case Finished(time_to_first_token_s=first_token_s):
                self.first_token_s = first_token_s

    def now(self, state: State, models: LoadedModels, measured: SpeedUp | None, typed: int) -> Figures:
        """The figures of this moment, with these models."""
        draft, fixed = models.draft, models.fixed.get("draft_max")
        return replace(
            self, state=state, measured=measured, typed=typed, n_ctx=models.n_ctx, counted=models.counted,
            has_draft=draft is not None, translated=draft is not None and draft.translated,
            draft_problem=models.draft_problem, draft_max_flag=fixed.flag if fixed is not None else "",
        )  # fmt: skip

    @property
    def live(self) -> bool:
        """The reply is being written."""
        return self.state == "writing"

    @property
    def speed(self) -> float | None:
        """Tokens per second: over the last `LIVE_SECONDS` while `live`, else over the whole reply."""
        if not self.live:
            return self.reply.tokens_per_s
        lately = Statistics()
        for round in reversed(self.rounds):
            lately.add(round)
            if lately.decode_s >= LIVE_SECONDS:
                break
        return lately.tokens_per_s

    @property
    def prompt_speed(self) -> float | None:
        """Prompt tokens per second, of those that had to be read."""
        return ratio(self.prompt.done - self.prompt.reused, self.prompt.seconds) if self.prompt else None

    @property
    def context_share(self) -> float | None:
        """How full the context is, in 0..1."""
        return ratio(self.n_context, self.n_ctx) if self.n_context is not None and self.n_ctx else None

    @property
    def share_with_typed(self) -> float | None:
        """How full it would be with the prompt that is being written; above 1 that does not fit."""
        return ratio((self.n_context or 0) + self.typed, self.n_ctx) if self.typed and self.n_ctx else None
