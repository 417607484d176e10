"""What the engine tells: small frozen records, appended to a deque by the worker, drained by whoever shows them."""

from __future__ import annotations

from typing import NamedTuple

from spectui.knobs import Knobs, Setup
from spectui.llama.records import Device as Device
from spectui.llama.records import ModelInfo as ModelInfo
from spectui.speculation.records import Round, StopReason
from spectui.speculation.statistics import Statistics


class Loading(NamedTuple):
    """`what` is "target" or "draft" or another noun, `progress` is 0..1."""

    what: str
    progress: float
    bytes: int = 0


class Loaded(NamedTuple):
    """Both models are ready. `draft` is None when there is none, and `setup` is what was really loaded."""

    setup: Setup
    target: ModelInfo
    draft: ModelInfo | None
    devices: tuple[Device, ...]


class LoadFailed(NamedTuple):
    """Loading ended with this sentence. `without_draft`: the target alone would load."""

    message: str
    without_draft: bool = False


class Devices(NamedTuple):
    """The devices and their free memory, as ggml sees them now."""

    devices: tuple[Device, ...]


class Prompt(NamedTuple):
    """`done` of `total` prompt tokens are in the target's memory; `reused` of them were there before. `thinking`: the template
    has opened the model's thinking, which the reply goes on with."""

    done: int
    total: int
    reused: int
    seconds: float
    thinking: bool = False


class RoundDone(NamedTuple):
    """A round is finished. `context` is the number of tokens in the target's context."""

    round: Round
    context: int


class Finished(NamedTuple):
    """A reply ended. Seconds; `knobs` has the seed that was really used."""

    reason: StopReason
    text: str
    statistics: Statistics
    knobs: Knobs
    prompt_tokens: int
    prompt_s: float
    time_to_first_token_s: float | None


class Failed(NamedTuple):
    """A reply ended because something broke; the text so far stands and the next prompt works."""

    message: str


class Notice(NamedTuple):
    """A line to show, in passing. `draft_failed`: the reply goes on without the draft model."""

    message: str
    draft_failed: bool = False


class Message(NamedTuple):
    """One message of a conversation. `role` is system, user or assistant."""

    role: str
    content: str


Event = Loading | Loaded | LoadFailed | Devices | Prompt | RoundDone | Finished | Failed | Notice
