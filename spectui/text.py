"""Text that may be shown on a terminal: UTF-8 decoded across tokens, without control characters.

Everything that comes from a model, a file, a device or the clipboard passes one of these functions before it is shown.
"""

from __future__ import annotations

import codecs
import os
import re
import unicodedata

# C0 and C1 controls except newline and tab; the line separators that terminals and widgets act on; the marks that change
# the direction of text; lone surrogates, which JSON may hold and UTF-8 cannot encode.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_UNSAFE = re.compile(f"[{_CONTROLS}]")
_LINE_END = re.compile("\r\n?|[\u2028\u2029]")
_UNSAFE_IN_A_LINE = re.compile(f"[\n\t{_CONTROLS}]")


_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|[nrt'\"\\])")


def safe(text: str) -> str:
    """The text without the characters that could act on a terminal; newline and tab stay."""
    # `isprintable` is the faster check, and false for each character of the set.
    return text if text.isprintable() else _UNSAFE.sub("", text)


def printable(text: str) -> str:
    """`safe`, with all other line ends turned into newlines first: for pasted text and text files."""
    return safe(_LINE_END.sub("\n", text))


def one_line(text: str) -> str:
    """The text on one line, with a "?" for each character that `safe` would delete, for newline and for tab."""
    return _UNSAFE_IN_A_LINE.sub("?", text)


def unescaped(text: str) -> str:
    r"""The text with `\n`, `\r`, `\t`, `\'`, `\"`, `\\` and `\xHH`, a byte of UTF-8, read as llama.cpp's -e does."""
    data = _ESCAPE.sub(_unescape, text.encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "replace")


def escaped(text: str) -> str:
    """The text on one line, to be read by `unescaped`."""
    return text.translate({ord(sign): f"\\{name}" for name, sign in _ESCAPED.items()})


def _unescape(match: re.Match[bytes]) -> bytes:
    name = match[1].decode()
    return _ESCAPED[name].encode() if name in _ESCAPED else bytes.fromhex(name[1:]) if name[0] == "x" else match[1]


def of_argument(text: str) -> str:
    """The text of an argument: UTF-8 whatever encoding the locale has, or else in the locale's. Raises UnicodeError if its
    bytes are neither.

    Only for texts: Python finds a file by the name as it has decoded it.
    """
    try:
        return os.fsencode(text).decode()
    except UnicodeError:
        text.encode()  # bytes that the locale's encoding lacks
        return text


LOOKALIKES = "lookalikes"
"""An error handler for `encode`: as wide a text of ASCII for what a terminal's encoding lacks. Nothing is raised."""

_ALIKE = {
    "-": "─━┄┅┈┉╌╍╴╶╸╺–—−▔", "=": "═", "|": "│┃┆┇┊┋╎╏╵╷╹╻║▏▎▍▌▐▕", "+": "╔╗╚╝╠╣╦╩╬╭╮╯╰✓", "#": "█▉▊▋▓▒▄▅▆▇▀", "_": "▁▂▃",
    ".": "░·…∙", "*": "●•◉", ">": "▸▹▶►→⟶≥", "<": "◂◀⟵←≤", "^": "↑⏎", "v": "↓", '"': "“”„«»", "'": "‘’", "x": "×", "~": "≈",
    " ": "\xa0\u2800",
}  # fmt: skip
_ALIKE_OF = {sign: plain for plain, signs in _ALIKE.items() for sign in signs}


def _lookalike(sign: str) -> str:
    if sign in _ALIKE_OF:
        return _ALIKE_OF[sign]
    if "\u250c" <= sign <= "\u254b":
        return "+"
    if "\u2800" <= sign <= "\u28ff":  # plots
        return ":"
    if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
        return ""
    return "??" if unicodedata.east_asian_width(sign) in "WF" else "?"


def _lookalikes(error: UnicodeError) -> tuple[str, int]:
    if isinstance(error, UnicodeEncodeError):
        return "".join(map(_lookalike, error.object[error.start : error.end])), error.end
    raise error


codecs.register_error(LOOKALIKES, _lookalikes)


class TextStream:
    """Decodes a model's tokens: bytes in, safe text out. A character split over tokens appears with its last token."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def complete(self) -> bool:
        """Whether no character is begun."""
        return not self._decoder.getstate()[0]

    def push(self, piece: bytes) -> str:
        """The text that these bytes complete, maybe "". Broken UTF-8 becomes U+FFFD."""
        return safe(self._decoder.decode(piece))
