"""One reply: a decoder on the loaded pair, what it writes, and the events about it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from time import perf_counter

from spectui.engine.events import Event, Finished, Guess, Notice, Prompt, RoundDone, Terms
from spectui.engine.pair import Pair
from spectui.knobs import Knobs
from spectui.llama.tokens.reply_text import ReplyText, ThoughtLimit
from spectui.speculation.choice import RECORDED, Grammar
from spectui.speculation.decoder import Decoder
from spectui.speculation.evaluator import common_prefix
from spectui.speculation.records import Round, StopReason
from spectui.speculation.statistics import Statistics
from spectui.speculation.stop_texts import StopTexts
from spectui.text import safe
from spectui.thinking import MARK

_FEW = 32
"""Tokens that are read again without a word; and those that are looked at where a prompt parts from what was read."""

_SEEN_S = 1 / 15
"""Seconds from one draft to the next from which on a guess is told: where rounds are faster, it would only flicker."""


class Reply:
    """A prompt's reply, as the decoder's `ReplyHooks`. `write` decodes it; what was written until an error stays."""

    def __init__(
        self,
        pair: Pair,
        asked: tuple[Sequence[int], Sequence[int]],
        knobs: Callable[[], Knobs],
        emit: Callable[[Event], None],
        stopped: Callable[[], bool],
        grammar: Grammar | None,
        terms: Terms,
        *,
        names: bool,
        restored: str,
    ) -> None:
        """`asked`: the prompt, and the tokens of a reply that is continued, which `grammar` has accepted. `names`: show those
        of control tokens, too (--special). `restored`: as in `Prompt`."""
        prompt, begun = asked
        target, context, marks = pair.target, pair.context, pair.marks
        self._pair, self._context, self._knobs, self._emit = pair, context, knobs, emit
        self.grammar = grammar
        self._prompt, self._restored = [*prompt, *begun], restored
        limit = ThoughtLimit(marks, prompt)
        self._shown, chosen = (ReplyText(marks, thinking=limit.opened) for _ in range(2))
        name = self._name = target.control_name if names else lambda _: ""
        for token in begun:
            self._shown.push(token)
        text = "".join(chosen.push(token) or name(token) for token in begun)
        self._stops = StopTexts(lambda token: chosen.push(token) or name(token), target.control_name, text)
        self.is_end, self.cancelled, self.stops, self.forced = target.is_end, stopped, self._stops.reached, limit.forced
        self.piece = cache(lambda token: safe(target.piece(token).decode("utf-8", "replace")))
        self._thought: deque[bool] = deque()  # of the tokens whose text was asked for
        self._decoder = Decoder(context, pair.strategy, self, recorded=max(RECORDED, terms.likeliest))
        self._decoder.on_draft, self._drafted_s = self._guess, 0.0
        self._statistics = Statistics()
        self._texts: list[str] = []
        self._read = 0
        self._prompt_s: float | None = None
        self._first_s: float | None = None

    @property
    def text(self) -> str:
        """What was written so far."""
        return "".join(self._texts)

    @property
    def tokens(self) -> list[int]:
        """Its tokens behind the prompt and what was begun."""
        return self._decoder.tokens[len(self._prompt) :]

    @property
    def reason(self) -> StopReason:
        """Why it ended."""
        assert self._decoder.reason is not None
        return self._decoder.reason

    def text_of(self, token: int) -> str:
        text = self._shown.push(token)
        self._thought.append(self._shown.thought)
        return text or self._name(token)

    def draft_failed(self, sentence: str) -> None:
        self._emit(Notice(sentence, draft_failed=True))

    def _guess(self, round: int, draft: Sequence[int]) -> None:
        """Tell the text of the draft that the target begins to read, without an incomplete character at its end."""
        before, self._drafted_s = self._drafted_s, perf_counter()
        if draft and self._drafted_s - before > _SEEN_S:
            text = b"".join(map(self._pair.target.piece, draft)).decode("utf-8", "ignore")
            self._emit(Guess(round, safe(text)))

    def write(self, since: float) -> None:
        """Read the prompt and decode until the end. `since`: when it was asked for, by `perf_counter`.

        Raises SpectuiError and what a device raises.
        """
        self._read_prompt(since)
        for round in self._stops.shown(map(self._noted, self._decoder.rounds(self._knobs))):
            self._first_s = self._first_s or perf_counter() - since
            self._statistics.add(round)
            self._texts += [token.text for token in round.tokens]
            self._emit(RoundDone(round, len(self._decoder.tokens)))
            self._pair.adapt_threads()

    def _noted(self, round: Round) -> Round:
        """The round with the note which of its tokens are thinking."""
        tokens = tuple(token._replace(thought=self._thought.popleft()) for token in round.tokens)
        return replace(round, tokens=tokens)

    def _read_prompt(self, since: float) -> None:
        prompt, context = self._prompt, self._context
        parted = _parted(self._pair, context.tokens, prompt)
        context.truncate(common_prefix(context.tokens, prompt))
        # Other processes may have become busy since the last reply.
        self._pair.adapt_threads(len(prompt) - len(context.tokens))
        reused = min(len(context.tokens), len(prompt) - 1)  # a context that cannot be truncated to that length keeps fewer

        def read(done: int) -> None:
            self._pair.adapt_threads()
            self._emit(Prompt(done, len(prompt), reused, perf_counter() - since, self._restored, parted))

        self._emit(Prompt(reused, len(prompt), reused, 0.0, self._restored, parted))
        self._decoder.prompt(prompt, read)
        self._prompt_s, self._read = perf_counter() - since, len(context.tokens)
        if self._read == len(prompt) - 1 and self._decoder.reason is None:
            self._read = len(prompt)  # the first round evaluates the last one
            read(self._read)

    def finished(self, to_drop: int) -> Finished:
        """The event that it ended with. `to_drop`: as there."""
        return Finished(
            self.reason, self.text, self._statistics, self._knobs(), self._read, self._prompt_s, self._first_s, to_drop
        )


def _parted(pair: Pair, held: Sequence[int], prompt: Sequence[int]) -> str:
    """As in `Prompt`, for a context that holds these tokens."""
    common = common_prefix(held, prompt)
    if len(held) - common < _FEW:
        return ""
    texts = [b"".join(map(pair.target.piece, tokens[common : common + _FEW])) for tokens in (held, prompt)]
    length = min(map(len, texts))
    if length and texts[0][:length] == texts[1][:length]:
        return "an earlier reply is in other tokens now"
    around = held[max(0, common - _FEW) : common + _FEW]
    said = b"".join(map(pair.target.piece, around)).decode("utf-8", "replace")
    if MARK.search(said) or not pair.marks.opens.isdisjoint(around):
        return "the template leaves out what an earlier reply thought"
    return f"the text differs from token {common + 1:,} on"
