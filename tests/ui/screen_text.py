"""The window's text, as a person reads it."""

from typing import Any

from textual._compositor import Compositor
from textual.app import App

from spectui.ui.transcript.transcript import Transcript

REPLY = "def add(a, b):\n    return a + b\n"
"""What `pilot_helpers.write_reply` writes."""


def compositor(app: App[Any]) -> Compositor:
    """What puts the widgets' lines together. It has no public name in Textual; tests reach it here alone."""
    return app.screen._compositor


def screen_text(app: App[Any]) -> str:
    """What a person can read now, row by row."""
    width, height = app.size
    strips = compositor(app).render_strips()
    return "\n".join("".join(segment.text for segment in strip)[:width] for strip in strips[:height])


def one_line(app: App[Any]) -> str:
    """What a person can read, wherever it is wrapped."""
    return " ".join(screen_text(app).split())


def said(app: App[Any]) -> str:
    """The chat's transcript as it is copied, whatever is open over it."""
    return app.screen_stack[0].query_one(Transcript).document.text


def shown(app: App[Any]) -> str:
    """All of the transcript, notices too."""
    blocks = app.screen_stack[0].query_one(Transcript).document.blocks
    return "\n".join("".join(row.text for row in block.drawing.rows) for block in blocks)
