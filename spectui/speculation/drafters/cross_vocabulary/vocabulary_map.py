"""Two vocabularies side by side: which tokens they share, and how one spells a text of the other.

The literature calls the drafters that are built on it TLI and SLEM (Timor et al. 2025, "Accelerating LLM Inference with
Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies", arXiv:2502.05202).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np

from spectui.errors import SpectuiError
from spectui.speculation.top_k import Row

_SAMPLE = 'The cat\'s 3 hats, on sale:\n    return hats[0] + "x"\n'
"""A text that a usable tokenizer returns unchanged."""

_BROKEN = re.compile("([\udc80-\udcff])")


class Vocabulary(Protocol):
    """A model's tokens and its tokenizer. `llama.tokens.vocabulary.TokenBytes` is the real one; the tests have toys."""

    n_vocab: int
    pieces: Sequence[bytes]
    """The bytes of each token; b"" for those without text."""
    names: Mapping[int, str]
    """Control token -> its name, such as <|im_end|>."""
    bos: Sequence[int]
    """The tokens that every text begins with: [BOS], or none."""
    ends: Sequence[int]
    """Tokens that end a reply, the usual one first."""

    def tokenize(self, text: str) -> list[int]:
        """The text's tokens. Names of control tokens in it are only text. Raises SpectuiError for a text that it lacks."""


def usable(vocabulary: Vocabulary) -> bool:
    """Does its tokenizer keep the text unchanged? Some change it to lower case, or drop spaces."""
    with suppress(SpectuiError):
        return b"".join(vocabulary.pieces[token] for token in vocabulary.tokenize(_SAMPLE)) == _SAMPLE.encode()
    return False


def _keys(vocabulary: Vocabulary) -> dict[int, bytes]:
    """Token id -> its bytes, or its name after 0xff, which is in no text: a name never equals a text."""
    keys = {token: piece for token, piece in enumerate(vocabulary.pieces) if piece}
    keys.update((token, b"\xff\xff" + name.encode()) for token, name in vocabulary.names.items())
    return keys


class VocabularyMap:
    """Tables between a target's and a draft's vocabulary, built once, in about 0.2 s for 150,000 tokens.

    A *joint id* is a number for each token that the draft may choose: the target's id for shared tokens, `target.n_vocab` and
    more for tokens of the draft alone. Noise depends on the joint id, so shared tokens get the same noise in both models.
    """

    def __init__(self, target: Vocabulary, draft: Vocabulary) -> None:
        self.target = target
        self.draft = draft
        keys, draft_keys = _keys(target), _keys(draft)
        # Of tokens with equal bytes the last is used: single bytes come first in a vocabulary, words after them.
        ours = {key: token for token, key in keys.items()}
        theirs = {key: token for token, key in draft_keys.items()}
        self.to_draft = {token: theirs[key] for token, key in keys.items() if key in theirs}
        """Target token -> draft token, for the shared tokens."""
        self.shared_fraction = len(self.to_draft) / max(1, len(keys))
        """Share of the target's tokens that the draft has too, compared by bytes, or by name for control tokens. 0..1"""
        without_text = {*draft.names, *draft.ends}
        pairs = [(ours[key], token) for key, token in theirs.items() if key in ours and token not in draft.ends]
        alone = [token for key, token in theirs.items() if key not in ours and token not in without_text]
        self._draft_id = np.full(target.n_vocab + len(alone), -1, np.intp)
        self._draft_id[[pair[0] for pair in pairs]] = [pair[1] for pair in pairs]
        self._draft_id[target.n_vocab :] = alone
        self._ends = np.array(draft.ends, np.intp)
        # One table of indices into the draft's row; the last index is for tokens that the draft lacks.
        self._indices = np.where(self._draft_id < 0, draft.n_vocab, self._draft_id)
        self._logits: Row = np.full(draft.n_vocab + 1, -np.inf, np.float32)
        self._row: Row = np.full(len(self._indices), -np.inf, np.float32)
        self._bytes: dict[int, list[int]] = {key[0]: [token] for key, token in theirs.items() if len(key) == 1}

    def shared(self, row: Row) -> Row:
        """The draft's logits by the target's ids, -inf for tokens that it lacks: float32 [target.n_vocab], reused.

        The draft's tokens that end a reply count as the target's one, whatever their names.
        """
        return self._read(row, self.target.n_vocab)

    def joint(self, row: Row) -> Row:
        """The draft's logits by joint id: float32 [target.n_vocab + tokens of the draft alone], reused."""
        return self._read(row, len(self._row))

    def _read(self, row: Row, n: int) -> Row:
        joint = self._row[:n]
        self._logits[:-1] = row
        np.take(self._logits, self._indices[:n], out=joint, mode="clip")  # other modes copy the row
        if len(self._ends) and self.target.ends:
            joint[self.target.ends[0]] = row[self._ends].max()
        return joint

    def draft_id(self, joint_id: int) -> int:
        """The draft's token; -1 for the end of a reply."""
        return int(self._draft_id[joint_id])

    def spelled(self, data: bytes) -> list[int]:
        """The draft's tokens for these bytes. Bytes that are not UTF-8, such as half a character, get byte tokens.

        What the draft's tokenizer refuses is left out.
        """
        tokens: list[int] = []
        for part in _BROKEN.split(data.decode("utf-8", "surrogateescape")):
            if _BROKEN.match(part):
                tokens += self._bytes.get(ord(part) - 0xDC00, [])
            elif part:
                with suppress(SpectuiError):
                    tokens += self.draft.tokenize(part)
        return tokens


def whole_characters(data: bytes) -> int:
    """Number of bytes without an incomplete character at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if back < size else len(data)
        if byte < 0x80:
            break
    return len(data)
