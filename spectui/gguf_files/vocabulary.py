"""What decides whether two models have the same vocabulary, as the list of models and loading ask it of GGUF files.

A draft of the same vocabulary gets the target's tokens by their numbers. So it does not matter here with which tokens either
would begin and end a text, which llama.cpp compares too (common/speculative.cpp).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile

PADDING = 128
"""Most tokens that one vocabulary may have more at its end and still be the same: Qwen2.5's models pad theirs differently.

A target's that are in use may not: the draft would not know what they are."""

FIRST_COMPARED = 5
"""First token id that counts, as in llama.cpp: the ids before are often placeholders."""

WITHOUT_TEXT = "none"
"""The kind of a vocabulary whose tokens have no texts."""

_HEX = 8  # digits of a digest
_UNUSED = 5  # llama_token_type (llama.h)

_KINDS: Mapping[str, str] = {
    "llama": "SPM",
    "gpt2": "BPE",
    "gemma4": "BPE",
    "bert": "WPM",
    "t5": "UGM",
    "rwkv": "RWKV",
    "plamo2": "PLaMo-2",
    "none": WITHOUT_TEXT,
    "no_vocab": WITHOUT_TEXT,
}
"""Kind of tokenizer by `tokenizer.ggml.model`: llama_vocab::impl::load (llama-vocab.cpp)."""


@dataclass(frozen=True)
class VocabularyDigest:
    """A tokenizer's kind and its number of tokens.

    `padding`: tokens at its end that no text has. `digests`: of all tokens, and before it those of the first count - 1,
    - 2, ... - PADDING.
    """

    kind: str
    count: int
    padding: int = 0
    digests: str = ""

    def digest(self, count: int) -> str:
        """The digest of the first `count` tokens; "" where there is none."""
        start = len(self.digests) - _HEX * (self.count - count + 1)
        return self.digests[start : start + _HEX] if 0 <= start < len(self.digests) else ""


def kind_of(model: str) -> str:
    """The kind of tokenizer that `tokenizer.ggml.model` names; an unknown name stays."""
    return _KINDS.get(model, model)


def difference(target: VocabularyDigest, draft: VocabularyDigest) -> str:
    """The first relevant difference, in words without a full stop; "" if the vocabularies are the same as far as both go."""
    if target.kind != draft.kind:
        return f"its tokenizer is {draft.kind} and the target's is {target.kind}"
    if abs(target.count - draft.count) > PADDING:
        return f"it has {draft.count} tokens and the target {target.count}"
    common = min(target.count, draft.count)
    same = target.digest(common) == draft.digest(common) != ""
    return "" if same else "some of its tokens differ from the target's"


def lacking(target: VocabularyDigest, draft: VocabularyDigest) -> str:
    """The tokens that the target uses and the draft lacks at its end, in words without a full stop; "" if it has all."""
    more = target.count - target.padding - draft.count
    others = "" if more <= 1 else f" and {more - 1} more"
    return f"it lacks the target's token {draft.count}{others}" if more > 0 else ""


def digests_of(tokens: Iterable[bytes], count: int) -> tuple[str, bool, bool]:
    """(`VocabularyDigest.digests` of `count` tokens, whether one of them occurs twice, whether each byte has its token)."""
    digest = hashlib.blake2b(digest_size=_HEX // 2)
    noted: list[str] = []
    seen: set[bytes] = set()
    twice = False
    for number, token in enumerate(tokens):
        if number >= count - PADDING:
            noted.append(digest.hexdigest())
        if number >= FIRST_COMPARED:
            digest.update(len(token).to_bytes(4, "little") + token)
        twice = twice or token in seen
        if token:  # llama.cpp gives names to empty ones
            seen.add(token)
    spells = all(b"<0x%02X>" % byte in seen for byte in range(256))
    return "".join((*noted, digest.hexdigest())), twice, spells


def padding_of(types: Iterable[tuple[int]]) -> int:
    """`VocabularyDigest.padding`, from the types of all tokens."""
    return sum(1 for _ in takewhile(lambda kind: kind == (_UNUSED,), reversed([*types])))
