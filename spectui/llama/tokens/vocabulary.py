"""Have two models the same vocabulary? llama.cpp's rules (common/speculative.cpp), with an error that names the token."""

from __future__ import annotations

from spectui.errors import SpectuiError
from spectui.gguf_files.check import PADDING
from spectui.llama.library import llama
from spectui.llama.model import Model

_FIRST_CHECKED = 5  # the first few ids are often placeholders
_TYPES = ("none", "SPM", "BPE", "WPM", "UGM", "RWKV", "PLaMo-2")  # llama_vocab_type (llama.h)


class VocabularyError(SpectuiError):
    """The draft's vocabulary differs from the target's."""


def check_vocabularies(target: Model, draft: Model) -> None:
    """Raise VocabularyError, with a sentence that names the first difference, if the vocabularies differ."""
    difference = _difference(target, draft)
    if difference:
        raise VocabularyError(f"The draft has another vocabulary than the target: {difference}.")


def _difference(target: Model, draft: Model) -> str:
    """The first relevant difference, in words; "" if there is none."""
    kinds = [llama.llama_vocab_type(model.vocab) for model in (target, draft)]
    if kinds[0] != kinds[1]:
        ours, theirs = (_TYPES[kind] if kind < len(_TYPES) else str(kind) for kind in kinds)
        # Asking for the text of a token ends the process if the vocabulary has no texts.
        example = "" if 0 in kinds else _first_token(target, draft)
        return f"its tokenizer is {theirs} and the target's is {ours}{example}"
    if abs(target.n_vocab - draft.n_vocab) > PADDING:
        return f"it has {draft.n_vocab} tokens and the target {target.n_vocab}{_first_token(target, draft)}"
    for name, added, token in (
        ("begins", llama.llama_vocab_get_add_bos, llama.llama_vocab_bos),
        ("ends", llama.llama_vocab_get_add_eos, llama.llama_vocab_eos),
    ):
        ends = [token(model.vocab) if added(model.vocab) else -1 for model in (target, draft)]
        if ends[0] != ends[1]:
            return f"it {name} a text with {_named(draft, ends[1])} and the target with {_named(target, ends[0])}"
    return _first_token(target, draft).removeprefix("; ")


def _first_token(target: Model, draft: Model) -> str:
    """ "; token 9 is 'a' in the draft and 'b' in the target" for the first that differs, or ""."""
    for token in range(_FIRST_CHECKED, min(target.n_vocab, draft.n_vocab)):
        ours = llama.llama_vocab_get_text(target.vocab, token)
        theirs = llama.llama_vocab_get_text(draft.vocab, token)
        if ours != theirs:
            return f"; token {token} is {draft.token_text(token)!r} in the draft and {target.token_text(token)!r} in the target"
    return ""


def _named(model: Model, token: int) -> str:
    """ "token 7 ('<s>')", or "none" for the token -1."""
    return "none" if token < 0 else f"token {token} ({model.token_text(token)!r})"
