"""Five lines under the transcript about the token under the cursor."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from spectui.chat.figures.format import UNKNOWN, count, milliseconds
from spectui.speculation.records import Round, Token
from spectui.ui.widgets.lines import LABEL, Line, LineWidget, cells, figures_of, flowed, labelled


class Inspector(LineWidget):
    """Shows a token and its round. Hidden until a token is inspected; then the screen has the class `-inspecting`."""

    DEFAULT_CSS = """
    Inspector { height: 5; padding: 0 1; background: $surface; }
    """

    _shown: tuple[Token, Round] | None = None

    def show(self, token: Token | None, round: Round | None) -> None:
        """Show this token; with None, hide."""
        self._shown = (token, round) if token is not None and round is not None else None
        self.screen.set_class(self._shown is not None, "-inspecting")
        self.rewrite()

    def build_lines(self) -> list[Line]:
        """The five lines."""
        return token_lines(*self._shown, self.size.width) if self._shown else []


def token_lines(token: Token, round: Round, width: int) -> list[Line]:
    """Five lines about a token. Long texts are cut to the width, figures never."""
    index = next(index for index, each in enumerate(round.tokens) if each is token)
    known: Line = [("  ", "label"), *figures_of(
        ("id", str(token.id) if token.id >= 0 else UNKNOWN), ("position", count(token.position)),
        ("target", share3(token.p_target)), ("draft", share3(token.p_draft)),
    )]  # fmt: skip
    return [
        [(quoted(token.text, max(LABEL, width - cells(known))), token.origin), *known],
        _origin(token, round, index, width),
        _times(round, width),
        *_likeliest(round, index, width),
    ]


def _origin(token: Token, round: Round, index: int, width: int) -> Line:
    """The token's origin, and its position in the draft."""
    judged = [each for each in round.drafted if each.fate != "ignored"]
    line: Line = [(token.origin, token.origin), (" " * (LABEL - len(token.origin)), "label")]
    if not judged:
        return [*line, (f"{len(round.drafted)} drafted, ignored" if round.drafted else "nothing drafted", "label")]
    if token.origin == "bonus":
        drafters = " + ".join(dict.fromkeys(each.source for each in judged))
        return [*line, ("after ", "label"), (str(len(judged)), "value"), (" by ", "label"), (drafters, "value")]
    drafted = judged[index]
    line += [(f"{_nth(index + 1)} of {len(judged)}", "value"), (" by ", "label"), (drafted.source, "value")]
    if token.origin == "correction":
        best = round.likeliest.at(index) if round.likeliest else []
        less = f"<{share3(best[-1][2]).lstrip('<')}" if best else UNKNOWN
        target = next((share3(p) for id, _, p in best if id == drafted.id), less)
        chances: Line = [(": ", "label"), *figures_of(("target", target), ("draft", share3(drafted.p)))]
        line.append((" was ", "label"))
        line += [(quoted(drafted.text, width - cells(line) - cells(chances)), "rejected"), *chances]
    return line


def _likeliest(round: Round, index: int, width: int) -> list[Line]:
    """The likeliest tokens in two lines, with texts as long as fit."""
    if round.likeliest is None:
        said = UNKNOWN if round.verify_s else "a server tells them of rounds without a draft"
        return [labelled("likeliest", (said, "label")), []]
    best = round.likeliest.at(index)
    for room in range(max(5, width), 4, -1):
        lines = flowed((figures_of((quoted(text, room), share3(p))) for _, text, p in best), width - LABEL)
        if len(lines) <= 2:
            break
    return [labelled(name, *line) for name, line in zip(("likeliest", ""), [*lines, []], strict=False)]


def _times(round: Round, width: int) -> Line:
    """The round's milliseconds, with less space between them where that makes them fit."""
    line = labelled(f"round {round.index}", (f"{milliseconds(round.seconds)} ms", "value"))
    for gap in (2, 1) if round.verify_s else ():  # a server does not tell what the time went into
        figures = figures_of(*((name, milliseconds(seconds)) for name, seconds in round.parts), gap=gap)
        line = labelled(f"round {round.index}", (f"{milliseconds(round.seconds)} ms: ", "value"), *figures)
        if cells(line) <= width:
            break
    return line


def quoted(text: str, room: int | None = None) -> str:
    """A token's text in quotes, with visible line ends and tabs, in at most `room` cells."""
    text = text.replace("\n", "⏎").replace("\t", "⇥")
    if room is not None and cell_len(text) + 2 > room:
        text = set_cell_size(text, max(0, room - 3)) + "…"
    return f'"{text}"'


def share3(value: float | None) -> str:
    """A probability with three decimals: .998; a tiny one is <.001, not 0."""
    if value is None:
        return UNKNOWN
    if 0 < value < 0.0005:
        return "<.001"
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0") else text[:4]


def _nth(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
