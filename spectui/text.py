"""From token bytes to text that may be shown: UTF-8 put together over tokens, control characters left out."""

from __future__ import annotations

import codecs
import re

# C0 and C1 controls but newline and tab, the line separators that terminals and widgets act on, and the marks that turn
# the direction of text around: none of them may reach a terminal out of a model. Lone surrogates, as JSON may hold them,
# can be encoded for nobody.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def safe(text: str) -> str:
    """The text with nothing in it but printable characters, newline and tab."""
    return _UNSAFE.sub("", text)


class TextStream:
    """Bytes in, safe text out; a character split over tokens comes out with the token that completes it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, piece: bytes) -> str:
        """The text that these bytes complete, maybe "". Broken UTF-8 becomes U+FFFD."""
        return safe(self._decoder.decode(piece))
