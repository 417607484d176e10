"""The conversation and its figures, without a widget: the chat screen asks here what to send and what to show."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from spectui.chat.comparison import Comparison, decodes_alike
from spectui.chat.figures import Figures
from spectui.engine.events import (
    Device,
    Devices,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    Loading,
    Message,
    ModelInfo,
    Notice,
    Prompt,
    RoundDone,
)
from spectui.knobs import Setup
from spectui.speculation.records import Round, StopReason
from spectui.speculation.statistics import Statistics
from spectui.store.journal import Journal
from spectui.store.records import FAILED, Conversation
from spectui.text import printable

State = Literal["no model", "loading", "ready", "reading", "writing", "comparing", "failed"]

LIVE_SECONDS = 3.0
"""The live speed is over this much decoding: shorter trembles, longer lags behind a slider."""


class Answer(NamedTuple):
    """Under which set-up a reply was written, None if under more than one; and why it ended, None if it did not."""

    setup: Setup | None
    stop: str | None


class Session:
    """Takes the engine's events in order. Holds one Statistics for the reply, one for the chat, and no other counters.

    What is said and what is replied goes to `journal` at once.
    """

    def __init__(self, setup: Setup, journal: Journal | None = None) -> None:
        self.setup = setup
        self.usual_system = setup.system
        """The system prompt that a new chat begins with."""
        self.journal = journal or Journal(None)
        self._model: Literal["no model", "loading", "ready", "failed"] = "loading" if setup.model else "no model"
        # Apart from the model's state: a reply that a reload stops still has to say how it ended.
        self._reply: Literal["", "reading", "writing"] = ""
        self._dropped = False
        self.prompt: Prompt | None = None
        self.first_token_s: float | None = None
        self.target: ModelInfo | None = None
        self.draft: ModelInfo | None = None
        self.devices: tuple[Device, ...] = ()
        self.waiting: list[str] = []
        """Prompts that are sent, one after the other, as soon as the engine is free."""
        self.without_draft = False
        """The last loading failed because of the draft; the target alone would load."""
        self.draft_problem = ""
        """Why the draft could not be loaded, while the target goes on alone."""
        self.draft_failed = False
        """The draft model failed in this reply."""
        self.comparison: Comparison | None = None
        """The last reply's plain decoding."""
        self.stopped = False
        """A person stopped the loading: that it failed is no error."""
        self._loads = 0
        self.clear()

    def clear(self) -> None:
        """Begin a new chat; the models stay as they are. What is still to come of a reply in progress is dropped."""
        if self.comparing:
            self._reply = "writing"  # and so it is until the engine has ended it
        self._dropped = self.replying
        self.comparison = None
        self.journal.clear()
        self.messages: list[Message] = []
        self.chat = Statistics()
        self.context: int | None = None
        self._unanswered: Message | None = None
        self.setup = replace(self.setup, system=self.usual_system)
        self._answers: dict[int, Answer] = {}  # how each reply came about, by its place in the conversation
        self._asked: Setup | None = None
        self._begin()

    def resume(self, conversation: Conversation) -> None:
        """Go on with a conversation that was kept. A last prompt without an answer can be asked again."""
        self.clear()
        self.setup = replace(self.setup, system=conversation.system)
        for place, message in enumerate(conversation.messages):
            self.messages.append(Message(message.role, message.text))
            if message.reply is not None:
                setup = None if message.reply.mixed else message.reply.setup
                self._answers[place] = Answer(setup, message.reply.stop)
            for round in message.reply.rounds if message.reply else ():
                self.chat.add(round)
        if self.messages and self.messages[-1] == Message("assistant", ""):
            self.messages.pop()
        if self.messages and self.messages[-1].role == "user":
            self._unanswered = self.messages.pop()
        if self.messages and (last := conversation.messages[len(self.messages) - 1].reply) is not None:
            self._look_back(last.rounds)
            self.first_token_s = last.first_token_s
        self.journal.resume(conversation)
        self.journal.cut(len(self.messages))

    @property
    def state(self) -> State:
        """What is going on."""
        if self._model != "ready":
            return self._model
        return "comparing" if self.comparing else self._reply or "ready"

    @property
    def replying(self) -> bool:
        """A reply is being prepared or written, to be kept or to be compared."""
        return self._reply != "" or self.comparing

    @property
    def comparing(self) -> bool:
        """The last prompt is being decoded again, plainly."""
        return self.comparison is not None and self.comparison.running

    @property
    def unanswered(self) -> bool:
        """The last prompt got no reply, and can be asked again."""
        return self._unanswered is not None

    @property
    def n_ctx(self) -> int | None:
        """Tokens that the target's context holds."""
        return self.target.n_ctx if self.target else None

    @property
    def name(self) -> str:
        """What the target is called: its file's name."""
        return short_name(self.setup.model)

    @property
    def _last(self) -> Answer | None:
        """How the last reply came about; None if the last prompt has none."""
        return self._answers.get(len(self.messages) - 1) if self._unanswered is None else None

    def set_system(self, text: str) -> None:
        """Give this conversation another system prompt, from the next reply on."""
        self.setup = replace(self.setup, system=text)
        self.journal.set_system(text)

    def load(self, setup: Setup) -> None:
        """Note that these models are being loaded."""
        if setup.model != self.setup.model:
            self.draft_problem = ""
        self.setup = setup
        self._model = "loading"
        self._loads += 1
        self.without_draft = self.stopped = False

    def hold(self) -> None:
        """Note that nothing is loaded until a person says so."""
        self._model = "failed"

    def stop(self) -> None:
        """Note that what goes on is being stopped."""
        self.stopped = self._model == "loading"

    def ask(self, text: str) -> tuple[Message, ...]:
        """Add a prompt; returns the conversation to answer. It is on disk by then."""
        self._say(Message("user", text))
        return self._conversation()

    def regenerate(self) -> tuple[Message, ...] | None:
        """Take the last reply back; returns the conversation to answer once more, or None if nothing was asked."""
        if self._unanswered is not None:
            self._say(self._unanswered)
        elif self.messages:
            self.messages.pop()
            self.journal.cut(len(self.messages))
        else:
            return None
        self.comparison = None
        return self._conversation()

    def cut(self, length: int, rounds: Iterable[Round] = ()) -> None:
        """Go back to the first so many messages, of which the last had these rounds. What was said after stays on disk."""
        self._look_back(rounds)
        del self.messages[length:]
        self._unanswered = self.comparison = None
        self.journal.cut(length)

    @property
    def can_go_on(self) -> bool:
        """The last reply was not ended by the model, and there is room for more of it."""
        whole = (StopReason.EOS.value, StopReason.CONTEXT.value)
        return self.state == "ready" and self._last is not None and self._last.stop not in whole

    def go_on(self) -> tuple[Message, ...]:
        """Take the last reply up where it was stopped; returns the conversation, which ends with what there is of it."""
        messages = (*self._system(), *self.messages)
        # What one set-up began and another ended can be compared under neither.
        self._asked = None if self.answered_otherwise else self.setup
        self._begin()
        self._before = self.messages.pop().content
        self.journal.continue_reply(otherwise=self._asked is None)
        self._reply = "reading"
        return messages

    @property
    def answered_otherwise(self) -> bool:
        """Plain decoding under the set-up of now is not that of the last reply: times and texts would differ for that."""
        last = self._last
        return last is not None and (last.setup is None or not decodes_alike(last.setup, self.setup))

    def compare(self, rounds: Sequence[Round]) -> tuple[Message, ...] | None:
        """Begin to compare the last reply, which had these rounds, with its plain decoding; returns what to answer, or None
        where there is no such reply or it was `answered_otherwise`."""
        if self.state != "ready" or not rounds or self._last is None or self.answered_otherwise:
            return None
        self.comparison = Comparison(rounds)
        return (*self._system(), *self.messages[:-1])

    def take(self, event: Event) -> bool:
        """Bring the figures up to date with an event. False: it is the comparison's, or of what nobody waits for any more."""
        if self.comparison is not None and self.comparison.take(event):
            return False
        if self._dropped and isinstance(event, Prompt | RoundDone | Finished | Failed):
            if isinstance(event, Finished | Failed):
                self._reply = ""
                self._dropped = False
            return False
        if isinstance(event, Loaded | LoadFailed):
            self._loads = max(0, self._loads - 1)
            if self._loads:  # these models are not wanted any more: others were asked for
                return False
        match event:
            case Loading():
                self._model = "loading"
            case Loaded(setup=setup, target=target, draft=draft, devices=devices):
                self._model = "ready"
                # The system prompt is the conversation's, which may be another one by now.
                self.setup = replace(setup, system=self.setup.system)
                self.target, self.draft, self.devices = target, draft, devices
                self.context = None
                self.draft_problem = "" if draft else self.draft_problem
            case LoadFailed(message=message, without_draft=without_draft):
                self._model = "failed"
                self.target = self.draft = self.context = None
                self.without_draft = without_draft
                self.draft_problem = message if without_draft else ""
            case Notice(draft_failed=True):
                self.draft_failed = True
            case Devices(devices=devices):
                self.devices = devices
            case Prompt(thinking=thinking):
                self.prompt = event
                self.context = event.done
                if thinking:
                    self.journal.begin_thinking()
            case RoundDone(round=round, context=context):
                self._take_round(round)
                self.context = context
            case Finished(reason=reason, text=text, time_to_first_token_s=first_token_s):
                self.first_token_s = first_token_s
                self._end(text, reason.value, event)
            case Failed():
                self._end(self._text.decode(), FAILED)
        return True

    def figures(self) -> Figures:
        """The figures of this moment."""
        live = self.state == "writing"
        return Figures(
            reply=self.statistics,
            chat=self.chat,
            origins=self.origins,
            sources=self.sources,
            rounds=tuple(self.rounds),
            speed=Statistics.of(self._latest()).tokens_per_s if live else self.statistics.tokens_per_s,
            live=live,
            state=self.state,
            prompt=self.prompt,
            first_token_s=self.first_token_s,
            context=self.context,
            n_ctx=self.n_ctx,
            has_draft=self.draft is not None,
            translated=self.draft is not None and self.draft.translated,
            draft_failed=self.draft_failed,
            draft_problem=self.draft_problem,
        )

    def _begin(self) -> None:
        self.statistics = Statistics()
        self.draft_failed = False
        self.origins: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.rounds: deque[Round] = deque(maxlen=256)
        self.prompt = None
        self.first_token_s = None
        self._text = bytearray()  # of the reply so far, in UTF-8: a string for each token would take ten times as much
        self._before = ""  # what a reply that is gone on with had already

    def _look_back(self, rounds: Iterable[Round]) -> None:
        """Have the figures of an earlier reply, now the last."""
        self._begin()
        self.context = None
        for round in rounds:
            self._count(round)

    def _count(self, round: Round) -> None:
        self.statistics.add(round)
        self.rounds.append(round)
        self.origins.update(token.origin for token in round.tokens)
        self.sources.update(token.source for token in round.tokens if token.source)

    def _say(self, prompt: Message) -> None:
        self.messages.append(prompt)
        self.journal.prompt(prompt.content, self.setup.system, self.name)

    def _conversation(self) -> tuple[Message, ...]:
        self._begin()
        self.journal.begin_reply(self.setup)
        self._unanswered = None
        self._asked = self.setup
        self._reply = "reading"
        return (*self._system(), *self.messages)

    def _system(self) -> tuple[Message, ...]:
        return (Message("system", self.setup.system),) if self.setup.system else ()

    def _take_round(self, round: Round) -> None:
        if self.first_token_s is None and self.prompt is not None:
            self.first_token_s = self.prompt.seconds + round.seconds  # until Finished brings the measured one
        self._reply = "writing"
        self.journal.add_round(round)
        self.chat.add(round)
        self._count(round)
        self._text += "".join(token.text for token in round.tokens).encode()

    def _end(self, text: str, stop: str, finished: Finished | None = None) -> None:
        self._reply = ""
        text = self._before + text
        self.journal.end_reply(stop, finished, kept=bool(text))
        if text:
            self._answers[len(self.messages)] = Answer(self._asked, stop)
            self.messages.append(Message("assistant", text))
        elif self.messages:
            # A prompt without an answer must not stay: templates want turns, and one that was too long would fail each
            # later one too. It can be asked again.
            self._unanswered = self.messages.pop()
            self.journal.cut(len(self.messages))

    def _latest(self) -> Iterable[Round]:
        seconds = 0.0
        for round in reversed(self.rounds):
            yield round
            seconds += round.seconds
            if seconds >= LIVE_SECONDS:
                return


def short_name(path: str | None) -> str:
    """A model file's name as a person says it, safe to show."""
    return printable(Path(path).name.removesuffix(".gguf")) if path else ""


def note_of(reason: StopReason, n_ctx: int | None, new_chat: str) -> str:
    """What stands under a reply that ended for this reason; nothing if the model ended it. `new_chat` is what starts one."""
    if reason is StopReason.CANCELLED:
        return "stopped"
    if reason is StopReason.LIMIT:
        return "the limit of -n/--predict is reached"
    if reason is StopReason.CONTEXT:
        full = f"the context of {n_ctx} tokens is full" if n_ctx else "the context is full"
        return f"{full}: {new_chat} starts a new chat, -c/--ctx-size sets a larger one"
    return ""
