"""Two vocabularies side by side: which tokens they share, and how the one spells what the other wrote.

TLI and SLEM are the names of the literature for what is built on it (Timor et al. 2025, "Accelerating LLM Inference with
Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies", arXiv:2502.05202).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from spectui.speculation.sampling import Row

_SAMPLE = 'The cat\'s 3 hats, on sale:\n    return hats[0] + "x"\n'
"""What a tokenizer must give back to the letter, to be of use here."""

_BROKEN = re.compile("([\udc80-\udcff])")


class Vocabulary(Protocol):
    """A model's tokens and its tokenizer. `llama.token_bytes.TokenBytes` is the real one; the tests have toys."""

    n_vocab: int
    words: Sequence[bytes]
    """The bytes of each token; b"" for those that write nothing."""
    names: Mapping[int, str]
    """Control tokens and what they are called, such as <|im_end|>."""
    opening: Sequence[int]
    """What every text begins with: [BOS], or nothing."""
    ends: Sequence[int]
    """Tokens that end a reply, the usual one first."""

    def tokenize(self, text: str) -> list[int]:
        """The text's tokens. Names of control tokens in it are only text."""


def usable(vocabulary: Vocabulary) -> bool:
    """Does its tokenizer keep the text as it is? Some lower-case it, or drop spaces."""
    return b"".join(vocabulary.words[token] for token in vocabulary.tokenize(_SAMPLE)) == _SAMPLE.encode()


def _keys(vocabulary: Vocabulary) -> dict[int, bytes]:
    """Token id to what it is known by. 0xff is in no text, so a control token's name is never mistaken for a word."""
    keys = {token: word for token, word in enumerate(vocabulary.words) if word}
    keys.update((token, b"\xff\xff" + name.encode()) for token, name in vocabulary.names.items())
    return keys


class VocabularyMap:
    """Tables between a target's and a draft's vocabulary, built once, in about 0.2 s for 150,000 tokens.

    A *label* is a number for whatever the draft may choose: the target's id where both have the token, `target.n_vocab`
    and above for tokens of the draft alone. Chosen by label, shared tokens meet the same noise in both models.
    """

    def __init__(self, target: Vocabulary, draft: Vocabulary) -> None:
        self.target = target
        self.draft = draft
        keys, draft_keys = _keys(target), _keys(draft)
        # Of tokens that are spelled alike the later wins: bytes come first, words after them.
        ours = {key: token for token, key in keys.items()}
        theirs = {key: token for token, key in draft_keys.items()}
        self.to_draft = {token: theirs[key] for token, key in keys.items() if key in theirs}
        """The draft's token for each of the target's that it has too."""
        self.shared_fraction = len(self.to_draft) / max(1, len(keys))
        """Share of the target's tokens that the draft has too, by bytes or, control tokens, by name. 0..1"""
        no_words = {*draft.names, *draft.ends}
        pairs = [(ours[key], token) for key, token in theirs.items() if key in ours and token not in draft.ends]
        alone = [token for key, token in theirs.items() if key not in ours and token not in no_words]
        self._draft_id = np.full(target.n_vocab + len(alone), -1, np.intp)
        self._draft_id[[pair[0] for pair in pairs]] = [pair[1] for pair in pairs]
        self._draft_id[target.n_vocab :] = alone
        self._ends = np.array(draft.ends, np.intp)
        # Rows are read through one table of places; the last place is for whatever the draft has not.
        self._places = np.where(self._draft_id < 0, draft.n_vocab, self._draft_id)
        self._logits: Row = np.full(draft.n_vocab + 1, -np.inf, np.float32)
        self._row: Row = np.full(len(self._places), -np.inf, np.float32)
        self._bytes: dict[int, list[int]] = {key[0]: [token] for key, token in theirs.items() if len(key) == 1}

    def shared(self, row: Row) -> Row:
        """The draft's logits over the target's vocabulary, -inf where it has none: float32 [target.n_vocab], reused.

        Whatever ends a reply in the draft stands for what ends it in the target, whatever their names.
        """
        return self._read(row, self.target.n_vocab)

    def labelled(self, row: Row) -> Row:
        """The draft's logits by label: float32 [target.n_vocab + tokens of the draft alone], reused."""
        return self._read(row, len(self._row))

    def _read(self, row: Row, n: int) -> Row:
        labels = self._row[:n]
        self._logits[:-1] = row
        np.take(self._logits, self._places[:n], out=labels, mode="clip")  # any other mode would copy the row
        if len(self._ends) and self.target.ends:
            labels[self.target.ends[0]] = row[self._ends].max()
        return labels

    def draft_id(self, label: int) -> int:
        """The draft's token of this label; -1 for the end of a reply."""
        return int(self._draft_id[label])

    def spelled(self, data: bytes) -> list[int]:
        """The draft's tokens for these bytes. What is no UTF-8, such as half a character, goes byte by byte where it can."""
        tokens: list[int] = []
        for part in _BROKEN.split(data.decode("utf-8", "surrogateescape")):
            if _BROKEN.match(part):
                tokens += self._bytes.get(ord(part) - 0xDC00, [])
            elif part:
                tokens += self.draft.tokenize(part)
        return tokens


def shared_fraction(target: Vocabulary, draft: Vocabulary) -> float:
    """Share of the target's tokens that the draft has too. 0..1"""
    return VocabularyMap(target, draft).shared_fraction


def whole_characters(data: bytes) -> int:
    """How many of the bytes are left without the character that only begins at their end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if back < size else len(data)
        if byte < 0x80:
            break
    return len(data)
