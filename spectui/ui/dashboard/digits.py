"""Figures three lines tall."""

from __future__ import annotations

_GLYPHS = {
    "0": ("┏━┓", "┃ ┃", "┗━┛"),
    "1": (" ┓ ", " ┃ ", " ╹ "),
    "2": ("╺━┓", "┏━┛", "┗━╸"),
    "3": ("╺━┓", " ━┫", "╺━┛"),
    "4": ("╻ ╻", "┗━┫", "  ╹"),
    "5": ("┏━╸", "┗━┓", "╺━┛"),
    "6": ("┏━╸", "┣━┓", "┗━┛"),
    "7": ("╺━┓", "  ┃", "  ╹"),
    "8": ("┏━┓", "┣━┫", "┗━┛"),
    "9": ("┏━┓", "┗━┫", "╺━┛"),
    ".": (" ", " ", "."),
    "–": ("   ", "╺━╸", "   "),
}


def big(text: str) -> tuple[str, str, str]:
    """Digits, a point or a dash, drawn over three lines."""
    glyphs = [_GLYPHS[char] for char in text]
    return "".join(g[0] for g in glyphs), "".join(g[1] for g in glyphs), "".join(g[2] for g in glyphs)
