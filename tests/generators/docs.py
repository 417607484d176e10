"""Write what is generated in docs/ and config.example.toml: `python -m tests.generators.docs`, which `make docs` runs.

The pictures of the window are made by `tests.generators.pictures`.

A page holds the table of keys between `<!-- begin keys (make docs) -->` and `<!-- end keys -->`.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from textual.binding import Binding
from textual.dom import DOMNode

import spectui.ui
from spectui import reference
from spectui.ui.keys import format_key, group_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
GROUPS = ("chat", "reading", "prompt", "window", "messages", "panel", "steering")
"""The groups of keys that a page lists. Those of lists, sliders and other screens stand in the list that F1 opens."""
_LEFT_OUT = ("prompt.", "page.")
"""Ids of the keys of any text box, and of those that the page tells in one sentence."""
_MARKED = re.compile(r"(<!-- begin keys \(make docs\) -->\n)(.*?)(<!-- end keys -->)", re.DOTALL)


def keys() -> str:
    """A table of the actions of these groups: their keys, and what they do."""
    for module in pkgutil.walk_packages(spectui.ui.__path__, "spectui.ui."):
        importlib.import_module(module.name)
    groups: dict[str, dict[str, tuple[str, str]]] = {}
    for kind in _kinds(DOMNode):
        for each in kind.__dict__.get("BINDINGS", ()):
            if isinstance(each, Binding) and each.id and not each.id.startswith(_LEFT_OUT):
                pressed = " ".join(f"`{format_key(key)}`" for key in each.key.split(","))
                group = group_of(kind, each) or "window"
                groups.setdefault(group, {})[each.id] = (pressed, each.tooltip or each.description)
    lines = ["| key | what it does |", "|---|---|"]
    for group in GROUPS:
        lines.append(f"| **{group}** | |")
        lines += [f"| {pressed} | {what} |" for pressed, what in groups[group].values()]
    return "\n".join(lines)


MEASURED = ROOT / "docs" / "developers" / "performance.md"
CHART_OF = "Zen 3 EPYC, AVX2; Q4_K_M drafted by Q4_K_M"
"""Part of the table on that page which the README shows."""

BARS = (("plain decoding", "#8b929c"), ("llama.cpp's best", "#e69f00"), ("spectui", "#56b4e9"))
_ROW = re.compile(r"^\| (?:\*\*(.*?):\*\* )?(.*?) \| ([\d.]+) \| ([\d.]+)[^|]*\| ([\d.]+) \|", re.MULTILINE)


def chart() -> str:
    """Bars of the measured speeds, as an SVG."""
    rows, part = list[tuple[str, list[float]]](), ""
    for of_part, prompt, *speeds in _ROW.findall(MEASURED.read_text(encoding="utf-8")):
        part = of_part or part
        if part == CHART_OF:
            rows.append((prompt, [float(speed) for speed in speeds]))
    scale = 520 / max(speed for _, speeds in rows for speed in speeds)
    drawn = [f'<text x="{180 + 160 * at}" y="32" fill="{colour}">■ {name}</text>' for at, (name, colour) in enumerate(BARS)]
    for number, (prompt, speeds) in enumerate(rows):
        top = 54 + 74 * number
        drawn.append(f'<text x="164" y="{top + 33}" text-anchor="end">{prompt}</text>')
        for at, (speed, (_, colour)) in enumerate(zip(speeds, BARS, strict=True)):
            y, width = top + 20 * at, speed * scale
            drawn.append(f'<rect x="180" y="{y}" width="{width:.1f}" height="17" fill="{colour}"/>')
            drawn.append(f'<text x="{188 + width:.1f}" y="{y + 14}">{speed:.1f}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {66 + 74 * len(rows)}" font-family="sans-serif" '
        'font-size="14" fill="#d8dee6">\n<rect width="100%" height="100%" rx="8" fill="#14171c"/>\n'
        + "\n".join(drawn)
        + "\n</svg>\n"
    )


def filled(text: str) -> str:
    """A page with its generated parts made anew."""
    return _MARKED.sub(lambda marked: f"{marked[1]}\n{keys()}\n\n{marked[3]}", text)


def files() -> Iterator[tuple[Path, str]]:
    """Every file that holds something generated, and what should be in it."""
    yield ROOT / "config.example.toml", reference.example()
    yield ROOT / "docs" / "speed.svg", chart()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if _MARKED.search(text):
            yield page, filled(text)


def _kinds(kind: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for heir in sorted(kind.__subclasses__(), key=lambda each: (each.__module__, each.__name__)):
        if heir.__module__.startswith("spectui."):
            yield heir
        yield from _kinds(heir)


if __name__ == "__main__":
    for file, text in files():
        file.write_text(text, encoding="utf-8")
