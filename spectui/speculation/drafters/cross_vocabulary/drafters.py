"""Drafting with a model of another vocabulary. The text stays exact, because the target rejects a wrong translation.

If the vocabularies share nearly all tokens, the draft chooses among those (token-level intersection, TLI). Otherwise it
writes its own tokens, and their text is tokenised for the target (string-level exact match, SLEM). Both are from Timor et
al. 2025, "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies",
arXiv:2502.05202; the second was first published as "universal assisted generation" (Hugging Face 2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.choice import choose
from spectui.speculation.drafters.cross_vocabulary.contexts import RetokenisedContext, TargetRetokeniser
from spectui.speculation.drafters.cross_vocabulary.vocabulary_map import Vocabulary, VocabularyMap, usable
from spectui.speculation.drafters.model import DraftModel
from spectui.speculation.drafters.text import CommonPrefix, DraftedText
from spectui.speculation.evaluator import Cancelled, Evaluator, feed
from spectui.speculation.records import Candidate
from spectui.speculation.top_k import Row

ENOUGH_SHARED = 0.9
"""From this share of the target's tokens on, the draft chooses among the shared tokens."""

_MOST_IDLE = 8
"""Draft tokens in a row that give no target token, such as broken characters or endless spaces, after which the draft ends."""


class TranslationError(SpectuiError):
    """The two vocabularies cannot be translated into each other."""


class _TranslatingDrafter(DraftModel):
    """A draft model, and its own tokens for the conversation. The cells of accepted tokens stay in its context."""

    def __init__(self, model: Evaluator, vocabularies: VocabularyMap) -> None:
        """`model` is the draft's context, in its own tokens."""
        self.model = model
        self._map = vocabularies
        self._context = RetokenisedContext(vocabularies)
        self._prefix = CommonPrefix()

    def lag(self, tokens: Sequence[int]) -> int:
        """Number of the draft's tokens for this text that its context lacks."""
        context, read = self._follow(tokens)
        return len(context) - read

    def full(self, tokens: Sequence[int]) -> bool:
        """Whether its context has no room for this text."""
        return len(self._follow(tokens)[0]) > self.model.n_ctx

    def catch_up(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        """Read what the context lacks of this text, but for its last token."""
        context, _ = self._follow(tokens)
        if len(context) <= self.model.n_ctx:
            feed(self.model, context[:-1], cancelled)

    def _follow(self, tokens: Sequence[int]) -> tuple[list[int], int]:
        """The draft's tokens for these, and how many of them its KV cache begins with."""
        context = self._context.follow(tokens)
        return context, self._prefix.of(self.model.tokens, context, self._context.kept)

    def _pending(self, tokens: Sequence[int]) -> list[int]:
        """Truncate the draft's context to the common prefix; the draft's tokens that it lacks. Empty if there is no text."""
        model, (context, read) = self.model, self._follow(tokens)
        # The last token is evaluated again even if the context has it: its logits are needed.
        model.truncate(max(0, min(read, len(context) - 1)))
        return context[len(model.tokens) :]

    def _room(self, pending: Sequence[int]) -> bool:
        return bool(pending) and len(self.model.tokens) + len(pending) <= self.model.n_ctx


class IntersectionDrafter(_TranslatingDrafter):
    """Chooses among the shared tokens, with the target's noise."""

    def logits_after(self, tokens: Sequence[int]) -> Row:
        """The draft's logits after these tokens, by the target's ids: float32 [n_vocab], -inf for tokens that it lacks."""
        return self._map.shared(self.model.evaluate(self._pending(tokens), rows=1)[0])

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        """Candidates in the target's tokens for the positions after `tokens`, each from one evaluation."""
        started = perf_counter()
        history = DraftedText(tokens)
        pending = self._pending(tokens)
        while self._room(pending):
            row = self._map.shared(self.model.evaluate(pending, rows=1)[0])
            token, p = choose(row, knobs, len(history), history)
            yield Candidate(token, p, "model", seconds=perf_counter() - started)
            started = perf_counter()
            history.append(token)
            same = self._map.draft_id(token)
            if same < 0:
                return
            pending = [same]


class RetokenisingDrafter(_TranslatingDrafter):
    """Writes its own tokens; their text is tokenised for the target. Shared tokens get the target's noise."""

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        """Candidates in the target's tokens for the positions after `tokens`; one evaluation may give several or none."""
        started = perf_counter()
        vocabularies, retokeniser = self._map, TargetRetokeniser(self._map, tokens)
        pending = self._pending(tokens)
        idle = 0
        while self._room(pending) and idle < _MOST_IDLE:
            row = vocabularies.joint(self.model.evaluate(pending, rows=1)[0])
            joint_id, p = choose(row, knobs, retokeniser.position, retokeniser.history)
            own = vocabularies.draft_id(joint_id)
            piece = vocabularies.draft.pieces[own] if own >= 0 else b""
            settled = retokeniser.write(piece, p, joint_id) if piece else [*retokeniser.rest(), (joint_id, p)]
            idle = 0 if settled else idle + 1
            for token, chance in settled:
                yield Candidate(token, chance, "model", seconds=perf_counter() - started)
                started = perf_counter()
            if not piece:
                return  # after a control token there is no text to tokenise
            pending = [own]


def translating_drafter(
    model: Evaluator, target: Vocabulary, draft: Vocabulary
) -> tuple[IntersectionDrafter | RetokenisingDrafter, str]:
    """The drafter for a draft of another vocabulary, and a sentence to show. Takes about 0.5 s. Raises TranslationError."""
    if not usable(draft):
        raise TranslationError("The draft's tokenizer does not keep the text as it is, so it cannot draft for this target.")
    vocabularies = VocabularyMap(target, draft)
    shared = vocabularies.shared_fraction
    if shared >= ENOUGH_SHARED:
        return IntersectionDrafter(model, vocabularies), (f"{shared:.0%} of the tokens are shared, so it drafts among those.")
    if not usable(target):
        raise TranslationError(
            f"The draft has another vocabulary ({shared:.0%} shared), and the target's tokenizer does not keep the text as "
            "it is, so it cannot draft for this target."
        )
    return RetokenisingDrafter(model, vocabularies), (f"{shared:.0%} of the tokens are shared, so it drafts by text.")
