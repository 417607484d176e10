"""A recorded reply, decoded again on a virtual clock: drafters and policies are the real ones; models and time are made up.

The target writes the recorded text, whatever is drafted; only how many passes that takes depends on the drafts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spectui.knobs import Knobs
from spectui.speculation.decoder import Decoder
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.drafters.suffix import Cursor, SuffixDrafter
from spectui.speculation.evaluator import common_prefix
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import Round
from spectui.speculation.sampling import CONFIDENCE_TOKENS
from tests.toys import ToyHooks

Chain = Sequence[tuple[int, float]]
"""What the draft model would write behind some text: tokens with its confidence in each."""

_NEVER = -1e4
"""A logit that is never chosen."""

_SPARE = CONFIDENCE_TOKENS
"""Ids that no text has: 0 for what lies behind the recording, and the others, which share the rest of a confidence."""


@dataclass(frozen=True)
class Recording:
    """A text, and what was drafted at each position of the reply."""

    tokens: list[int]
    """Prompt and reply."""
    prompt: int
    """Tokens of the prompt."""
    confidences: Sequence[float]
    """Per token of the reply: the target's probability of it."""
    chains: Sequence[Chain] | None
    """Per position of the reply: the draft model's continuation; None without a draft model."""
    ends: bool = False
    """Whether the model ended the reply: a limit did otherwise, and no draft went beyond it."""

    @classmethod
    def read(cls, file: Path) -> Recording:
        """The recording in a file: a JSON object of the fields."""
        return cls(**json.loads(file.read_bytes()))

    @property
    def length(self) -> int:
        """Tokens of the reply."""
        return len(self.tokens) - self.prompt


@dataclass(frozen=True)
class Machine:
    """What a machine takes, in plain passes with an empty context. Reading a prompt takes no time."""

    verify: dict[int, float]
    """A target's pass over so many rows."""
    draft: float = 0.0
    """A drafted token; the first of a draft takes a tenth more."""
    per_row: float = 0.0
    """A row more, for each token of context."""
    look: float = 0.0
    """A look for repetitions."""
    known: Sequence[int] | None = None
    """Sizes that were measured at load; None for all of the table."""
    pass_s: float = 1.0
    """Seconds of a plain pass."""

    def measured(self, drafts: bool) -> CostModel:
        """What is known of it when a pair is loaded."""
        first, more = (1.1 * self.draft, self.draft) if drafts else (0.0, 0.0)
        costs = CostModel({n: self.verify[n] for n in self.known or self.verify}, self.per_row, 0.0, first, more)
        return costs.scaled(self.pass_s)

    @cached_property
    def truth(self) -> CostModel:
        """What passes of the target take."""
        return CostModel(self.verify, self.per_row).scaled(self.pass_s)

    def target_s(self, rows: int, context: int) -> float:
        """A pass of the target; the last row sees all."""
        return self.truth.verify(rows, context + rows - 1)

    def draft_s(self, rows: int, context: int) -> float:
        """A pass of the draft model."""
        return self.draft * self.pass_s * (1.1 if rows > 1 else 1.0)

    def plain_s(self, recording: Recording) -> float:
        """The recorded reply without drafts."""
        return sum(self.truth.verify(1, recording.prompt + place) for place in range(recording.length))


