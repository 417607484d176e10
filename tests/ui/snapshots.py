"""A window as text that can be compared: what stands where, and how it looks in each theme."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, product
from string import ascii_letters
from typing import NamedTuple

from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip

from tests.ui.screen_text import compositor

Looks = tuple[str, ...]


class Picture(NamedTuple):
    """The window's rows: their text, and a style for each cell."""

    text: str
    styles: list[list[str]]


async def pictured(pilot: Pilot[None], themes: list[str]) -> str:
    """The window's text, its cells' looks as runs of letters (`a12 b3`), and what each letter is in each theme.

    A theme that writes other text than the first fails.
    """
    pictures: list[Picture] = []
    for theme in themes:
        pilot.app.theme = theme
        await pilot.pause()
        pictures.append(picture(pilot.app))
        assert pictures[-1].text == pictures[0].text, f"{theme} writes another text"
    names = map("".join, (each for length in (1, 2) for each in product(ascii_letters, repeat=length)))
    letters: dict[Looks, str] = {}
    rows = []
    for number in range(len(pictures[0].styles)):
        looks = zip(*(each.styles[number] for each in pictures), strict=True)
        rows.append(" ".join(f"{_letter(look, letters, names)}{count}" for look, count in _runs(looks)))
    legend = [
        "\n".join([letter, *(f"    {theme}: {style}" for theme, style in zip(themes, look, strict=True))])
        for look, letter in letters.items()
    ]
    return "\n\n".join([pictures[0].text, "\n".join(rows), *legend, ""])


def picture(app: App[None]) -> Picture:
    """What the terminal shows now, with what lies under a dialog."""
    update = compositor(app).render_update(full=True, screen_stack=app._background_screens)
    assert isinstance(update, LayoutUpdate)
    strips = [Strip.join(pieces) for pieces in update.strips]
    return Picture("\n".join(strip.text.rstrip() for strip in strips), [_styles(strip) for strip in strips])


def _styles(strip: Strip) -> list[str]:
    styles: list[str] = []
    for segment in strip:
        style = segment.style or Style.null()
        seen = style.without_color + Style.from_color(style.color, style.bgcolor)  # no link, and no meta data
        styles += [str(seen)] * segment.cell_length
    return styles


def _runs(looks: Iterator[Looks]) -> Iterator[tuple[Looks, int]]:
    return ((look, len(list(run))) for look, run in groupby(looks))


def _letter(look: Looks, letters: dict[Looks, str], names: Iterator[str]) -> str:
    if look not in letters:
        letters[look] = next(names)
    return letters[look]
