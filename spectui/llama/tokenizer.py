"""llama.cpp's tokenizer, called so that no text ends the process.

Two texts would. Some vocabularies are split into words by std::regex, which goes a call deeper with every character of a
word, until the stack is full: a pasted line of base64 is enough. And a SentencePiece vocabulary without byte tokens throws
over the first character that it lacks, through C, where nobody catches.
"""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

from spectui.errors import SpectuiError
from spectui.llama.library import llama

SHALLOW = 4096
"""Characters of a text that any thread's stack is deep enough for: 2 MB at 500 bytes each."""

DEEP_STACK = 256 << 20
"""Bytes for longer texts. Only what is used of it takes memory."""

LONGEST_RUN = 100_000
"""Characters without a space in between, or spaces without another."""

# What counts as a space differs from one vocabulary to the next: the most and the least that may.
_RUNS = (re.compile(r"\s+"), re.compile(r"[^ \t\r\n]+"))
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPM = 1  # llama_vocab_type (llama.h)
_NAMED = 1 << 3 | 1 << 4  # llama_token_attr: control, user-defined

_one_at_a_time = threading.Lock()  # the size of new threads' stacks is the process's


class TextError(SpectuiError):
    """The tokenizer cannot take this text."""


class Tokenizer:
    """Of one vocabulary, which must outlive it."""

    def __init__(self, vocab: object) -> None:
        self._vocab = vocab
        self._lacks = _Lacks(vocab) if llama.llama_vocab_type(vocab) == _SPM else None
        if self._lacks is not None and self._lacks.nothing:
            self._lacks = None

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """The text's tokens. `special`: read names such as <|im_end|> as the tokens they name. Raises TextError."""
        data = text.encode("utf-8", "replace")
        if self._lacks is not None and (sign := self._lacks.first(data.decode(), special)):
            raise TextError(f"The model's vocabulary has no token for {sign!r}: write without it.")
        if len(text) <= SHALLOW:
            return self._tokens(data, special)
        longest = max(len(run) for form in _RUNS for run in form.findall(text))
        if longest > LONGEST_RUN:
            raise TextError(
                f"{longest} characters in a row, with no space between them, are more than the tokenizer can take: "
                "break them up, or leave them out."
            )
        return self._deeply(data, special)

    def _deeply(self, data: bytes, special: bool) -> list[int]:
        """In a thread with a deep stack. It computes nothing in parallel, so the worker's threads stay warm."""
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
        for _ in range(2):  # the first answer may be how much room is needed
            tokens = (llama.llama_token * room)()
            n = llama.llama_tokenize(self._vocab, data, len(data), tokens, room, False, special)
            if n >= 0:
                return list(tokens[:n])
            room = min(-n, 8 * room)
        raise TextError("llama.cpp's tokenizer does not take this text: shorten it, or write it in other words.")


class _Lacks:
    """What a SentencePiece vocabulary cannot spell: no token for the character, and none for one of its bytes."""

    def __init__(self, vocab: object) -> None:
        self._bytes: set[int] = set()
        self._signs: set[str] = set()
        names: list[str] = []
        for token in range(llama.llama_vocab_n_tokens(vocab)):
            text = (llama.llama_vocab_get_text(vocab, token) or b"").decode("utf-8", "replace")
            if byte := _BYTE.fullmatch(text):
                self._bytes.add(int(byte[1], 16))
                if self.nothing:
                    break  # as nearly every vocabulary does, after its first 259 tokens
            elif len(text) == 1:
                self._signs.add(text)
            elif llama.llama_vocab_get_attr(vocab, token) & _NAMED:
                names.append(text)
        self._names = sorted(names, key=len, reverse=True)

    @property
    def nothing(self) -> bool:
        """Every byte has its token."""
        return len(self._bytes) == 256

    def first(self, text: str, special: bool) -> str:
        """One of the text's characters that cannot be spelled, "" if all can. Names that are read as tokens can."""
        if not self._lacking(text):
            return ""
        for name in self._names if special else ():
            text = text.replace(name, "")
        return min(self._lacking(text), default="")

    def _lacking(self, text: str) -> set[str]:
        # A space is written as ▁, which may also be put before the text.
        signs = set(text.replace(" ", "▁")) | {"▁"} if text else set()
        return {sign for sign in signs - self._signs if not set(sign.encode()) <= self._bytes}
