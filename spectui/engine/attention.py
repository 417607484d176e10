"""The target's context, and its kind of attention: the one for short texts, or the one for a conversation with a long text.

They differ where a set-up leaves flash attention open and ggml's is slow behind a long text (see `placement.target_flash`). A
conversation that needs the other kind gets a new, empty context; what context costs is kept for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from spectui.engine.events import Message
from spectui.engine.loading import keys, models, placement
from spectui.errors import SpectuiError
from spectui.knobs import Setup
from spectui.llama.context import Context
from spectui.llama.devices.context_memory import scores_bytes
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from spectui.speculation.policies.cost_model import CostModel

_PASTED = 2500
"""Bytes from which a message is long: about 500 tokens."""

_MOST_SCORES = 256 * 2**20
"""Most bytes of attention scores for a context without flash attention."""


def is_long(messages: Iterable[Message]) -> bool:
    """Whether the user gave a long text after little text.

    This decides the target's kind of attention, so it must not depend on the reply, the knobs, or the content of the context.
    When it becomes true, the text before is evaluated again, so that must be short.
    """
    before = 0
    for message in messages:
        size = len(message.content.encode("utf-8", "replace"))
        if message.role != "assistant" and size >= max(_PASTED, 4 * before):
            return True
        before += size
    return False


class Attention:
    """Makes the target's context, and makes it anew where a conversation needs the other kind."""

    def __init__(self, interrupt: Interrupt, notice: Callable[[str], None], closing: Callable[[], None]) -> None:
        """`closing` is called before the context is closed."""
        self._interrupt, self._notice, self._closing = interrupt, notice, closing
        self._setup = Setup()
        self._target: Model | None = None
        self.context: Context | None = None
        """None before the target was loaded."""
        self._key: tuple[Any, ...] = ()  # of the context
        self._kind = ""  # of its attention, as `Setup.flash_attn`
        self._refused = ""  # a context of this kind could not be made
        self._other_terms = 0.0, 0.0  # `per_row` and `per_pass` of the other kind

    def begin(self, setup: Setup, target: Model) -> None:
        """This target is loaded. A context that suits the set-up stays; an empty one is for short texts, so that costs can be
        measured with it. Raises SpectuiError."""
        self._setup, self._target, self._refused = setup, target, ""
        kept = self.context is not None and bool(self.context.tokens)
        suits = {self.kind(long) for long in ((False, True) if kept else (False,))}
        if self._kind not in suits or self._key != self._key_of(self._kind):
            self._make(self.kind(long=False))

    def kind(self, long: bool) -> str:
        """The kind for conversations with a long text, or for others."""
        assert self._target is not None
        return placement.target_flash(self._setup, long, self._target.kernels)

    def learn_anew(self, costs: CostModel) -> CostModel:
        """These costs were measured with the kind for short texts. Returns those of the context's kind."""
        self._other_terms = 0.0, 0.0
        return costs if self._kind == self.kind(long=False) else self._exchange_terms(costs)

    def select(self, messages: Sequence[Message], costs: CostModel) -> tuple[bool, CostModel]:
        """Use the kind that suits this conversation. Returns whether the context is another one, and the costs with it."""
        assert self._target is not None and self.context is not None
        scores = scores_bytes(self._target, self.context.n_ctx, placement.chunk_of(self._setup, "off"))
        kind, before = self.kind(is_long(messages) and scores <= _MOST_SCORES), self._kind
        if kind in (before, self._refused):
            return False, costs
        try:
            self._make(kind)
            costs = self._exchange_terms(costs)
        except SpectuiError as error:  # of too little memory
            self._refused = kind
            self._make(before)
            self._notice(f"{error} Attention stays as it was, which may be slower.")
        return True, costs

    def close(self) -> None:
        """Free the context."""
        if self.context is not None:
            self._closing()
            self.context.close()
        self.context, self._key = None, ()

    def _make(self, kind: str) -> None:
        assert self._target is not None
        self.close()
        self.context = models.target_context(self._setup, self._target, self._interrupt, kind)
        self._kind, self._key = kind, self._key_of(kind)

    def _key_of(self, kind: str) -> tuple[Any, ...]:
        assert self._target is not None
        return (*keys.context_key(self._setup, kind), models.rows_for_heads(self._setup, self._target))

    def _exchange_terms(self, costs: CostModel) -> CostModel:
        """Take the context terms of the other kind, and keep those of this one."""
        (per_row, per_pass), self._other_terms = self._other_terms, (costs.per_row, costs.per_pass)
        return replace(costs, per_row=per_row, per_pass=per_pass)
