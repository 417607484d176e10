"""Rounds and figures as the panel's pages get them, and what the pages show."""

from collections.abc import Callable

from spectui.chat.figures.counts import RoundCounts
from spectui.chat.figures.records import Figures
from spectui.knobs import Knobs
from spectui.speculation.records import Round
from spectui.ui.widgets.lines import FigureLines, Line
from tests.fake_engine import FakeEngine


def text_of(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def seen_of(page: FigureLines) -> str:
    """What fits of a page, spaces and line ends as one space."""
    drawn = [line.text for line in map(page.render_line, range(page.size.height))]
    return " ".join(" ".join(drawn).split())


def rounds_of(*plays: Callable[[FakeEngine], Round], knobs: Knobs | None = None) -> list[Round]:
    engine = FakeEngine(knobs or Knobs(policy="fixed"))
    return [play(engine) for play in plays]


def plain(engine: FakeEngine) -> Round:
    return engine.emit_round(plain="a", seconds=0.1, plain_s=0.1)


def accepted(n: int, rejected: int = 0) -> Callable[[FakeEngine], Round]:
    def play(engine: FakeEngine) -> Round:
        own = {"correction": "x"} if rejected else {"bonus": "x"}
        return engine.emit_round(*"abcdefghijklmnop"[:n], rejected=["r"] * rejected, seconds=0.2, plain_s=0.1, **own)

    return play


def figures_of(rounds: list[Round], **arguments: object) -> Figures:
    return Figures(reply=RoundCounts.of(rounds), rounds=tuple(rounds), **arguments)  # type: ignore[arg-type]
