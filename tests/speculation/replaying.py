"""Recorded texts on machines of known costs: the policy decides again as in the real program, and no noise blurs what it gains.

A recording holds what a target wrote, greedily, how sure it was, and what its draft model would have drafted at each place of
that. A machine is a table of what passes cost. The rounds are those of `Decoder`; only the two models and the clock are made
up. Reading the prompt takes no time here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from spectui.knobs import Knobs
from spectui.speculation import decoder
from spectui.speculation import strategy as strategies
from spectui.speculation.decoder import Decoder
from spectui.speculation.drafters import model as drafters
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.drafters.suffix import Cursor, SuffixDrafter
from spectui.speculation.evaluator import common_prefix
from spectui.speculation.policies.cost_model import CostModel, DraftCost, VerifyCost
from spectui.speculation.sampling import CONFIDENCE_TOKENS
from spectui.speculation.strategy import Strategy

_NEVER = -1e4
"""A logit that is never chosen."""

_SPARE = CONFIDENCE_TOKENS
"""Ids that no text has: 0 for what lies behind the recording, and the others, which share the rest of a confidence."""


@dataclass(frozen=True)
class Recording:
    """A text, and what was drafted at each place of the reply."""

    tokens: list[int]
    """Prompt and reply."""
    prompt: int
    """Tokens of the prompt."""
    sure: list[float]
    """Per token of the reply: the target's probability of it."""
    chains: list[list[tuple[int, float]]] | None
    """Per place of the reply: the tokens that the draft model would go on with, its confidence in each; None without one."""

    @property
    def length(self) -> int:
        """Tokens of the reply."""
        return len(self.tokens) - self.prompt

    def begun_at(self, place: int) -> Recording:
        """The reply from there on; what stood before it counts as prompt."""
        chains = None if self.chains is None else self.chains[place:]
        return replace(self, prompt=self.prompt + place, sure=self.sure[place:], chains=chains)


RECORDED = Path(__file__).with_name("recorded")
"""Replies of 128 tokens to the prompts of the benchmarks, by pair."""


def recorded(file: Path) -> dict[str, Recording]:
    """The recordings of a file, by the names of their prompts."""
    return {name: Recording(**each) for name, each in json.loads(file.read_text()).items()}


@dataclass(frozen=True)
class Costs:
    """What a machine takes, in plain passes with an empty context."""

    verify: dict[int, float]
    """A pass over so many tokens."""
    draft: float = 0.0
    """A drafted token; the first of a draft takes a tenth more."""
    kappa: float = 0.0
    """A row more, for each token of context."""
    look: float = 0.0
    """A look for repetitions."""
    known: Sequence[int] | None = None
    """Sizes that were measured at load; None for all of the table."""
    pass_s: float = 1.0
    """Seconds of a plain pass."""

    def truth(self) -> VerifyCost:
        """What passes take."""
        table = {n: passes * self.pass_s for n, passes in self.verify.items()}
        return VerifyCost(table, 1.0, self.kappa * self.pass_s)

    def model(self, drafts: bool) -> CostModel:
        """What is known of it when a pair is loaded."""
        known = {n: self.verify[n] * self.pass_s for n in self.known or self.verify}
        each = self.draft * self.pass_s
        draft = DraftCost(1.1 * each, each) if drafts else DraftCost()
        return CostModel(VerifyCost(known, 1.0, self.kappa * self.pass_s), draft)


KNOBS = Knobs(temperature=0.0, predict=128)

_AVX512 = {1: 1, 2: 1.61, 3: 1.79, 4: 1.97, 5: 2.75, 6: 3.43, 7: 3.39, 9: 3.48, 13: 4.35, 17: 5.41}
_AVX512_BUSY = {1: 1, 2: 1.18, 3: 1.49, 4: 1.56, 5: 2.13, 6: 2.7, 8: 2.75, 9: 2.8, 13: 3.57, 17: 4.33, 33: 8.3}
_SMOLLM2 = {1: 1, 2: 1.84, 3: 2.27, 4: 2.77, 5: 3.38, 6: 3.98, 7: 4.29, 9: 5.11, 13: 7.06, 17: 9.02}
_SMOLLM2_BUSY = {1: 1, 2: 1.64, 3: 2.26, 4: 2.7, 6: 2.9, 7: 3.2, 9: 3.8, 13: 5.5, 17: 8.6, 33: 15.5}


