"""One moving picture out of many still ones: an SVG whose parts CSS shows while they are to be seen."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_RECT = r'<rect fill="(?P<fill>[^"]*)" x="(?P<x>[^"]*)" y="(?P<y>[^"]*)" width="(?P<width>[^"]*)" height="(?P<height>[^"]*)"'
_RECTS = re.compile(rf'{_RECT} shape-rendering="crispEdges"/>')
_TEXTS = re.compile(r'<text class="[\w-]+-(r\d+)"( x="[^"]*" y="[^"]*" textLength="[^"]*")[^>]*>([^<]*)</text>')
_STYLES = re.compile(r"\.[\w-]+-(r\d+) \{ ?(.*?);? ?\}\s*")
_ROWS = re.compile(r'<clipPath id="[\w-]+-line-\d+">.*?</clipPath>\s*', re.DOTALL)
_MATRIX = re.compile(r'<g class="[\w-]+-matrix">(.*)</g>\s*</g>', re.DOTALL)


class Stretch(NamedTuple):
    """The frames in which something is seen: from the first to before the end."""

    first: int
    end: int


def moving(frames: Sequence[str], seconds: Sequence[float]) -> str:
    """The animation of Textual's pictures of one window, each shown for so many seconds.

    What stays from one frame to the next is in it once. The last frame is what is seen without animations.
    """
    styles: dict[str, str] = {}
    background = Counter(found["fill"] for found in _RECTS.finditer(frames[-1])).most_common(1)[0][0]
    stretches: dict[Stretch, list[str]] = {}
    since: dict[str, int] = {}
    for number in range(len(frames) + 1):
        elements = list(_elements(frames[number], background, styles)) if number < len(frames) else []
        for gone in since.keys() - set(elements):
            stretches.setdefault(Stretch(since.pop(gone), number), []).append(gone)
        for element in elements:
            since.setdefault(element, number)
    starts = [sum(seconds[:number]) for number in range(len(seconds) + 1)]
    rules = [f".{name}{{{style}}}" for style, name in styles.items()]
    rules += [f".a{{animation:{starts[-1]:g}s step-end infinite;visibility:hidden}}.a.z{{visibility:visible}}"]
    groups: list[tuple[str, list[str]]] = []
    for number, (stretch, elements) in enumerate(sorted(stretches.items())):
        kind = f"k{number}"
        if stretch == (0, len(frames)):
            groups.append(("<g>", sorted(elements)))
            continue
        rules.append(_rule(kind, stretch, starts))
        last = " z" if stretch.end == len(frames) else ""
        groups.append((f'<g class="a {kind}{last}">', sorted(elements)))
    rules.append("@media(prefers-reduced-motion:reduce){.a{animation:none!important}}")
    drawn = [f'<rect width="100%" height="100%" fill="{background}"/>']
    for kind in ("<rect", "<text"):  # backgrounds below all letters
        for begin, elements in groups:
            if of_kind := [element for element in elements if element.startswith(kind)]:
                drawn.append(f"{begin}{''.join(of_kind)}</g>")
    whole = _ROWS.sub("", _RECTS.sub("", _STYLES.sub("", frames[-1])))
    whole = whole.replace("</style>", "\n".join(["rect{shape-rendering:crispEdges}", *rules]) + "\n</style>", 1)
    matrix = _MATRIX.search(whole)
    assert matrix is not None
    return whole[: matrix.start(1)] + "\n".join(drawn) + whole[matrix.end(1) :]


def _rule(kind: str, stretch: Stretch, starts: Sequence[float]) -> str:
    """The CSS that shows what is of this kind, for this stretch of the animation."""
    begin, end = (f"{100 * starts[number] / starts[-1]:.4g}%" for number in stretch)
    hidden = "" if stretch.first == 0 else "0%{visibility:hidden}"
    after = "" if stretch.end == len(starts) - 1 else f"{end}{{visibility:hidden}}"
    return f".{kind}{{animation-name:{kind}}}@keyframes {kind}{{{hidden}{begin}{{visibility:visible}}{after}}}"


def _elements(frame: str, background: str, styles: dict[str, str]) -> Iterator[str]:
    """The rectangles and texts of a frame; `styles` names those of all frames."""
    left: re.Match[str] | None = None
    x, width = 0.0, 0.0
    for rect in (*_RECTS.finditer(frame), None):
        beside = rect is not None and left is not None and abs(x + width - float(rect["x"])) < 0.1
        if beside and (rect["fill"], rect["y"]) == (left["fill"], left["y"]):
            width += float(rect["width"])
            continue
        if left is not None and left["fill"] != background:
            yield f'<rect fill="{left["fill"]}" x="{x:g}" y="{left["y"]}" width="{width:g}" height="{left["height"]}"/>'
        if rect is not None:
            left, x, width = rect, float(rect["x"]), float(rect["width"])
    own = dict(_STYLES.findall(frame))
    for name, place, text in _TEXTS.findall(frame):
        text = text.replace("&#160;", "\N{NO-BREAK SPACE}")
        if text.strip():
            style = styles.setdefault(own[name], f"s{len(styles)}")
            yield f'<text class="{style}"{place}>{text}</text>'
