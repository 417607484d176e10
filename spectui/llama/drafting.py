"""Choose the drafter for two loaded models: direct for one vocabulary, translating for two, ahead on a device of its own."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.llama.devices.records import Device
from spectui.llama.model import Model
from spectui.llama.tokens.vocabulary import LackingError, TokenBytes, VocabularyError, check_vocabularies
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
            if isinstance(difference, LackingError):
                return ModelDrafter(
                    context, target.n_vocab
                ), f"{difference} It drafts until such a token is in the text."
            raise VocabularyError(f"{difference} {error}") from error
    return ModelDrafter(context, target.n_vocab), ""


def has_own_devices(target: Sequence[Device], draft: Sequence[Device]) -> bool:
    """Whether the draft computes where the target does not; [] is the CPU.

    An RPC server answers one question after the other, so two of its devices count as one. Their description is its address.
    """

    def processors(devices: Sequence[Device]) -> set[str]:
        return {device.description if device.name.startswith("RPC") else device.name for device in devices}

    return bool(draft) and not processors(draft) & processors(target)
