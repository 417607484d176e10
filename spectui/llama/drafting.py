"""Choose the drafter for two loaded models: direct for one vocabulary, translating for two."""

from __future__ import annotations

from spectui.llama.model import Model
from spectui.llama.token_bytes import TokenBytes
from spectui.llama.vocabulary import VocabularyError, check_vocabularies
from spectui.speculation.drafters.cross_vocabulary.drafters import TranslationError, translating_drafter
from spectui.speculation.drafters.model import DraftModel, ModelDrafter
from spectui.speculation.evaluator import Evaluator


def drafter_for(target: Model, draft: Model, context: Evaluator) -> tuple[DraftModel, str]:
    """The drafter, which uses the draft's `context`, and a sentence to show if the vocabularies differ, else "".

    Raises VocabularyError if the draft's text cannot be turned into the target's tokens.
    """
    if draft.same_vocabulary:
        return ModelDrafter(context, target.n_vocab), ""
    try:
        check_vocabularies(target, draft)
    except VocabularyError as difference:
        if target.textless or draft.textless:
            raise
        try:
            drafter, how = translating_drafter(context, TokenBytes(target), TokenBytes(draft))
            return drafter, f"{difference} {how}"
        except TranslationError as error:
            raise VocabularyError(f"{difference} {error}") from error
    return ModelDrafter(context, target.n_vocab), ""
