"""Drafting with a model of another vocabulary. Exact, because the target chooses: a bad translation is only rejected.

Where nearly all tokens are shared the draft chooses among those (token-level intersection, TLI); else it writes in its own
tokens, and its text is put into the target's (string-level exact match, SLEM). Both from Timor et al. 2025, "Accelerating
LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies", arXiv:2502.05202; the second
first as "universal assisted generation" (Hugging Face 2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.choice import choose
from spectui.speculation.drafters.cross_vocabulary.contexts import (
    RetokenisedContext,
    TargetRetokeniser,
    TokenMappedContext,
)
from spectui.speculation.drafters.cross_vocabulary.vocabulary_map import Vocabulary, VocabularyMap, usable
from spectui.speculation.evaluator import Cancelled, Evaluator, common_prefix, feed
from spectui.speculation.records import Candidate
from spectui.speculation.sampling import confidence

ENOUGH_SHARED = 0.9
"""From this share of the target's tokens on, the draft is confined to them."""

_PATIENCE = 8
"""Tokens of the draft without one for the target, after which it has lost its way (broken characters, endless spaces)."""


class TranslationError(SpectuiError):
    """The two vocabularies cannot be translated into each other."""


class _TranslatingDrafter:
    """A draft model and the draft's tokens for the conversation. Cells of accepted tokens are kept."""

    upcoming = "model"

    def __init__(
        self, model: Evaluator, bridge: VocabularyMap, context: TokenMappedContext | RetokenisedContext
    ) -> None:
        """`model` is the draft's memory, in its own tokens."""
        self.model = model
        self._bridge = bridge
        self._context = context

    def behind(self, tokens: Sequence[int]) -> int:
        """How many tokens of the draft's for this text its memory lacks."""
        context = self._context.follow(tokens)
        return len(context) - common_prefix(self.model.tokens, context)

    def prepare(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        """A reply to this prompt begins."""
        context = self._context.follow(tokens)
        if len(context) <= self.model.n_ctx:
            feed(self.model, context[:-1], cancelled)

    def _pending(self, tokens: Sequence[int]) -> list[int]:
        """The draft's tokens that its memory lacks; it is cut back to what stands. Empty if there is no text at all."""
        model, context = self.model, self._context.follow(tokens)
        # The last token is evaluated again even where it is in memory: its logits are needed.
        model.truncate(max(0, min(common_prefix(model.tokens, context), len(context) - 1)))
        return context[len(model.tokens) :]

    def _room(self, pending: Sequence[int]) -> bool:
        return bool(pending) and len(self.model.tokens) + len(pending) <= self.model.n_ctx


class IntersectionDrafter(_TranslatingDrafter):
    """Chooses among the tokens that both vocabularies have, with the target's noise."""

    def __init__(self, model: Evaluator, bridge: VocabularyMap) -> None:
        super().__init__(model, bridge, TokenMappedContext(bridge))

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        """Candidates in the target's tokens for the positions behind `tokens`, each from one evaluation."""
        started = perf_counter()
        history = list(tokens)
        pending = self._pending(tokens)
        while self._room(pending):
            row = self._bridge.shared(self.model.evaluate(pending, rows=1)[0])
            token = choose(row, knobs, len(history), history)
            yield Candidate(token, confidence(row, token), "model", seconds=perf_counter() - started)
            started = perf_counter()
            history.append(token)
            same = self._bridge.draft_id(token)
            if same < 0:
                return
            pending = [same]


class RetokenisingDrafter(_TranslatingDrafter):
    """Writes in its own tokens; its text is tokenised for the target. Tokens that both have meet the target's noise."""

    def __init__(self, model: Evaluator, bridge: VocabularyMap) -> None:
        super().__init__(model, bridge, RetokenisedContext(bridge))

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        """Candidates in the target's tokens for the positions behind `tokens`; one evaluation may yield several or none."""
        started = perf_counter()
        bridge, rewriter = self._bridge, TargetRetokeniser(self._bridge, tokens)
        pending = self._pending(tokens)
        idle = 0
        while self._room(pending) and idle < _PATIENCE:
            row = bridge.labelled(self.model.evaluate(pending, rows=1)[0])
            label = choose(row, knobs, rewriter.position, rewriter.history)
            own, p = bridge.draft_id(label), confidence(row, label)
            word = bridge.draft.words[own] if own >= 0 else b""
            settled = rewriter.write(word, p, label) if word else [*rewriter.rest(), (label, p)]
            idle = 0 if settled else idle + 1
            for token, chance in settled:
                yield Candidate(token, chance, "model", seconds=perf_counter() - started)
                started = perf_counter()
            if not word:
                return  # a control token ends the text that can be translated
            pending = [own]


def translating_drafter(
    model: Evaluator, target: Vocabulary, draft: Vocabulary
) -> tuple[IntersectionDrafter | RetokenisingDrafter, str]:
    """The drafter for a draft of another vocabulary, and a sentence to show. Raises TranslationError. About 0.5 s."""
    if not usable(draft):
        raise TranslationError(
            "The draft's tokenizer does not keep the text as it is, so it cannot draft for this target."
        )
    bridge = VocabularyMap(target, draft)
    shared = bridge.shared_fraction
    if shared >= ENOUGH_SHARED:
        return IntersectionDrafter(model, bridge), (f"{shared:.0%} of the tokens are shared, so it drafts among those.")
    if not usable(target):
        raise TranslationError(
            f"The draft has another vocabulary ({shared:.0%} shared), and the target's tokenizer does not keep the text as "
            "it is, so it cannot draft for this target."
        )
    return RetokenisingDrafter(model, bridge), (f"{shared:.0%} of the tokens are shared, so it drafts by text.")
