"""What is known of the token under the cursor, in four lines under the transcript."""

from __future__ import annotations

from spectui.speculation.records import DraftToken, Round, Token
from spectui.ui.figures import UNKNOWN, count, milliseconds
from spectui.ui.lines import Line, Lines, figures_of, labelled


class Inspector(Lines):
    """The token and its round. Hidden until a token is inspected; the screen then is `-inspecting`, to make room for it."""

    DEFAULT_CSS = """
    Inspector { height: 4; padding: 0 1; background: $surface; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[Token, Round] | None = None

    def show(self, token: Token | None, round: Round | None) -> None:
        """Tell of this token; with none, hide."""
        self._shown = (token, round) if token is not None and round is not None else None
        self.screen.set_class(self._shown is not None, "-inspecting")
        self.rewrite()

    def written(self) -> list[Line]:
        """The four lines."""
        return told(*self._shown) if self._shown else []


def told(token: Token, round: Round) -> list[Line]:
    """What there is to say of a token."""
    place = next(place for place, each in enumerate(round.tokens) if each is token)
    judged = [each for each in round.drafted if each.fate != "ignored"]
    first: Line = [(quoted(token.text), token.origin), ("  ", "label")]
    first += figures_of(("id", str(token.id)), ("", token.origin))
    if token.origin == "accepted":
        first += [
            ("  ", "label"),
            *figures_of((f"{_nth(place + 1)} of {len(judged)} drafted by", token.source or UNKNOWN)),
        ]
    first += [("  ", "label"), *figures_of(("place", count(token.position)))]
    return [first, _chances(token, round, place), _likeliest(round, place), _times(round, judged)]


def _chances(token: Token, round: Round, place: int) -> Line:
    line = labelled("chance", *figures_of(("target", share3(token.p_target)), ("draft", share3(token.p_draft))))
    if token.origin == "correction":
        wrong = round.drafted[place]
        best = round.likeliest.at(place) if round.likeliest else []
        target = next((p for id, _, p in best if id == wrong.id), None)
        line += [("   in place of ", "label"), (quoted(wrong.text), "rejected"), (f" by {wrong.source}: ", "label")]
        line += figures_of(("target", share3(target) if target is not None or not best else f"< {share3(best[-1][2])}"),
                           ("draft", share3(wrong.p)))  # fmt: skip
    return line


def _likeliest(round: Round, place: int) -> Line:
    if round.likeliest is None:
        return labelled("likeliest", (UNKNOWN, "label"))
    return labelled("likeliest", *figures_of(*((quoted(text), share3(p)) for _, text, p in round.likeliest.at(place))))


def _times(round: Round, judged: list[DraftToken]) -> Line:
    return labelled(
        f"round {round.index}",
        (f"{milliseconds(round.seconds)} ms: ", "value"),
        *figures_of(
            ("draft", milliseconds(round.draft_s)), ("verify", milliseconds(round.verify_s)),
            ("choose", milliseconds(round.choose_s)), ("rest", milliseconds(round.rest_s)),
        ),
        (f"  {round.count('accepted')} kept" if judged else "  nothing drafted", "label"),
    )  # fmt: skip


def quoted(text: str) -> str:
    """A token's text so that its spaces and line ends can be seen."""
    return '"' + text.replace("\n", "⏎").replace("\t", "⇥") + '"'


def share3(value: float | None) -> str:
    """A probability to three places: .998; the tiny ones are not 0."""
    if value is None:
        return UNKNOWN
    if 0 < value < 0.0005:
        return "<.001"
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0") else text[:4]


def _nth(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
