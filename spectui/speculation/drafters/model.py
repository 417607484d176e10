"""Draft models propose tokens for the target to verify."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

from spectui.knobs import Knobs
from spectui.speculation.choice import Grammar, NothingAllowed, choose, submit_rows
from spectui.speculation.drafters.text import CommonPrefix, DraftedText
from spectui.speculation.evaluator import Cancelled, Ends, Evaluator, feed
from spectui.speculation.records import Candidate
from spectui.speculation.top_k import Row, TopK


def to_the_end(candidates: Iterator[Candidate], is_end: Ends) -> Iterator[Candidate]:
    """These candidates up to the first one that ends the reply.

    Behind it nothing can be accepted, and a draft model is very sure there: of the next turn's opening, for one.
    """
    for candidate in candidates:
        yield candidate
        if is_end(candidate.id):
            return


class DraftModel:
    """A drafter with a model of its own, whatever its vocabulary. One that also drafts while the target computes has the last
    methods."""

    model: Evaluator
    source = "model"
    """What its tokens are called: "mtp", "eagle3" or "dflash" of a target's heads."""
    grammar: Grammar | None = None
    """What its candidates should obey: between two of them the caller has it accept the first."""

    def lag(self, tokens: Sequence[int]) -> int:
        """Number of the text's tokens, in the draft model's vocabulary, that its KV cache lacks."""
        raise NotImplementedError

    def full(self, tokens: Sequence[int]) -> bool:
        """Whether the text has more tokens than the draft model's context holds."""
        raise NotImplementedError

    def catch_up(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        """Read what the KV cache lacks of this text, but for its last token."""
        raise NotImplementedError

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        """Candidates for the positions behind `tokens`, one at a time, so that the caller can stop before the next one costs
        time; also behind a token that ends the reply."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """Whether the next candidate has been drafted already."""
        return False

    def take(self, tokens: Sequence[int], knobs: Knobs) -> bool | None:
        """A round begins behind these tokens. Returns `Round.guessed`."""
        return None

    def draft_ahead(self, tokens: Sequence[int], sent: Sequence[int], knobs: Knobs, is_end: Ends) -> None:
        """The target begins to compute what was sent behind these tokens: draft behind it meanwhile, if it can."""

    def drop(self) -> None:
        """Another reply begins."""

    def settle(self) -> None:
        """Return when nothing is drafted meanwhile any more."""


class ModelDrafter(DraftModel):
    """A draft model that chooses as the target does: same rule, same noise, same positions.

    Its KV cache keeps the accepted tokens. In each round it lacks only the one or two tokens that the target added, and
    evaluates those in one pass.
    """

    def __init__(
        self, model: Evaluator, n_vocab: int, clock: Callable[[], float] = perf_counter, source: str = "model"
    ) -> None:
        """`n_vocab`: the target's. Tokens that the draft has alone are never proposed; behind one that it lacks nothing is."""
        self.model, self.source = model, source
        self._clock = clock
        self._n_vocab = min(n_vocab, model.n_vocab)
        self._prefix = CommonPrefix()
        self._searched: tuple[Sequence[int], int] = ((), 0)  # a text, and up to where the draft has its tokens

    def lag(self, tokens: Sequence[int]) -> int:
        return self._known(tokens) - self._read(tokens)

    def full(self, tokens: Sequence[int]) -> bool:
        return len(tokens) > self.model.n_ctx

    def catch_up(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        if len(tokens) <= self.model.n_ctx:
            feed(self.model, tokens[: min(self._known(tokens), len(tokens) - 1)], cancelled)

    def _read(self, tokens: Sequence[int]) -> int:
        """Number of these tokens that its KV cache begins with."""
        return self._prefix.of(self.model.tokens, tokens)

    def _known(self, tokens: Sequence[int]) -> int:
        """Number of tokens before the first one that the draft lacks: llama.cpp refuses a pass over that."""
        start, text = self._read(tokens), DraftedText(tokens)
        if text.base is self._searched[0]:  # it only grows: see `CommonPrefix`
            start = max(start, min(self._searched[1], text.length))
        known = next((at for at in range(start, len(text)) if text[at] >= self.model.n_vocab), len(text))
        self._searched = text.base, min(known, text.length)
        return known

    def logits_after(self, tokens: Sequence[int]) -> Row:
        """The draft's logits after these tokens, by the target's ids: float32 [n_vocab], valid until the next evaluation."""
        self.model.truncate(min(self._read(tokens), len(tokens) - 1))
        return self.model.evaluate(tokens[len(self.model.tokens) :], rows=1)[0, : self._n_vocab]

    def _row_after(self, pending: Sequence[int], knobs: Knobs) -> Row | TopK:
        """The logits after these tokens, which the KV cache lacks: whole rows, or their likeliest tokens if that is enough."""
        if self._n_vocab < self.model.n_vocab:  # whole rows, because padding tokens could be among the likeliest
            return self.model.evaluate(pending, rows=1)[0, : self._n_vocab]
        rows = submit_rows(self.model, pending, 1, knobs, whole=self.grammar is not None)()
        return rows if isinstance(rows, TopK) else rows[0]

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        model = self.model
        history = DraftedText(tokens)
        if self._known(history) < len(history):
            return
        # The last token is evaluated again even if the KV cache has it: its logits are needed.
        model.truncate(min(self._read(history), len(history) - 1))
        pending = history[len(model.tokens) :]
        most: int | None = getattr(model, "max_drafted", None)
        end = history.length + most if most is not None else model.n_ctx
        while len(history) < end and len(model.tokens) + len(pending) <= model.n_ctx:
            started = self._clock()
            row = self._row_after(pending, knobs)
            try:
                token, p = choose(row, knobs, len(history), history, self.grammar)
            except NothingAllowed:
                return
            yield Candidate(token, p, self.source, seconds=self._clock() - started)
            history.append(token)
            pending = [token]
