"""A prompt without a chat template, for base models: the texts one after the other, as llama.cpp's -no-cnv reads them."""

from __future__ import annotations

from collections.abc import Iterable

from spectui.errors import SpectuiError
from spectui.llama.library import llama
from spectui.llama.model import Model


def raw_tokens(model: Model, texts: Iterable[str]) -> list[int]:
    """The tokens of these texts, with the BOS that the vocabulary adds: at least one. Raises SpectuiError.

    Names of control tokens are those tokens here: without a template a person writes the marks that a model was trained with.
    """
    text = "".join(texts)
    if model.added_bos:
        text = text.removeprefix(model.token_text(llama.llama_vocab_bos(model.vocab)))
    tokens = [*model.added_bos, *model.tokenize(text, special=True)]
    if not tokens:
        raise SpectuiError("There is no text to continue: write one.")
    return tokens
