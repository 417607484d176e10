"""Toy vocabularies: a few words, a greedy tokenizer, and models that know a text by heart."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.toys import END, ToyModel

ALPHABET = ["a", "b", "c", " ", "\n", "é", *"'3,:[]+=\"xstuvnohlreTi0()"]


class ToyWords:
    """Longest match first. Token 0 ends a reply, token 1 is <note>, then single bytes, then the words."""

    def __init__(self, words: Sequence[str], end: str = "<end>", opening: bool = False) -> None:
        single = sorted({bytes([byte]) for letter in ALPHABET for byte in letter.encode()})
        self.pieces = [b"", b"", *single, *(word.encode() for word in words if len(word.encode()) > 1)]
        self.names = {END: end, 1: "<note>"}
        self.bos = []
        if opening:
            self.bos = [len(self.pieces)]
            self.names[len(self.pieces)] = "<begin>"
            self.pieces.append(b"")
        self.ends = [END]
        self.n_vocab = len(self.pieces)
        self._ids = {word: token for token, word in enumerate(self.pieces) if word}
        self._longest = max(map(len, self.pieces))

    def tokenize(self, text: str) -> list[int]:
        return self.spell(text.encode())

    def spell(self, data: bytes) -> list[int]:
        """The tokens for these bytes, which may begin within a character."""
        at, tokens = 0, []
        while at < len(data):
            size = next(n for n in range(self._longest, 0, -1) if data[at : at + n] in self._ids)
            tokens.append(self._ids[data[at : at + size]])
            at += size
        return tokens

    def text(self, tokens: Sequence[int]) -> bytes:
        """The bytes of these tokens."""
        return b"".join(self.pieces[token] for token in tokens)


class Reciter(ToyModel):
    """Goes on with the text that it knows by heart, in its own tokens, from wherever the tokens before have come to."""

    def __init__(self, vocabulary: ToyWords, text: str, seed: int = 0, certainty: float = 30.0) -> None:
        super().__init__(seed, n_vocab=vocabulary.n_vocab, n_ctx=4096)
        self._vocabulary = vocabulary
        self._all = text.encode()
        self._certainty = certainty

    def logits(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        row = super().logits(tokens).copy()
        row[list(self._vocabulary.names)] -= 50.0
        said = self._vocabulary.text(tokens)
        if self._all.startswith(said):
            following = self._vocabulary.spell(self._all[len(said) : len(said) + 24])
            row[following[0] if following else END] += self._certainty + (100.0 if not following else 0.0)
        return row