@dataclass
class Clock:
    """Seconds that have passed in a simulation."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class Simulator:
    """Decodes the replies of a chat one after the other. Later replies use what earlier ones learned, as with a loaded
    pair."""

    def __init__(self, recordings: Iterable[Recording], machine: Machine, costs: CostModel | None = None) -> None:
        """`recordings`: all that will be decoded. `costs`: what is known of the machine at the beginning, if it is not what
        loading measures; it is learned on."""
        known = list(recordings)
        tokens = sorted({token for recording in known for token in _tokens(recording)})
        self._names = {token: _SPARE + number for number, token in enumerate(tokens)}
        self._ends = {self._names[recording.tokens[-1]] for recording in known if recording.ends}
        self._machine = machine
        self._clock = Clock()
        self.strategy = Strategy(None, costs or machine.measured(drafts=known[0].chains is not None))
        self.strategy.suffix = _TimedSuffix(self._clock, machine.look * machine.pass_s)

    def decode(self, recording: Recording, knobs: Knobs) -> list[Round]:
        """The rounds in which the reply would have come under these knobs, with their times."""
        names, machine, clock = self._names, self._machine, self._clock
        text = [names[token] for token in recording.tokens]
        n_vocab = _SPARE + len(names)
        target = _Replayed(n_vocab, clock, machine.target_s, text)
        target.confidences, target.begin = recording.confidences, recording.prompt
        self.strategy.model = None
        if recording.chains is not None:
            draft = _ReplayedDraft(n_vocab, clock, machine.draft_s, text)
            draft.chains = [[(names[token], p) for token, p in chain] for chain in recording.chains]
            draft.begin = recording.prompt
            self.strategy.model = ModelDrafter(draft, n_vocab, clock)

        # The text is given, so nothing is drawn; its length is known too.
        predict = -1 if recording.ends else recording.length
        knobs = replace(
            knobs, temperature=0.0, repeat_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, predict=predict
        )
        hooks = ToyHooks()
        hooks.is_end = self._ends.__contains__  # type: ignore[method-assign]
        decoder = Decoder(target, self.strategy, hooks, clock)
        decoder.prompt(text[: recording.prompt])
        rounds = list(decoder.rounds(lambda: knobs))
        assert decoder.tokens == text[: len(decoder.tokens)]
        return rounds


class _TimedSuffix(SuffixDrafter):
    def __init__(self, clock: Clock, look: float) -> None:
        super().__init__()
        self._clock = clock
        self._look = look

    def cursor(self, tokens: Sequence[int]) -> Cursor:
        self._clock.now += self._look
        return super().cursor(tokens)


@dataclass
class _Replayed:
    """A model that knows one text; a pass of it takes `cost(rows, context)`, and reading no time."""

    n_vocab: int
    clock: Clock
    cost: Callable[[int, int], float]
    text: list[int]
    n_ctx: int = 1 << 20
    confidences: Sequence[float] = field(default_factory=list)
    begin: int = 0
    chunk: int = 512
    tokens: list[int] = field(default_factory=list)

    def truncate(self, length: int) -> None:
        del self.tokens[length:]

    def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        self.tokens += tokens
        # More tokens than rows are read: the prompt, or what a draft model missed.
        unread = max(0, len(tokens) - max(rows, 2)) if rows else len(tokens)
        if rows:
            self.clock.now += self.cost(len(tokens) - unread, len(self.tokens) - len(tokens) + unread + 1)
        out = np.full((rows, self.n_vocab), _NEVER, np.float32)
        for row, end in zip(out, range(len(self.tokens) - rows + 1, len(self.tokens) + 1), strict=True):
            self._fill(row, end)
        return out

    def _fill(self, row: NDArray[np.float32], end: int) -> None:
        """The logits behind the first `end` tokens."""
        known = end < len(self.text)
        _favour(row, self.text[end] if known else 0, self.confidences[end - self.begin] if known else 1.0)


@dataclass
class _ReplayedDraft(_Replayed):
    chains: list[Chain] = field(default_factory=list)

    def _fill(self, row: NDArray[np.float32], end: int) -> None:
        # Where it left the text, it goes on as it did from there; behind what was recorded it knows nothing.
        left = min(end, common_prefix(self.tokens, self.text))
        token, p = 0, 0.5
        if 0 <= left - self.begin < len(self.chains):
            chain, index = self.chains[left - self.begin], end - left
            if index < len(chain) and [each for each, _ in chain[:index]] == self.tokens[left:end]:
                token, p = chain[index]
        _favour(row, token, p)


def _favour(row: NDArray[np.float32], token: int, p: float) -> None:
    """Make this token the likeliest, with this probability where that can be."""
    p = min(max(p, 1e-6), 1 - 1e-6)
    row[1:_SPARE] = np.log((1 - p) / (CONFIDENCE_TOKENS - 1))
    row[token] = max(np.log(p), row[1] + 1e-3)


def _tokens(recording: Recording) -> set[int]:
    return {*recording.tokens, *(token for chain in recording.chains or () for token, _ in chain)}
