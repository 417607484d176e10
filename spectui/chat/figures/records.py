"""What a chat does just now, and the figures that the widgets draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spectui.chat.figures.counts import SpeedHistory
from spectui.engine.events import Counted, Prompt
from spectui.speculation.records import Round
from spectui.speculation.statistics import SpeedUp, Statistics, ratio

State = Literal["no model", "loading", "ready", "reading", "writing", "comparing", "leaving", "measuring", "failed"]
"""`ready`: nothing, and the models are there. `reading`: the prompt of a reply, which is then being written. `leaving`: a reply
of a conversation that was left has not ended yet. `failed`: nothing, because the last loading failed."""


class Activity:
    """What a chat does. Its parts set it when they ask the engine for something, and when an event says that it ended."""

    def __init__(self, now: State) -> None:
        self.now = now

    @property
    def replying(self) -> bool:
        """A reply is being written, or decoded again. A server may be started anew meanwhile."""
        return self.now in ("reading", "writing", "comparing", "leaving")

    def end(self) -> None:
        """The reply, or the comparison, has ended. A load that was asked for meanwhile goes on."""
        if self.replying:
            self.now = "ready"


STATES = {
    "no model": "no model",
    "loading": "loading",
    "ready": "ready",
    "reading": "reading the prompt",
    "writing": "writing",
    "comparing": "comparing",
    "leaving": "stopping",
    "measuring": "measuring",
    "failed": "no model",
}
"""The words for each state of a session."""


@dataclass(frozen=True)
class Figures:
    """The figures of one moment. `speed` is over the last seconds while `live`, else the whole reply's.

    `prompt` and `first_token_s` belong to the reply. `n_context`: tokens in the target's context; `n_ctx`: those that it holds;
    `typed`: those of the prompt that is being written, as far as they are known.
    `rounds` are the latest ones, oldest first; the histories are of the whole reply and of the whole conversation. `origins`
    and `sources` count the reply's tokens: by who had them first, and accepted ones by who drafted them. `has_draft`: a draft
    model is loaded; `translated`: it has another vocabulary than the target; `draft_failed`: it gave up in this reply;
    `draft_problem`: why there is none. `draft_max_flag`: a server's flag for draft-max, where it is fixed; `counted`: what a
    server has counted by itself. `measured`: how many times faster the reply was than its plain decoding.
    """

    reply: Statistics = field(default_factory=Statistics)
    chat: Statistics = field(default_factory=Statistics)
    origins: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, int] = field(default_factory=dict)
    rounds: tuple[Round, ...] = ()
    reply_history: SpeedHistory = field(default_factory=SpeedHistory)
    chat_history: SpeedHistory = field(default_factory=SpeedHistory)
    speed: float | None = None
    live: bool = False
    state: str = ""
    prompt: Prompt | None = None
    first_token_s: float | None = None
    n_context: int | None = None
    n_ctx: int | None = None
    typed: int = 0
    has_draft: bool = False
    translated: bool = False
    draft_failed: bool = False
    draft_problem: str = ""
    draft_max_flag: str = ""
    counted: Counted | None = None
    measured: SpeedUp | None = None

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