def _steps(*passes: float, draft: float, pass_s: float) -> Costs:
    """A machine from its passes over 1 to 9, 12, 15, 16 and 17 rows; what larger ones take is drawn on."""
    sizes = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17)
    return Costs(
        dict(zip(sizes, passes, strict=True)), draft, 1e-4, known=(1, 2, 3, 4, 5, 8, 9, 12, 16, 17), pass_s=pass_s
    )


MACHINES = {
    "q8": {
        "AMX": Costs(
            {1: 1, 2: 1.3, 4: 1.36, 6: 1.45, 8: 1.5, 12: 1.65, 17: 1.8, 24: 2.3, 32: 2.8, 49: 3.9},
            0.2,
            1e-4,
            pass_s=0.06,
        ),
        "AVX-512": Costs(_AVX512, 0.18, 1e-4, pass_s=0.1),
        "AVX-512, memory busy": Costs(_AVX512_BUSY, 0.17, 1e-4, pass_s=0.1),
        "AVX2": Costs(
            {1: 1, 2: 1.65, 3: 2.4, 4: 2.1, 8: 3.7, 17: 6.5, 33: 12.8}, 0.17, 1e-4, known=(1, 2, 4, 8, 17), pass_s=0.12
        ),
        "AVX-512, Q8_0 in steps": _steps(
            1, 1.11, 1.24, 1.36, 1.96, 2.11, 2.22, 1.95, 2.58, 2.37, 3.28, 2.8, 3.56, draft=0.17, pass_s=0.107
        ),
        "AVX-512, Q4_0": _steps(
            1, 1.51, 1.73, 1.31, 1.84, 2.12, 2.41, 2.21, 2.52, 3.01, 3.95, 3.03, 3.57, draft=0.32, pass_s=0.057
        ),
        "AMX, Q4_K_M": _steps(
            1, 1.4, 1.69, 1.58, 1.61, 1.76, 1.8, 1.9, 1.94, 2.04, 2.17, 2.24, 2.59, draft=0.5, pass_s=0.06
        ),
        "GPU": Costs({1: 1, 2: 1.02, 4: 1.06, 8: 1.15, 9: 1.4, 17: 1.5, 33: 1.7, 49: 2}, 0.25, 1e-5, pass_s=0.008),
        "rows nearly free": Costs({1: 1, 2: 1.05, 5: 1.12, 9: 1.2, 17: 1.4, 33: 1.8, 49: 2.2}, 0.15, 1e-5, pass_s=0.02),
    },
    "smollm2": {
        "AMX": Costs({1: 1, 2: 1.35, 4: 1.6, 8: 2.1, 17: 3.3, 33: 5.1, 49: 7}, 0.0, 1 / 300, look=0.01, pass_s=0.005),
        "AVX-512": Costs(_SMOLLM2, 0.0, 1 / 1500, look=0.02, pass_s=0.006),
        "AVX-512, memory busy": Costs(_SMOLLM2_BUSY, 0.0, 1 / 1500, look=0.02, pass_s=0.006),
    },
}
"""Machines by pair of models, all of two cores. Those with AVX-512 are what `spectui costs` printed on an EPYC: medians of five
looks with the Q8_0 pair and three with SmolLM2, and a look while its memory was slow. Of AMX and AVX2 a few sizes were measured
and the others drawn between them. Where rows are nearly free nothing was measured: so may a GPU be. kappa and what a look takes
are orders of magnitude.
"""


