"""llama.cpp's tokenizer, called in a way that no text can end the process.

Some tokenizers split text into words with std::regex, which recurses once per character of a word until the stack overflows: a
pasted line of base64 is enough.
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

_one_at_a_time = threading.Lock()  # the stack size of new threads is a setting of the whole process


class TextError(SpectuiError):
    """The tokenizer cannot take this text."""


def tokenize(vocab: object, text: str, *, special: bool) -> list[int]:
    """The text's tokens. `special`: read names such as <|im_end|> as the tokens they name. Raises TextError."""
    data = text.encode("utf-8", "replace")
    if len(text) <= SHALLOW:
        return _tokens(vocab, data, special)
    longest = max(len(run) for form in _RUNS for run in form.findall(text))
    if longest > LONGEST_RUN:
        raise TextError(
            f"{longest} characters in a row, with no space between them, are more than the tokenizer can take: "
            "break them up, or leave them out."
        )
    # In a thread with a large stack. It runs no OpenMP region, so the worker's threads keep their speed.
    with ThreadPoolExecutor(1) as pool:
        with _one_at_a_time:
            usual = threading.stack_size(DEEP_STACK)
            try:
                tokens = pool.submit(_tokens, vocab, data, special)  # which starts the thread
            except RuntimeError as error:
                raise TextError("There is no memory left to read so long a text with: shorten it.") from error
            finally:
                threading.stack_size(usual)
        return tokens.result()


def _tokens(vocab: object, data: bytes, special: bool) -> list[int]:
    room = len(data) + 16
    for _ in range(2):  # the first call may return the size that is needed
        tokens = (llama.llama_token * room)()
        n = llama.llama_tokenize(vocab, data, len(data), tokens, room, False, special)
        if n >= 0:
            return list(tokens[:n])
        room = min(-n, 8 * room)
    raise TextError("llama.cpp's tokenizer does not take this text: shorten it, or write it in other words.")
