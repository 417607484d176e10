"""The figures that the widgets draw, and how a figure is written: fixed width, one unit, a dash for what is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spectui.chat.speed_history import SpeedHistory
from spectui.engine.events import Prompt
from spectui.speculation.records import Round
from spectui.speculation.statistics import Statistics, ratio

UNKNOWN = "–"
STATES = {
    "no model": "no model",
    "loading": "loading",
    "ready": "ready",
    "reading": "reading the prompt",
    "writing": "writing",
    "comparing": "comparing",
    "failed": "no model",
}
"""How each state of a session is said."""


@dataclass(frozen=True)
class Figures:
    """What is known at one moment. `speed` is over the last seconds while `live`, else the whole reply's.

    `prompt` and `first_token_s` belong to the reply, `context` and `n_ctx` (tokens) to the target. `rounds` are the latest
    ones, oldest first; the histories are of the whole reply and of the whole conversation. `origins` and `sources` count the
    reply's tokens: by who had them first, and accepted ones by who drafted them. `has_draft`: a draft model is loaded;
    `translated`: it has another vocabulary than the target; `draft_failed`: it gave up in this reply; `draft_problem`: why
    there is none.
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
    context: int | None = None
    n_ctx: int | None = None
    has_draft: bool = False
    translated: bool = False
    draft_failed: bool = False
    draft_problem: str = ""

    @property
    def prompt_speed(self) -> float | None:
        """Prompt tokens per second, of those that had to be read."""
        return ratio(self.prompt.done - self.prompt.reused, self.prompt.seconds) if self.prompt else None

    @property
    def context_share(self) -> float | None:
        """How full the context is, in 0..1."""
        return ratio(self.context, self.n_ctx) if self.context is not None and self.n_ctx else None


def count(value: int | None) -> str:
    """A whole number in groups of three: 1 204."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", " ")


def decimal(value: float | None) -> str:
    """A figure of about three digits: 4.83, 27.4, 312."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def share(value: float | None) -> str:
    """A share in 0..1 as .93."""
    if value is None:
        return UNKNOWN
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text[:3]


def verdict(times: float) -> str:
    """Whether speculation pays, at so many times plain decoding's speed. What loses a little must not read as 1.0."""
    return f"pays {times:.1f}x" if times >= 1 else f"loses {times:.2f}x"


def percent(value: float | None) -> str:
    """A share in 0..1 as 29 %."""
    return UNKNOWN if value is None else f"{100 * value:.0f} %"


def milliseconds(seconds: float) -> str:
    """Seconds as whole milliseconds, without the unit."""
    return f"{1000 * seconds:.0f}"


def duration(seconds: float | None) -> str:
    """Seconds as a person would say them: 0.42 s."""
    if seconds is None:
        return UNKNOWN
    return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"


def size(number: float) -> str:
    """Bytes as 1.9 GB or 400 MB."""
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"
