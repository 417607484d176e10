"""Formats figures: fixed width, one unit, a dash for unknown values."""

from __future__ import annotations

_TOKEN_BYTES = 4
UNKNOWN = "–"


def count(value: int | None) -> str:
    """A whole number in groups of three: 1 204."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", " ")


def decimal(value: float | None) -> str:
    """A figure of about three digits: 4.83, 27.4, 312."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def share(value: float | None) -> str:
    """A share in 0..1 as .93."""
    if value is None:
        return UNKNOWN
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text[:3]


def tokens(number: int) -> str:
    """ "1 token", "1 204 tokens"."""
    return f"{count(number)} token{'s' * (number != 1)}"


def about_tokens(size: int) -> str:
    """About how many tokens a text of so many bytes has: the tokenizer is the engine's."""
    return f"about {tokens(size // _TOKEN_BYTES + 1)}"


def times(factor: float) -> str:
    """So many times plain decoding's speed. A small loss must not be shown as 1.0."""
    return f"{factor:.1f}x" if factor >= 1 else f"{factor:.2f}x"


def percent(value: float | None) -> str:
    """A share in 0..1 as 29 %."""
    return UNKNOWN if value is None else f"{100 * value:.0f} %"


def milliseconds(seconds: float | None) -> str:
    """Seconds as whole milliseconds, without the unit."""
    return UNKNOWN if seconds is None else f"{1000 * seconds:.0f}"


def duration(seconds: float | None) -> str:
    """Seconds as a person would say them: 0.42 s."""
    if seconds is None:
        return UNKNOWN
    return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"


def size(number: float) -> str:
    """Bytes as 1.9 GB or 400 MB."""
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"