@dataclass
class _Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class _Replayed:
    """A model that knows one text; a pass of it takes `cost(tokens, context)`."""

    n_vocab: int
    clock: _Clock
    cost: Callable[[int, int], float]
    text: list[int]
    n_ctx: int = 1 << 20
    chunk: int = 512
    sure: list[float] = field(default_factory=list)
    begin: int = 0
    tokens: list[int] = field(default_factory=list)

    def truncate(self, length: int) -> None:
        del self.tokens[length:]

    def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        self.tokens += tokens
        if rows:  # without, it reads the prompt
            self.clock.now += self.cost(len(tokens), len(self.tokens))
        out = np.full((rows, self.n_vocab), _NEVER, np.float32)
        for row, end in zip(out, range(len(self.tokens) - rows + 1, len(self.tokens) + 1), strict=True):
            self._fill(row, end)
        return out

    def _fill(self, row: NDArray[np.float32], end: int) -> None:
        """The logits behind the first `end` tokens."""
        known = end < len(self.text)
        _favour(row, self.text[end] if known else 0, self.sure[end - self.begin] if known else 1.0)


@dataclass
class _ReplayedDraft(_Replayed):
    chains: list[list[tuple[int, float]]] = field(default_factory=list)

    def _fill(self, row: NDArray[np.float32], end: int) -> None:
        # Where it left the text, it goes on as it did from there; behind what was recorded it knows nothing.
        left = min(end, common_prefix(self.tokens, self.text))
        token, p = 0, 0.5
        if 0 <= left - self.begin < len(self.chains):
            chain, place = self.chains[left - self.begin], end - left
            if place < len(chain) and [each for each, _ in chain[:place]] == self.tokens[left:end]:
                token, p = chain[place]
        _favour(row, token, p)


def _favour(row: NDArray[np.float32], token: int, p: float) -> None:
    """Make this token the likeliest, with this probability where that can be."""
    p = min(max(p, 1e-6), 1 - 1e-6)
    row[1:_SPARE] = np.log((1 - p) / (CONFIDENCE_TOKENS - 1))
    row[token] = max(np.log(p), row[1] + 1e-3)


def replay(recording: Recording, costs: Costs, knobs: Knobs, strategy: Strategy | None = None) -> float:
    """How many times as fast as plain decoding the reply comes, up to `knobs.predict` tokens of it.

    `strategy`: that of the replies before this one; None for a pair's first.
    """
    names = {token: _SPARE + number for number, token in enumerate(sorted(_tokens(recording)))}
    text = [names[token] for token in recording.tokens]
    clock, n_vocab = _Clock(), _SPARE + len(names)
    truth = costs.truth()
    target, model = _Replayed(n_vocab, clock, truth, text, sure=recording.sure, begin=recording.prompt), None
    if recording.chains is not None:
        chains = [[(names[token], p) for token, p in chain] for chain in recording.chains]

        def drafting(tokens: int, context: int) -> float:
            return costs.draft * costs.pass_s * (1.1 if tokens > 1 else 1.0)

        model = ModelDrafter(
            _ReplayedDraft(n_vocab, clock, drafting, text, chains=chains, begin=recording.prompt), n_vocab
        )
    strategy = strategy or Strategy(None, costs.model(model is not None))
    strategy.model = model
    knobs = replace(knobs, predict=min(knobs.predict, recording.length))
    reply = Decoder(
        target, strategy, text=str, piece=str, is_end=lambda token: False, cancelled=lambda: False,
        notice=print,
    )  # fmt: skip
    plain = 0.0
    with _time(clock, costs.look * costs.pass_s):
        reply.prompt(text[: recording.prompt], knobs)
        for round in reply.rounds(lambda: knobs):
            plain += sum(truth(1, round.position + place) for place in range(len(round.tokens)))
    assert reply.tokens == text[: len(reply.tokens)]
    return plain / clock.now


@contextmanager
def _time(clock: _Clock, look: float) -> Iterator[None]:
    """Let the rounds go by this clock."""
    cursor = SuffixDrafter.cursor

    def looking(self: SuffixDrafter, tokens: Sequence[int]) -> Cursor:
        clock.now += look
        return cursor(self, tokens)

    with ExitStack() as stack:
        for room in (decoder, drafters, strategies):
            stack.enter_context(patch.object(room, "perf_counter", clock))
        stack.enter_context(patch.object(SuffixDrafter, "cursor", looking))
        yield


def _tokens(recording: Recording) -> set[int]:
    return {*recording.tokens, *(token for chain in recording.chains or () for token, _ in chain)}
