"""Texts that end a reply, wherever tokens divide them: the reply is cut before the first of them, as in llama-server."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from spectui.errors import SpectuiError
from spectui.speculation.records import Round
from spectui.text import safe


class StopTexts:
    """One reply's. `reached` follows its tokens as they are chosen, and `shown` its rounds.

    A round is held back while its text may be the beginning of a stop text, so that nothing of one is ever shown.
    """

    def __init__(self, text: Callable[[int], str], name: Callable[[int], str], begun: str = "") -> None:
        """`text`: the text of each of the reply's tokens, in order. `name`: a control token's name, "" for others. `begun`: the
        text that the reply goes on from, in which a stop text may have begun."""
        self._text_of = text
        self._name = name
        self._texts: list[str] = []
        self._chosen = begun  # the end of the text of the tokens that were chosen
        self._length = 0  # characters of all of it
        self._cut: int | None = None  # so many of them are the reply
        self._held: deque[Round] = deque()
        self._end = ""  # the end of the text of the rounds that came
        self._given = 0  # characters of the rounds that were shown
        self._taken = 0  # characters of the rounds that came

    def reached(self, token: int, texts: Sequence[str]) -> bool:
        """Whether the reply ends with this token, the next that was chosen, because one of the texts is complete.

        A text that is the name of a control token is complete with that token.
        """
        self._texts = [text for text in map(safe, texts) if text]
        new, known = self._text_of(token), len(self._chosen)
        self._length += len(new)
        self._chosen += new
        starts = ((text, max(0, known + 1 - len(text))) for text in self._texts)
        places = [at for text, start in starts if (at := self._chosen.find(text, start)) >= 0]
        if places:
            self._cut = max(0, self._length - len(self._chosen) + min(places))
        elif self._texts and self._name(token) in self._texts:
            self._cut = self._length
        longest = max(map(len, self._texts), default=1)
        self._chosen = self._chosen[len(self._chosen) - min(len(self._chosen), longest - 1) :]
        return self._cut is not None

    def shown(self, rounds: Iterable[Round]) -> Iterator[Round]:
        """The reply's rounds, each as soon as its text is certain; those behind the beginning of a stop text are cut."""
        try:
            for round in rounds:
                yield from self._certain(round)
        except SpectuiError:
            yield from self._rest()
            raise
        yield from self._rest()

    def _certain(self, round: Round) -> Iterator[Round]:
        self._held.append(round)
        text = "".join(token.text for token in round.tokens)
        self._taken += len(text)
        self._end += text
        sizes = range(min(len(self._end), max(map(len, self._texts), default=1) - 1), 0, -1)
        begun = next((n for n in sizes if any(text.startswith(self._end[-n:]) for text in self._texts)), 0)
        self._end = self._end[len(self._end) - begun :]
        while self._held and (self._cut is not None or self._given + _length(self._held[0]) <= self._taken - begun):
            yield self._next()

    def _rest(self) -> Iterator[Round]:
        """The rounds that were held back, when the reply has ended."""
        while self._held:
            yield self._next()

    def _next(self) -> Round:
        round = self._held.popleft()
        start, self._given = self._given, self._given + _length(round)
        if self._cut is None or self._given <= self._cut:
            return round
        tokens = []
        for token in round.tokens:
            tokens.append(token._replace(text=token.text[: max(0, self._cut - start)]))
            start += len(token.text)
        return dataclasses.replace(round, tokens=tuple(tokens))


def _length(round: Round) -> int:
    return sum(len(token.text) for token in round.tokens)
