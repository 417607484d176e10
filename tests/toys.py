"""Toy models: a few tokens, a few lines of numpy, and the interface of a real one."""

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.choice import Grammar
from spectui.speculation.decoder import Decoder
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import Candidate, Round

END = 0
"""The token that ends a toy's reply."""


def never(token: int) -> bool:
    """No token ends the reply."""
    return False


class ToyModel:
    """Logits that depend on the last two tokens and the position; `noise` makes it disagree with the toy of that seed."""

    asynchronous = False
    max_drafted: int | None = None

    def __init__(self, seed: int = 0, n_vocab: int = 12, n_ctx: int = 96, noise: float = 0.0, ends: bool = True) -> None:
        self.n_vocab = n_vocab
        self.n_ctx = n_ctx
        self.chunk = 5
        self.ring = 0
        self.tokens: list[int] = []
        self.evaluated = 0
        self.passes: list[int] = []
        self.fails_after: int | None = None
        self.forgets = False
        """Cannot drop a suffix: `truncate` empties it, as a recurrent memory does."""
        numbers = np.random.default_rng(seed)
        self._table = numbers.normal(0, 2, (min(n_vocab, 12), n_vocab, n_vocab)).astype(np.float32)
        self._table += np.random.default_rng(seed + 1000).normal(0, 1, self._table.shape).astype(np.float32) * noise
        self._table[..., END] -= 2.0 if ends else 1000.0

    def logits(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """The row behind these tokens."""
        before = tokens[-2] if len(tokens) > 1 else 0
        row: NDArray[np.float32] = self._table[before % len(self._table), tokens[-1]] + np.float32(0.01) * (len(tokens) % 7)
        return np.roll(row, 0)

    def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        if self.fails_after is not None and len(self.passes) >= self.fails_after:
            raise SpectuiError("the toy failed")
        assert len(self.tokens) + len(tokens) <= self.n_ctx, "a real context would abort the process"
        self.passes.append(len(tokens))
        self.evaluated += len(tokens)
        out = []
        for token in tokens:
            self.tokens.append(token)
            out.append(self.logits(self.tokens))
        return np.stack(out[len(out) - rows :]) if rows else np.empty((0, self.n_vocab), np.float32)

    def truncate(self, length: int) -> None:
        if self.forgets and length < len(self.tokens):
            self.tokens.clear()
        del self.tokens[length:]


class ToyGrammar:
    """After each token others are allowed; after `most` of them nothing is."""

    def __init__(self, most: int = 100, accepted: tuple[int, ...] = ()) -> None:
        self.most, self.accepted = most, accepted

    def allowed(self, ids: NDArray[np.intp]) -> NDArray[np.bool_]:
        return np.array([len(self.accepted) < self.most and (token + sum(self.accepted)) % 3 == 1 for token in ids], bool)

    def accept(self, token: int) -> bool:
        possible = bool(self.allowed(np.array([token]))[0])
        self.accepted += (token,) * possible
        return possible

    def clone(self) -> "ToyGrammar":
        return ToyGrammar(self.most, self.accepted)

    def only_way(self) -> Sequence[int]:
        return []


class ToyHooks:
    """A reply whose texts are the numbers of its tokens, and which nothing ends."""

    grammar: Grammar | None = None

    def __init__(self, notices: list[str] | None = None) -> None:
        """`notices` gets what is said of a draft that failed; without it no draft may fail."""
        self._notices = notices

    def text_of(self, token: int) -> str:
        return str(token)

    def piece(self, token: int) -> str:
        return str(token)

    def is_end(self, token: int) -> bool:
        return False

    def stops(self, token: int, texts: Sequence[str]) -> bool:
        return False

    def forced(self, knobs: Knobs, tokens: Sequence[int]) -> int | None:
        return None

    def cancelled(self) -> bool:
        return False

    def draft_failed(self, sentence: str) -> None:
        assert self._notices is not None, sentence
        self._notices.append(sentence)


def decode(
    target: ToyModel,
    prompt: Sequence[int],
    knobs: Knobs | Sequence[Knobs],
    drafter: ModelDrafter | None = None,
    strategy: Strategy | None = None,
    cancel_after: int | None = None,
    seen: Callable[[Round], None] | None = None,
    clock: Callable[[], float] = perf_counter,
    is_end: Callable[[int], bool] | None = None,
    grammar: Grammar | None = None,
) -> tuple[Decoder, list[Round], list[str]]:
    """A reply. A sequence of knobs is taken one per round, the last for the rest. (decoder, rounds, notices)

    `seen` gets each round as it comes. `is_end`: by default END ends the replies of models with 12 tokens.
    """
    notices: list[str] = []
    rounds: list[Round] = []
    hooks = ToyHooks(notices)
    hooks.grammar = grammar
    hooks.is_end = is_end or (lambda token: token == END and target.n_vocab == 12)  # type: ignore[method-assign]
    hooks.cancelled = lambda: cancel_after is not None and len(rounds) >= cancel_after  # type: ignore[method-assign]
    decoder = Decoder(target, strategy or Strategy(drafter, CostModel()), hooks, clock)
    given = [knobs] if isinstance(knobs, Knobs) else list(knobs)
    decoder.prompt(prompt)
    for round in decoder.rounds(lambda: given[min(len(rounds), len(given) - 1)]):
        rounds.append(round)
        if seen is not None:
            seen(round)
    return decoder, rounds, notices


class SameCosts(CostModel):
    """What passes cost whatever they take: a toy's take no time worth the name."""

    def learned(self, n: int, seconds: float, context: int, drafted: Iterable[Candidate] = ()) -> CostModel:
        return self


def wrote(strategy: Strategy, tokens: int, a_pass: int = 1) -> None:
    """Rounds without the draft model gave so many tokens, `a_pass` in each pass, which costs no more than a plain one."""
    for _ in range(0, tokens, a_pass):
        chosen = [(1, 1.0)] * a_pass
        round = Round.of(0, 0, Knobs(), [], 0, chosen, draft_s=0.0, verify_s=1.0, choose_s=0.0, seconds=1.0)
        strategy.learn(round, [], [])


def emitted(rounds: Sequence[Round]) -> list[int]:
    """The ids of the tokens of these rounds."""
    return [token.id for round in rounds for token in round.tokens]


def toy_drafter(seed: int, noise: float, **kind: int) -> ModelDrafter:
    """A draft model for the toy target of this seed."""
    return ModelDrafter(ToyModel(seed, noise=noise, **kind), n_vocab=12)
