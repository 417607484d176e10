"""llama.cpp's tokenizer, called in a way that no text can end the process.

Two kinds of text would. Some tokenizers split text into words with std::regex, which recurses once per character of a word
until the stack overflows: a pasted line of base64 is enough. And a SentencePiece vocabulary without byte tokens throws a C++
exception at the first character that it lacks, which cannot be caught through the C interface.
"""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

from spectui.errors import SpectuiError
from spectui.llama.library import llama

SHALLOW = 4096
"""Characters of a text for which every thread's stack is large enough: 2 MB at 500 bytes each."""

DEEP_STACK = 256 << 20
"""Bytes of stack for longer texts. Only the used part takes memory."""

LONGEST_RUN = 100_000
"""Most characters in a row without a space, and most spaces in a row."""

# Vocabularies differ in what counts as a space: these are the widest and the narrowest definition.
_RUNS = (re.compile(r"\s+"), re.compile(r"[^ \t\r\n]+"))
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPM = 1  # llama_vocab_type (llama.h)
_NAMED = 1 << 3 | 1 << 4  # llama_token_attr: control, user-defined

_one_at_a_time = threading.Lock()  # the stack size of new threads is a setting of the whole process


class TextError(SpectuiError):
    """The tokenizer cannot take this text."""


class Tokenizer:
    """The tokenizer of one vocabulary, which must exist longer than this object."""

    def __init__(self, vocab: object) -> None:
        self._vocab = vocab
        self._missing = _MissingCharacters(vocab) if llama.llama_vocab_type(vocab) == _SPM else None
        if self._missing is not None and self._missing.none:
            self._missing = None

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """The text's tokens. `special`: read names such as <|im_end|> as the tokens they name. Raises TextError."""
        data = text.encode("utf-8", "replace")
        if self._missing is not None and (character := self._missing.first(data.decode(), special)):
            raise TextError(f"The model's vocabulary has no token for {character!r}: write without it.")
        if len(text) <= SHALLOW:
            return self._tokens(data, special)
        longest = max(len(run) for form in _RUNS for run in form.findall(text))
        if longest > LONGEST_RUN:
            raise TextError(
                f"{longest} characters in a row, with no space between them, are more than the tokenizer can take: "
                "break them up, or leave them out."
            )
        return self._tokens_in_deep_stack(data, special)

    def _tokens_in_deep_stack(self, data: bytes, special: bool) -> list[int]:
        """Tokenise in a thread with a large stack. It runs no OpenMP region, so the worker's threads keep their speed."""
        with ThreadPoolExecutor(1) as pool:
            with _one_at_a_time:
                usual = threading.stack_size(DEEP_STACK)
                try:
                    tokens = pool.submit(self._tokens, data, special)  # which starts the thread
                except RuntimeError as error:
                    raise TextError("There is no memory left to read so long a text with: shorten it.") from error
                finally:
                    threading.stack_size(usual)
            return tokens.result()

    def _tokens(self, data: bytes, special: bool) -> list[int]:
        room = len(data) + 16
        for _ in range(2):  # the first call may return the size that is needed
            tokens = (llama.llama_token * room)()
            n = llama.llama_tokenize(self._vocab, data, len(data), tokens, room, False, special)
            if n >= 0:
                return list(tokens[:n])
            room = min(-n, 8 * room)
        raise TextError("llama.cpp's tokenizer does not take this text: shorten it, or write it in other words.")


class _MissingCharacters:
    """The characters that a SentencePiece vocabulary cannot spell: it has no token for the character, nor for all its bytes."""

    def __init__(self, vocab: object) -> None:
        self._bytes: set[int] = set()
        self._characters: set[str] = set()
        names: list[str] = []
        for token in range(llama.llama_vocab_n_tokens(vocab)):
            text = (llama.llama_vocab_get_text(vocab, token) or b"").decode("utf-8", "replace")
            if byte := _BYTE.fullmatch(text):
                self._bytes.add(int(byte[1], 16))
                if self.none:
                    break  # nearly every vocabulary has all bytes among its first 259 tokens
            elif len(text) == 1:
                self._characters.add(text)
            elif llama.llama_vocab_get_attr(vocab, token) & _NAMED:
                names.append(text)
        self._names = sorted(names, key=len, reverse=True)

    @property
    def none(self) -> bool:
        """Does every byte have its token?"""
        return len(self._bytes) == 256

    def first(self, text: str, special: bool) -> str:
        """One character of the text that cannot be spelled, "" if all can. `special`: names of tokens need no spelling."""
        if not self._missing(text):
            return ""
        for name in self._names if special else ():
            text = text.replace(name, "")
        return min(self._missing(text), default="")

    def _missing(self, text: str) -> set[str]:
        # A space becomes ▁, which the tokenizer may also put before the text.
        needed = set(text.replace(" ", "▁")) | {"▁"} if text else set()
        return {each for each in needed - self._characters if not set(each.encode()) <= self._bytes}
