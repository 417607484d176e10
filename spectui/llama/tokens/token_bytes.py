"""A model's tokens as bytes, and its tokenizer, for drafting with two vocabularies (`drafters.cross_vocabulary`)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from spectui.llama.library import llama
from spectui.llama.model import Model

_LONGEST = 4096
"""Bytes of a token. The longest known are runs of 256 spaces."""

_CONTROL = 1 << 3  # llama_token_attr (llama.h)


class TokenBytes:
    """Implements `cross_vocabulary.Vocabulary`. Takes about 0.3 s for 150,000 tokens. The model must exist longer than it."""

    def __init__(self, model: Model) -> None:
        vocab = model.vocab
        self._model = model
        self.n_vocab = model.n_vocab
        self.pieces: Sequence[bytes] = _pieces(model)
        self.names: Mapping[int, str] = {
            token: model.token_text(token)
            for token, piece in enumerate(self.pieces)
            if not piece and llama.llama_vocab_get_attr(vocab, token) & _CONTROL
        }
        self.bos: Sequence[int] = model.added_bos
        self.ends: Sequence[int] = _ends(model)

    def tokenize(self, text: str) -> list[int]:
        """The text's tokens, without BOS and without an added space; names of control tokens are text."""
        return self._model.tokenize(text, special=False, within=True)


def _pieces(model: Model) -> list[bytes]:
    """The bytes of every token; b"" for control tokens."""
    buffer = ctypes.create_string_buffer(_LONGEST)
    piece, vocab = llama.llama_token_to_piece, model.vocab
    lengths = (piece(vocab, token, buffer, _LONGEST, 0, False) for token in range(model.n_vocab))
    return [ctypes.string_at(buffer, length) if length > 0 else b"" for length in lengths]


def _ends(model: Model) -> list[int]:
    """The tokens that end a reply; first the one that the chat template uses."""
    ends = [token for token in range(model.n_vocab) if model.is_end(token)]
    template = model.template or ""
    eos = llama.llama_vocab_eos(model.vocab)
    return sorted(ends, key=lambda token: (model.token_text(token) not in template, token != eos))
