"""A model's tokens as bytes, and its tokenizer: what drafting over two vocabularies needs (`speculation.vocabularies`)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from spectui.llama.library import llama
from spectui.llama.model import Model

_LONGEST = 4096
"""Bytes of a token. The longest known are runs of 256 spaces."""

_UNKNOWN, _CONTROL = 1 << 0, 1 << 3  # llama_token_attr (llama.h)


class TokenBytes:
    """Implements `Vocabulary`. Built in about 0.3 s for 150,000 tokens; needs the model for as long as it lives."""

    def __init__(self, model: Model) -> None:
        vocab = model.vocab
        self._model = model
        self.n_vocab = model.n_vocab
        self.words: Sequence[bytes] = _words(model)
        self.names: Mapping[int, str] = {
            token: model.token_text(token)
            for token, word in enumerate(self.words)
            if not word and llama.llama_vocab_get_attr(vocab, token) & _CONTROL
        }
        self.opening: Sequence[int] = model.added_bos
        self.ends: Sequence[int] = _ends(model)
        # Tokenizers of the Llama 2 kind put a space before every text: "x" comes back as " x".
        leads = b"".join(self.words[token] for token in self._tokens("x")) == b" x"
        self._lead = self._tokens("\n") if leads else []

    def tokenize(self, text: str) -> list[int]:
        """The text's tokens, with none before it and names of control tokens read as text."""
        if not self._lead:
            return self._tokens(text)
        # Behind a line feed no space is put before it, and nothing merges with the line feed.
        tokens = self._tokens("\n" + text)
        return tokens[len(self._lead) :] if tokens[: len(self._lead)] == self._lead else self._tokens(text)

    def _tokens(self, text: str) -> list[int]:
        return self._model.tokenize(text, special=False)


def _words(model: Model) -> list[bytes]:
    """The bytes of every token; b"" for control tokens."""
    buffer = ctypes.create_string_buffer(_LONGEST)
    piece, vocab = llama.llama_token_to_piece, model.vocab
    lengths = (piece(vocab, token, buffer, _LONGEST, 0, False) for token in range(model.n_vocab))
    return [ctypes.string_at(buffer, length) if length > 0 else b"" for length in lengths]


def _ends(model: Model) -> list[int]:
    """The tokens that end a reply, the one that the chat template uses first."""
    ends = [token for token in range(model.n_vocab) if model.is_end(token)]
    template = model.template or ""
    eos = llama.llama_vocab_eos(model.vocab)
    return sorted(ends, key=lambda token: (model.token_text(token) not in template, token != eos))
