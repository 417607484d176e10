"""What decides whether two models have the same vocabulary, and the rule (llama.cpp's, common/speculative.cpp).

The list of models and loading ask with what the GGUF files say.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from spectui.text import safe

if TYPE_CHECKING:
    from spectui.gguf_files import metadata

PADDING = 128
"""Most tokens that one vocabulary may have more at its end and still be the same: Qwen2.5's models pad theirs differently.

A target's that are in use may not: the draft would not know what they are."""

FIRST_COMPARED = 5
"""First token id that counts, as in llama.cpp: the ids before are often placeholders."""

WITHOUT_TEXT = "none"
"""The kind of a vocabulary whose tokens have no texts."""

_HEX = 8  # digits of a digest
_UNUSED = 5  # llama_token_type (llama.h)

# Kind by `tokenizer.ggml.model`, with BOS, EOS, and whether a text begins and ends with them unless the file says otherwise:
# llama_vocab::impl::load (llama-vocab.cpp). -1 is no token.
_KINDS: Mapping[str, tuple[str, int, int, bool, bool]] = {
    "llama": ("SPM", 1, 2, True, False),
    "gpt2": ("BPE", 11, 11, False, False),
    "gemma4": ("BPE", -1, -1, False, False),
    "bert": ("WPM", 101, -1, True, False),
    "t5": ("UGM", -1, 1, False, True),
    "rwkv": ("RWKV", -1, -1, False, False),
    "plamo2": ("PLaMo-2", 1, 2, False, False),
    "none": (WITHOUT_TEXT, -1, -1, False, False),
    "no_vocab": (WITHOUT_TEXT, -1, -1, False, False),
}
# Values of `tokenizer.ggml.pre` with which BPE begins a text with BOS, or has none.
_BEGINS_WITH_BOS = frozenset(
    ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken",
     "chameleon")
)  # fmt: skip
_ALWAYS_BEGINS_WITH_BOS = frozenset(("gemma4", "granite-embed-multi-311m"))
_WITHOUT_BOS = frozenset(("chatglm-bpe", "glm4", "glm5"))


@dataclass(frozen=True)
class VocabularyDigest:
    """A tokenizer's kind, its number of tokens, and the tokens that it begins and ends a text with; -1: with none.

    `padding`: tokens at its end that no text has. `digests`: of all tokens, and before it those of the first count - 1,
    - 2, ... - PADDING.
    """

    kind: str
    count: int
    begins: int = -1
    ends: int = -1
    padding: int = 0
    digests: str = ""

    def digest(self, count: int) -> str:
        """The digest of the first `count` tokens; "" where there is none."""
        start = len(self.digests) - _HEX * (self.count - count + 1)
        return self.digests[start : start + _HEX] if 0 <= start < len(self.digests) else ""


def kind_of(model: str) -> str:
    """The kind of tokenizer that `tokenizer.ggml.model` names; an unknown name stays."""
    return _KINDS[model][0] if model in _KINDS else model


def difference(target: VocabularyDigest, draft: VocabularyDigest, token: str = "") -> str:
    """The first relevant difference, in words without a full stop; "" if the vocabularies are the same as far as both go.

    `token`: which of the tokens that both have differs first, where that is known.
    """
    example, common = f"; {token}" if token else "", min(target.count, draft.count)
    if target.kind != draft.kind:
        return f"its tokenizer is {draft.kind} and the target's is {target.kind}{example}"
    if abs(target.count - draft.count) > PADDING:
        return f"it has {draft.count} tokens and the target {target.count}{example}"
    for name, ours, theirs in (("begins", target.begins, draft.begins), ("ends", target.ends, draft.ends)):
        if ours != theirs:
            return f"it {name} a text with {_named(theirs)} and the target with {_named(ours)}"
    same = target.digest(common) == draft.digest(common) != ""
    return "" if same else token or "some of its tokens differ from the target's"


def lacking(target: VocabularyDigest, draft: VocabularyDigest) -> str:
    """The tokens that the target uses and the draft lacks at its end, in words without a full stop; "" if it has all."""
    more = target.count - target.padding - draft.count
    others = "" if more <= 1 else f" and {more - 1} more"
    return f"it lacks the target's {_named(draft.count)}{others}" if more > 0 else ""


def read_vocabulary(values: Mapping[str, metadata.Value], count: int, digests: str, padding: int) -> VocabularyDigest | None:
    """The vocabulary of a file with these keys; None where its tokens have no texts."""
    name, pre = (_text(values.get(f"tokenizer.ggml.{key}")) for key in ("model", "pre"))
    if not count or not name or kind_of(name) == WITHOUT_TEXT:
        return None
    kind, bos, eos, begins, ends = _KINDS.get(name, (name, -1, -1, False, False))
    pre = "gemma4" if name == "gemma4" else pre
    if kind == "BPE":
        begins |= pre in _BEGINS_WITH_BOS
        bos = -1 if pre in _WITHOUT_BOS else bos
    begins = _flag(values, "add_bos_token", begins) or (kind == "BPE" and pre in _ALWAYS_BEGINS_WITH_BOS)
    ends = _flag(values, "add_eos_token", ends)
    bos, eos = _id(values, "bos_token_id", bos, count), _id(values, "eos_token_id", eos, count)
    return VocabularyDigest(kind, count, bos if begins else -1, eos if ends else -1, padding, digests)


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


def padding_of(types: metadata.Numbers) -> int:
    """`VocabularyFacts.padding`, from the types of all tokens."""
    kinds = [kind for (kind,) in struct.iter_unpack(f"<{types.form}", types.content)]
    return sum(1 for _ in takewhile(lambda kind: kind == _UNUSED, reversed(kinds)))


def _named(token: int) -> str:
    return "none" if token < 0 else f"token {token}"


def _flag(values: Mapping[str, metadata.Value], name: str, usual: bool) -> bool:
    value = values.get(f"tokenizer.ggml.{name}")
    return value if isinstance(value, bool) else usual


def _id(values: Mapping[str, metadata.Value], name: str, usual: int, count: int) -> int:
    value = values.get(f"tokenizer.ggml.{name}", usual)
    known = [number for number in (value, usual) if isinstance(number, int) and 0 <= number < count]
    return int(known[0]) if known else -1


def _text(value: metadata.Value | None) -> str:
    return " ".join(safe(value[:40].decode("utf-8", "replace")).split()) if isinstance(value, bytes) else ""
