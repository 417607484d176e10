"""An engine without a model: it plays a conversation of the disk again, at any speed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from spectui import paths
from spectui.engine.events import FREE, Event, Failed, Finished, Loaded, Message, ModelInfo, Prompt, RoundDone, Terms
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import UNKNOWN, Round, StopReason, Token
from spectui.speculation.statistics import Statistics
from spectui.store.records import FAILED, Reply, StoredConversation, StoredMessage, unknown_reply
from spectui.store.rounds.packed import PackedRounds

DEMO = "demo"
"""The id of the recorded chat that ships."""

SLOWEST, FASTEST = 0.01, 1000.0
"""Bounds of the speed, in times as fast as it was."""

UNKNOWN_S = 0.05
"""Seconds for a round whose time is not known."""

BROKEN_OFF = "The reply broke off here."
NO_REPLY = "This prompt got no reply."


def demo_file() -> Path:
    """The file of the recorded chat that ships."""
    return paths.PACKAGE / "chat" / "demo.db"


class Lane:
    """Gives a reply's rounds again, each when it had ended."""

    def __init__(self, rounds: Iterable[Round]) -> None:
        self.rounds = PackedRounds()
        """Those that have ended."""
        self.figures = Statistics()
        """Theirs."""
        self._coming = iter(rounds)
        self._next = next(self._coming, None)

    @property
    def ended(self) -> bool:
        """Whether all rounds have ended."""
        return self._next is None

    def advance(self, seconds: float) -> None:
        """Take the rounds that had ended so many seconds after the first began."""
        while self._next is not None and self.figures.decode_s + self._next.seconds <= seconds:
            self.rounds.append(self._next)
            self.figures.add(self._next)
            self._next = next(self._coming, None)


class Turn(NamedTuple):
    """A prompt and its reply; None if it got none."""

    prompt: str
    reply: StoredMessage | None

    @property
    def made(self) -> Reply | None:
        """How the reply was made; None where that is not known."""
        return self.reply.reply if self.reply is not None else None


class PassiveEngine:
    """What is common to engines that compute nothing, and only tell the window what was made elsewhere."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.listen: Callable[[Event], None] = lambda event: None
        self.wants_probabilities = False

    def unload(self) -> None:
        """There is nothing to free."""

    def forget(self) -> None:
        """Nothing was read."""

    def count(self, text: str) -> Future[int | None]:
        """There is no tokenizer."""
        unknown = Future[int | None]()
        unknown.set_result(None)
        return unknown

    def close(self) -> None:
        """Nothing is left to be closed."""

    def say(self, event: Event) -> None:
        """Tell the window."""
        self.listen(event)
        self.events.append(event)


class ConversationPlayer(PassiveEngine):
    """Implements `protocol.Engine`. It has no thread: the window calls `advance` with the seconds that have passed.

    It waits at each prompt: the window sends that of `turn`, and `generate` lets its reply begin.
    """

    def __init__(self, conversation: StoredConversation, speed: float = 1.0) -> None:
        super().__init__()
        self.title = conversation.title
        self.knobs = Knobs()
        """The knobs of the last played round."""
        self.speed = speed
        self.paused = False
        self.turn: Turn | None = None
        """The turn that comes next."""
        messages = conversation.messages
        turns = [
            Turn(message.text, reply if reply is not None and reply.role == "assistant" else None)
            for message, reply in zip(messages, (*messages[1:], None), strict=False)
            if message.role == "user"
        ]
        setup = next((turn.made.setup for turn in turns if turn.made is not None), Setup(model="recorded"))
        self.setup = replace(setup, system=conversation.system)
        """What the last reply was made by, at first the first one, with the conversation's system prompt."""
        self._begun = False
        self._turns = iter(turns)
        self._coming: Iterator[tuple[float, Event]] = iter(())
        self._next: Event | None = None
        self._due = 0.0  # seconds until the next event, at the recorded speed

    @property
    def guess(self) -> str:
        """The draft of the round that comes next, from when it was made."""
        if not isinstance(self._next, RoundDone) or self._due > self._next.round.seconds - self._next.round.draft_s:
            return ""
        return "".join(token.text for token in self._next.round.drafted if token.fate != "ignored")

    @property
    def ended(self) -> bool:
        """Whether all of it was played."""
        return self._begun and self.turn is None and self._next is None

    def load(self, setup: Setup) -> None:
        """Say that the models of the first reply are loaded."""
        self._begun = True
        self.say(_loaded(self.setup))
        self._turn_on()

    def generate(self, messages: Sequence[Message], terms: Terms = FREE) -> None:
        """Begin the reply of the turn, whatever `messages` are."""
        if self.turn is not None:
            self._coming, self.turn, self._due = _events(self.turn.reply), None, 0.0
            self._take()

    def stop(self) -> None:
        """Pause."""
        self.paused = True

    def advance(self, seconds: float) -> None:
        """Emit the events of the next `seconds`."""
        if not self.paused:
            self._due -= seconds * self.speed
            while self._next is not None and self._due <= 0:
                self._emit(self._next)

    def step(self) -> None:
        """Emit the events up to the end of the next round."""
        while (event := self._next) is not None:
            self._emit(event)
            if isinstance(event, RoundDone):
                break

    def faster(self, factor: float) -> None:
        """Change the speed by this factor."""
        self.speed = min(max(self.speed * factor, SLOWEST), FASTEST)

    def _emit(self, event: Event) -> None:
        if isinstance(event, RoundDone):
            self.knobs = event.round.knobs
        self.say(event)
        self._take()

    def _take(self) -> None:
        """Take the next event of the reply, or turn to the next prompt."""
        seconds, self._next = next(self._coming, (0.0, None))
        self._due += seconds
        if self._next is None:
            self._turn_on()

    def _turn_on(self) -> None:
        """Turn to the next prompt, and to the models that answered it."""
        self.turn = next(self._turns, None)
        made = self.turn.made if self.turn is not None else None
        if made is not None and (setup := replace(made.setup, system=self.setup.system)) != self.setup:
            self.setup = setup
            self.say(_loaded(setup))


def _loaded(setup: Setup) -> Loaded:
    facts = "a recorded model", 0, 0, 0, setup.ctx_size, 0
    draft = ModelInfo(setup.draft, *facts) if setup.draft else None
    return Loaded(setup, ModelInfo(setup.model or "recorded", *facts), draft, ())


def _events(message: StoredMessage | None) -> Iterator[tuple[float, Event]]:
    """The events of a reply, each with the seconds that it took."""
    if message is None:
        yield 0.0, Failed(NO_REPLY)
        return
    reply, figures = message.reply or unknown_reply()._replace(stop=StopReason.EOS.value), Statistics()
    tokens, seconds = reply.prompt_tokens or 0, reply.prompt_s or 0.0
    yield seconds, Prompt(tokens, tokens, 0, seconds)
    lost = Token(UNKNOWN, message.text, "plain", None, 0, 0, None, None)
    for round in reply.rounds or [Round(0, 0, Knobs(), (), (lost,), 0.0, 0.0, 0.0, 0.0)]:
        figures.add(round)
        yield round.seconds or UNKNOWN_S, RoundDone(round, round.position + len(round.tokens))
    if reply.stop in (None, FAILED):
        yield 0.0, Failed(BROKEN_OFF)
        return
    of_prompt = reply.prompt_tokens, reply.prompt_s, reply.first_token_s
    yield 0.0, Finished(StopReason(reply.stop), message.text, figures, reply.knobs or Knobs(), *of_prompt)
