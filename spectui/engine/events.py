"""The engine's events: small frozen records. The worker appends them to a deque, and the front end drains it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from spectui.knobs import Knobs, Setup
from spectui.llama.devices.records import Device as Device
from spectui.llama.devices.records import ModelInfo as ModelInfo
from spectui.speculation.records import Round, StopReason
from spectui.speculation.statistics import Statistics
from spectui.text import printable
from spectui.thinking import CLOSE, OPEN

if TYPE_CHECKING:  # it brings numpy, which the chat on a server can do without
    from spectui.speculation.policies.cost_model import CostModel


class Loading(NamedTuple):
    """`what`: "target", "draft" or another noun. `progress`: 0..1."""

    what: str
    progress: float
    bytes: int = 0


class Fixed(NamedTuple):
    """A knob without effect on the loaded models. `sentence`: what to do instead; `flag`: the server's flag for it, or ""."""

    knob: str
    sentence: str
    flag: str = ""


class Loaded(NamedTuple):
    """Both models are ready. `draft`: None if there is none. `setup`: what was loaded. `costs`: what its passes take.

    `fixed`: the knobs that have no effect. `sampling`: values of knobs that the target's file names. `images`: it takes images.
    """

    setup: Setup
    target: ModelInfo
    draft: ModelInfo | None
    devices: tuple[Device, ...]
    costs: CostModel | None = None
    fixed: tuple[Fixed, ...] = ()
    sampling: Mapping[str, Any] = {}
    images: bool = False


class LoadFailed(NamedTuple):
    """Loading failed. `message`: one sentence. `without_draft`: the target alone would load.

    `without_servers`: the models may load on this machine alone.
    """

    message: str
    without_draft: bool = False
    without_servers: bool = False


class Unloaded(NamedTuple):
    """The models were freed, as somebody asked: others can use their memory."""


class Devices(NamedTuple):
    """The devices and their free memory, as ggml reports them now."""

    devices: tuple[Device, ...]


LARGEST_FILE = 20_000_000
"""Bytes of an image, or of a PDF."""

_IMAGE_TYPES = {"png": rb"\x89PNG\r\n\x1a\n", "jpeg": rb"\xff\xd8\xff", "gif": rb"GIF8[79]a", "webp": rb"RIFF.{4}WEBP"}


def image_type(content: bytes) -> str:
    """The kind of image that begins so, as a media type names it; "" if servers take no such file."""
    return next((name for name, start in _IMAGE_TYPES.items() if re.match(start, content, re.DOTALL)), "")


class Image(NamedTuple):
    """A reference to a file with an image. `digest`: of its content when it was attached. `url`: the content as a data URL,
    where it was read."""

    path: str
    digest: str
    url: str = ""

    @classmethod
    def of(cls, path: str, content: bytes) -> Image:
        """The reference to this file with this content."""
        from hashlib import sha256  # the first screen does without

        return cls(path, sha256(content).hexdigest()[:16])

    @property
    def name(self) -> str:
        """The file's name, safe to show."""
        return printable(os.path.basename(self.path))


class Message(NamedTuple):
    """One message of a conversation. `role` is system, user, assistant or tool.

    The content of an earlier reply is what it answered, and `thought` what it thought; that of a last one, which is to be
    continued, is its whole text. `tokens`: of the whole reply, as a model wrote them; empty if they are not known. Those of a
    last one are the loaded target's. `others`: a JSON object of what else the template may read, such as `tool_calls`.
    `images` are for servers alone.
    """

    role: str
    content: str
    tokens: tuple[int, ...] = ()
    thought: str = ""
    others: str = ""
    images: tuple[Image, ...] = ()

    @property
    def whole(self) -> str:
        """The text with what was thought, for a model without a template."""
        return f"{OPEN}\n{self.thought}\n{CLOSE}\n\n{self.content}" if self.thought else self.content


