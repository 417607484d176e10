"""What a chat does just now: one thing at a time."""

from __future__ import annotations

from typing import Literal

State = Literal["no model", "loading", "ready", "reading", "writing", "comparing", "leaving", "measuring", "failed"]
"""`ready`: nothing, and the models are there. `reading`: the prompt of a reply, which is then being written. `leaving`: a reply
of a conversation that was left has not ended yet. `failed`: nothing, because the last loading failed."""


class Activity:
    """What a chat does. Its parts set it when they ask the engine for something, and when an event says that it ended."""

    def __init__(self, now: State) -> None:
        self.now = now

    def end(self) -> None:
        """The reply, or the comparison, has ended. A load that was asked for meanwhile goes on."""
        if self.now in ("reading", "writing", "comparing", "leaving"):
            self.now = "ready"
