"""What a chat does just now."""

from __future__ import annotations

from typing import Literal

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


IN_WORDS = {"reading": "reading the prompt", "leaving": "stopping", "failed": "no model"}
"""The words for a state, where its name is not for people."""