class Terms(NamedTuple):
    """What is asked of a reply beside the messages.

    `at`: the time that the chat template writes, in seconds since the epoch; None: the present. `tools`: a JSON list of those
    that the template offers. `grammar`: what the reply obeys behind its thinking, GBNF or a JSON schema, which begins with a
    brace; from the first match of the regular expression `trigger` on, if there is one. `raw`: the texts of the messages are
    continued without the template, and names of control tokens are those; tokens of a last message of the user are the prompt.
    `likeliest`: how many of the likeliest tokens are told beside each; 0: a few.
    """

    at: float | None = None
    tools: str = ""
    grammar: str = ""
    trigger: str = ""
    raw: bool = False
    likeliest: int = 0


FREE = Terms()
"""Nothing."""


class Prompt(NamedTuple):
    """`done` of `total` prompt tokens are in the target's context; `reused` of them were read before the reply. `restored`:
    where these were kept, in "memory" or on "disk"; "" if they still were in the context. `parted`: why not more of what was
    read is reused, a clause; "" if all is."""

    done: int
    total: int
    reused: int
    seconds: float
    restored: str = ""
    parted: str = ""


class RoundDone(NamedTuple):
    """A round is finished. `n_context`: number of tokens in the target's context; None if a server does not tell it."""

    round: Round
    n_context: int | None


class Finished(NamedTuple):
    """A reply ended. Times in seconds. `knobs` has the seed that was used.

    `prompt_tokens`: those of the prompt that the context has, which are fewer than all if it was not read to its end.
    `to_drop`: if the context is full, how many of the oldest messages behind the system prompt must go so that the reply can
    go on; 0 if that would not help (see `room.to_drop`). A server may not tell `prompt_tokens` and
    `prompt_s`: then they are None.
    """

    reason: StopReason
    text: str
    statistics: Statistics
    knobs: Knobs
    prompt_tokens: int | None
    prompt_s: float | None
    time_to_first_token_s: float | None
    to_drop: int = 0


class Failed(NamedTuple):
    """A reply failed. The text so far stays, and the next prompt works. `no_room`: the context, of `n_ctx` tokens, is too small
    for the prompt, of so many `tokens`; `to_drop`: as in `Finished`, for the prompt. `refused`: what was asked is wrong."""

    message: str
    to_drop: int = 0
    no_room: bool = False
    refused: bool = False
    tokens: int = 0
    n_ctx: int = 0


class Guess(NamedTuple):
    """The draft that the target reads just now, for the round of this number. It is in no queue of events, but the
    engine's `guess`. Told where rounds are slow enough for it to be seen."""

    round: int
    text: str


class ThreadsInUse(NamedTuple):
    """The target computes with `now` of `most` threads, because other processes use the other cores."""

    now: int
    most: int


class Counts(NamedTuple):
    """Drafts, their tokens, how many of those were accepted, and the same by position in the draft."""

    drafts: int
    drafted: int
    accepted: int
    by_position: tuple[int, ...] = ()

    def since(self, before: Counts) -> Counts:
        """What was counted since then. Counters that have gone back began anew meanwhile."""
        if self.drafts < before.drafts or self.drafted < before.drafted or self.accepted < before.accepted:
            return self
        earlier = (*before.by_position, *[0] * len(self.by_position))
        return Counts(
            self.drafts - before.drafts, self.drafted - before.drafted, self.accepted - before.accepted,
            tuple(max(0, now - then) for now, then in zip(self.by_position, earlier, strict=False)),
        )  # fmt: skip


class Counted(NamedTuple):
    """A server's own counts, over all its clients: since it started, and since they were last read."""

    since_start: Counts
    latest: Counts | None = None


class Notice(NamedTuple):
    """A line to show. `draft_failed`: the reply continues without the draft model."""

    message: str
    draft_failed: bool = False


Event = (
    Loading
    | Loaded
    | LoadFailed
    | Unloaded
    | Devices
    | Prompt
    | RoundDone
    | Guess
    | ThreadsInUse
    | Finished
    | Failed
    | Counted
    | Notice
)
