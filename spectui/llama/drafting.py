"""The drafter for two loaded models: token by token where they share a vocabulary, translated where they do not."""

from __future__ import annotations

from spectui.llama.model import Model
from spectui.llama.vocabulary import VocabularyError, check_vocabularies
from spectui.llama.words import Words
from spectui.speculation.drafters import DraftModel, ModelDrafter
from spectui.speculation.model import Evaluator
from spectui.speculation.translation import TranslationError, translating_drafter


def drafter_for(target: Model, draft: Model, memory: Evaluator) -> tuple[DraftModel, str]:
    """The drafter that works in the draft's `memory`, and a sentence to show where the vocabularies differ, else "".

    Raises VocabularyError where the draft's text cannot be turned into the target's tokens.
    """
    if draft.alike:
        return ModelDrafter(memory, target.n_vocab), ""
    try:
        check_vocabularies(target, draft)
    except VocabularyError as difference:
        if target.textless or draft.textless:
            raise
        try:
            drafter, how = translating_drafter(memory, Words(target), Words(draft))
            return drafter, f"{difference} {how}"
        except TranslationError as error:
            raise VocabularyError(f"{difference} {error}") from error
    return ModelDrafter(memory, target.n_vocab), ""
