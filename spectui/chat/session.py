"""`ChatSession`: a conversation and the actions on it, without a widget. The window and the plain chat show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spectui.chat import sentences
from spectui.chat.comparison import Comparison, OfComparison, decodes_alike
from spectui.chat.dropping import Dropped, OldestTurns, dropped, prompt_messages
from spectui.chat.figures.records import Figures
from spectui.chat.figures.running import RunningFigures
from spectui.chat.history.conversations import Deletion
from spectui.chat.history.open_conversation import OpenConversation
from spectui.chat.history.tree import MessageTree
from spectui.chat.messages import ChatMessage, OpenedConversation
from spectui.chat.models import LoadedModels
from spectui.chat.reply import ReplyWriter
from spectui.chat.sentences import State
from spectui.chat.user_knobs import UserKnobs
from spectui.engine.events import Asked, Event, Failed, Finished, Message, Prompt, RoundDone
from spectui.engine.protocol import Engine
from spectui.knobs import Knobs, Setup
from spectui.store.journal import Journal
from spectui.store.records import FAILED, Conversation
from spectui.store.recovery.crash import Crash


class ChatSession(OpenConversation):
    """Holds one conversation at a time over one engine. Use it in one thread.

    A front end calls `drain` some thirty times a second and shows the events that it gives. Prompts and replies go to
    `journal` at once. `offer` is the conversation that a `crash` ended.
    """

    def __init__(
        self,
        engine: Engine,
        setup: Setup,
        journal: Journal | None = None,
        *,
        crash: Crash | None = None,
        offer: Conversation | None = None,
    ) -> None:
        super().__init__(journal or Journal(None))
        self.engine = engine
        self.user_knobs = UserKnobs(engine)
        self.models = LoadedModels(engine, setup, self.user_knobs, crash)
        self.oldest = OldestTurns(self)
        self.offer = offer
        self.usual_system = setup.system
        """The system prompt that a new chat begins with."""
        self._waiting: list[str] = []
        self._writer: ReplyWriter | None = None
        self._leaving = False  # a reply of an earlier conversation has not ended yet

    def close(self) -> None:
        """Close the engine, save the text of a reply in progress, and close the journal."""
        self.engine.close()
        for _ in self.drain():
            pass
        self.journal.close()

    # What is going on

    @property
    def state(self) -> State:
        """What is going on."""
        if self.models.state != "ready":
            return self.models.state
        if self.comparing:
            return "comparing"
        return self._writer.state if self._writer is not None else "writing" if self._leaving else "ready"

    @property
    def replying(self) -> bool:
        """A reply is being prepared or written, or compared."""
        return self._writer is not None or self._leaving or self.comparing

    @property
    def comparing(self) -> bool:
        """The last prompt is being decoded again without drafts."""
        return self.comparison is not None and self.comparison.running

    @property
    def busy_reason(self) -> str:
        """Why the engine cannot answer just now; "" if it is free."""
        return sentences.busy_reason(self.state)

    @property
    def no_change(self) -> str:
        """Why the conversation cannot be edited or cut just now; "" where it can."""
        if self.replying:
            return self.busy_reason
        return sentences.WAITING if self._waiting else ""

    @property
    def writing(self) -> ChatMessage | None:
        """The reply in progress."""
        return self._writer.message if self._writer is not None else None

    def messages_so_far(self) -> list[ChatMessage]:
        """The messages, and the reply in progress as far as it is written."""
        return [*self.messages, *([self._writer.so_far()] if self._writer is not None else [])]

    @property
    def last_reply(self) -> ChatMessage | None:
        """The reply to the last prompt; None while there is none."""
        return self.messages[-1] if self.messages and self._unanswered is None and self._writer is None else None

    @property
    def waiting(self) -> tuple[str, ...]:
        """Prompts that are sent, one after the other, when the engine is free."""
        return tuple(self._waiting)

    @property
    def title(self) -> str:
        """The conversation's title; "" before anything was said."""
        return self.journal.title

    # Models and knobs

    @property
    def setup(self) -> Setup:
        """The models' set-up, with the conversation's system prompt."""
        return self.models.setup

    @property
    def name(self) -> str:
        """The target's name: its file's name."""
        return sentences.short_name(self.setup.model)

    @property
    def knobs(self) -> Knobs:
        """The knobs as a person has them."""
        return self.user_knobs.now

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        self.user_knobs.now = knobs

    def set_system(self, text: str) -> None:
        """Give this conversation another system prompt, from the next reply on."""
        self._use_system(text)
        self.journal.set_system(text)

    def _use_system(self, text: str) -> None:
        self.models.setup = replace(self.setup, system=text)

    # What is asked of the engine

    def send(self, text: str) -> None:
        """Send a prompt. It is written to the journal first. If a message is being edited, the prompt takes its place, and the
        messages from there on come back if the reply ends without text."""
        instead_of = self.tree.head if self._editing is not None else None
        if self._editing is not None:
            self._turn(self.messages[self._editing].parent)
        prompt = ChatMessage("user", text)
        self.tree.add(prompt)
        prompt.id = self.journal.prompt(text, self.setup.system, self.name, instead=instead_of is not None)
        self._begin_reply(instead_of)

    def queue(self, text: str) -> None:
        """Send a prompt when the engine is free: at the next call of `send_waiting` then."""
        self._waiting.append(text)

    def take_back_waiting(self) -> str:
        """The prompts that wait, as one text; they are not sent any more."""
        text = "\n".join(self._waiting)
        self._waiting.clear()
        return text

    def send_waiting(self) -> str | None:
        """Send the first waiting prompt if the engine is free; returns the prompt."""
        if self.state != "ready" or not self._waiting:
            return None
        text = self._waiting.pop(0)
        self.send(text)
        return text

    @property
    def no_regenerating(self) -> str:
        """Why no prompt can be answered again just now; "" if one can."""
        return self.busy_reason or ("" if self.unanswered or self.messages else sentences.NOTHING_ASKED)

    def regenerate(self) -> None:
        """Answer the last prompt again. The reply before comes back if the new one ends without text. Call it only if
        `no_regenerating` is ""."""
        reply = self.tree.head if self.unanswered is None else None
        prompt = self.unanswered if reply is None else reply.parent
        self._turn(prompt)
        self._follow(prompt)
        self._begin_reply(reply)

    @property
    def can_continue(self) -> bool:
        """The model did not end the last reply. Without room in the context, a continuation ends at once."""
        last = self.last_reply
        return self.state == "ready" and last is not None and bool(last.rounds) and not last.complete

    def continue_reply(self, *, otherwise: bool = False) -> None:
        """Decode the rest of the last reply, `otherwise`: from another prompt than before. Call it only if `can_continue`.

        Round numbers continue from the stopped part.
        """
        otherwise = otherwise or self.setup_changed
        before = prompt_messages(self.setup.system, self.messages)[:-1]
        reply = self.messages[-1]
        begun = (
            reply.begun() if reply.setup is not None and reply.setup.model == self.setup.model else reply.for_engine()
        )
        reply.mixed = reply.mixed or otherwise
        self.journal.continue_reply(otherwise=otherwise)
        self.tree.turn(reply.parent)
        self._write(reply, (*before, begun))

    def stop(self) -> None:
        """End the reply, the comparison or the loading."""
        self.models.stopped = self.models.state == "loading"
        self.engine.stop()

    # The conversation as a whole

    def new_chat(self) -> None:
        """Begin a new conversation; the models stay. Stops a reply in progress and drops its remaining events."""
        # A load in progress has stopped the reply already; another stop would end the load.
        if self.state in ("reading", "writing", "comparing"):
            self.engine.stop()
        self.user_knobs.restore()
        self._leaving = self.replying
        self._writer = None
        self.journal.clear()
        self._begin(MessageTree(), RunningFigures())
        self._use_system(self.usual_system)

    def resume(self, opened: OpenedConversation) -> None:
        """Continue a stored conversation. A last prompt without an answer can be asked again."""
        self.new_chat()
        conversation = opened.conversation
        self._use_system(conversation.system)
        self.journal.resume(conversation)
        self._begin(MessageTree(opened.said()), RunningFigures(opened.figures))
        self._turn(self.tree.head)

    def delete(self, identity: str) -> Deletion:
        """Prepare to delete the conversation of this id. If it is the open one, a new chat begins."""
        left = self.stored.is_open(identity)
        if left:
            self.new_chat()
        return Deletion(left, lambda: self.stored.delete(identity))

    def take_offer(self) -> Conversation | None:
        """The conversation that a crash ended; None at the second call."""
        offer, self.offer = self.offer, None
        return offer

    # Comparison with plain decoding

    @property
    def setup_changed(self) -> bool:
        """The set-up changed since the last reply began, so a comparison with it would be wrong."""
        last = self.last_reply
        if last is None:
            return False
        return last.mixed or last.setup is None or not decodes_alike(last.setup, self.setup)

    @property
    def no_comparison(self) -> str:
        """Why the last reply cannot be compared just now; "" if it can."""
        if self.busy_reason:
            return self.busy_reason
        if self.setup_changed:
            return sentences.SETUP_CHANGED
        if (fixed := self.models.fixed.get("drafter")) is not None:
            return sentences.no_plain_decoding(fixed)
        return "" if self.last_reply and self.last_reply.rounds else sentences.NOTHING_TO_COMPARE

    def compare(self, comparison: Comparison) -> None:
        """Decode the last prompt again without drafts, with the knobs of the last reply.

        Knobs that a person turns meanwhile take effect afterwards.
        """
        comparison.strict = self.setup.strict == "on"
        self.comparison = comparison
        self.user_knobs.override(comparison.knobs)
        self.engine.generate(prompt_messages(self.setup.system, self.messages[:-1]))

    # Events of the engine

    def take_notices(self) -> Iterator[str]:
        """Take the sentences about the disk since the last call, oldest first."""
        notices = self.journal.notices
        while notices:
            yield notices.popleft()

    def drain(self) -> Iterator[Event | OfComparison | Dropped]:
        """Take the engine's events since the last call; gives those to show, in order."""
        while self.engine.events:
            shown = self.take(self.engine.events.popleft())
            if shown is not None:
                yield shown

    def take(self, event: Event) -> Event | OfComparison | Dropped | None:
        """Update the session with an event. Returns the event to show, or None if there is nothing to show."""
        if self.comparison is not None and self.comparison.take(event):
            if not self.comparison.running:
                self.user_knobs.restore()
            return OfComparison(event)
        if self._leaving and isinstance(event, Prompt | RoundDone | Finished | Failed):
            self._leaving = not isinstance(event, Finished | Failed)
            return None
        if not self.models.take(event):
            return None
        if isinstance(event, Asked):
            return None  # the session has asked it
        if isinstance(event, RoundDone) and self._writer is not None:
            event = event._replace(round=self._writer.add(event.round))
        self._figures.take(event)
        to_drop = self.oldest.to_drop(event)
        match event:
            case Prompt(thinking=True) if self._writer is not None:
                self._writer.begin_thinking()
            case Finished(reason=reason):
                self._end_reply(reason.value, event)
            case Failed() if not to_drop:
                self._end_reply(FAILED)
        return self.oldest.drop(to_drop) if to_drop else event

    def figures(self) -> Figures:
        """The figures of this moment."""
        return self._figures.now(self.state, self.models)

    def _begin_reply(self, instead_of: ChatMessage | None = None) -> None:
        """Begin the reply to the last message; `instead_of`: as in `ReplyWriter`."""
        self._unanswered = None
        left_out = dropped(self.messages)
        identity = self.journal.begin_reply(self.setup, left_out)
        reply = ChatMessage("assistant", "", identity, setup=self.setup, dropped=left_out)
        self._write(reply, prompt_messages(self.setup.system, self.messages), instead_of)

    def _write(
        self, reply: ChatMessage, conversation: tuple[Message, ...], instead_of: ChatMessage | None = None
    ) -> None:
        self._writer = ReplyWriter(reply, self.journal, instead_of)
        self._figures.begin_reply(reply)
        self.oldest.begin_reply()
        self.engine.generate(conversation)

    def _end_reply(self, stop: str, finished: Finished | None = None) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        writer.message.first_token_s = writer.message.first_token_s or self._figures.first_token_s
        prompt, before = self.tree.head, writer.instead_of
        if writer.end(stop, finished):
            self.tree.add(writer.message)
            if before is not None:
                self.tree.remember(before)
        elif before is not None:
            self._turn(before)
            if prompt is not None and prompt not in self.messages:
                self.tree.remove(prompt)
        elif prompt is not None:
            # A prompt without an answer must not stay: chat templates require turns, and a prompt that is too long would make
            # every later one fail. It can be asked again.
            self._follow(prompt.parent)
            self._unanswered = prompt
