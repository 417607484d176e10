"""`ChatSession`: a conversation and the actions on it, without a widget. The window and the plain chat show it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from spectui.chat import sentences
from spectui.chat.comparison import Comparison, OfComparison, decodes_alike
from spectui.chat.dropping import Dropped, OldestTurns, dropped, prompt_messages
from spectui.chat.figures.activity import Activity, State
from spectui.chat.figures.counts import RoundCounts
from spectui.chat.figures.records import Figures
from spectui.chat.history.conversation import CameBack, Conversation
from spectui.chat.history.conversations import StoredConversations
from spectui.chat.messages import ChatMessage, OpenedConversation, thinks
from spectui.chat.models import LoadedModels
from spectui.chat.user_knobs import UserKnobs
from spectui.engine.events import Event, Failed, Finished, Loaded, Message, Prompt, RoundDone, Terms
from spectui.engine.protocol import Engine, also
from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import Round, StopReason
from spectui.store.journal import Journal
from spectui.store.records import FAILED, StoredConversation, unknown_reply
from spectui.store.recovery.crash import Crash


def refuse(reason: str) -> None:
    """Raise UsageError unless the reason is ""."""
    if reason:
        raise UsageError(reason)


class ChatSession:
    """Holds one conversation at a time over one engine. Use it in one thread.

    A front end calls `drain` some thirty times a second, shows the events that it gives, and listens to `conversation`.
    Prompts and replies go to `journal` at once. `offer` is the conversation that a `crash` ended.
    """

    def __init__(
        self,
        engine: Engine,
        setup: Setup,
        journal: Journal | None = None,
        *,
        crash: Crash | None = None,
        offer: StoredConversation | None = None,
    ) -> None:
        self.engine = engine
        self.journal = journal or Journal(None)
        self.conversation = Conversation(setup.system)
        self.stored = StoredConversations(self.journal)
        self.activity = Activity("loading" if setup.model else "no model")
        self.user_knobs = UserKnobs(engine)
        self.models = LoadedModels(engine, setup, self.activity, crash)
        self.oldest = OldestTurns(self.conversation, self.journal)
        self.offer = offer
        self.comparison: Comparison | None = None
        """The comparison of the last reply with plain decoding."""
        self._figures = Figures()
        self.typed = 0
        """Tokens of the prompt that is being written; 0 where that is not known."""
        self.held = False
        """Prompts wait although the engine may be free: another conversation is being read."""
        self._waiting: list[str] = []
        self.writing: ChatMessage | None = None
        """The reply in progress."""
        self._asked: deque[ChatMessage | None] = deque()  # what the engine writes now and next; None: nothing to keep
        self._came_back: CameBack | None = None
        self.conversation.listen(self._changed)
        engine.listen = also(engine.listen, self._hear)

    def close(self) -> None:
        """Close the engine, save the text of a reply in progress, and close the journal."""
        self.engine.close()
        deque(self.drain(), maxlen=0)
        self.journal.close()

    def _changed(self, same: int) -> None:
        """The conversation has changed behind its first `same` messages: the journal and the figures follow."""
        head = self.conversation.head
        self.journal.save_head(head)
        self._figures.show(head)
        self.comparison = None

    # What is going on

    @property
    def state(self) -> State:
        """What is going on."""
        return self.activity.now

    @property
    def replying(self) -> bool:
        """A reply is being prepared or written, or compared."""
        return self.writing is not None or self.state in ("comparing", "leaving")

    @property
    def busy_reason(self) -> str:
        """Why the engine cannot answer just now; "" if it is free."""
        return sentences.busy_reason(self.state)

    @property
    def no_change(self) -> str:
        """Why the conversation cannot be edited or cut just now; "" where it can."""
        return self.busy_reason if self.replying else "{stop} first removes the waiting prompt." if self._waiting else ""

    @property
    def messages(self) -> list[ChatMessage]:
        """The messages that are read, with the reply in progress."""
        return self.conversation.path

    @property
    def last_reply(self) -> ChatMessage | None:
        """The reply to the last prompt; None while there is none."""
        head = self.conversation.head
        return head if head is not None and head.role == "assistant" and self.writing is None else None

    @property
    def waiting(self) -> tuple[str, ...]:
        """Prompts that are sent, one after the other, when the engine is free."""
        return tuple(self._waiting)

    # Models and knobs

    @property
    def setup(self) -> Setup:
        """The models' set-up, with the conversation's system prompt."""
        return replace(self.models.setup, system=self.conversation.system)

    @property
    def name(self) -> str:
        """The target's name: its file's name."""
        return sentences.short_name(self.models.setup.model)

    @property
    def knobs(self) -> Knobs:
        """The knobs as a person has them."""
        return self.user_knobs.now

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        self.user_knobs.now = knobs

    def set_system(self, text: str) -> None:
        """Give this conversation another system prompt, from the next reply on."""
        self.conversation.system = text
        self.journal.change(system=text)

    # What is asked of the engine

    def send(self, text: str) -> None:
        """Send a prompt. It is written to the journal first. If a message is being edited, the prompt takes its place when its
        reply has text."""
        talk, edited = self.conversation, self.conversation.editing
        behind = talk.path[edited].parent if edited is not None else talk.head
        prompt = ChatMessage("user", text, parent=behind)
        self.journal.prompt(prompt, talk.system, self.name, instead=edited is not None)
        self._begin_reply(prompt, new=True, instead=edited is not None)

    def submit(self, text: str) -> bool:
        """Send a prompt, or have it wait until the engine is free. Returns whether it was sent."""
        self._waiting.append(text)
        return self.send_waiting()

    def take_back_waiting(self) -> str:
        """The prompts that wait, as one text; they are not sent any more."""
        text = "\n".join(self._waiting)
        self._waiting.clear()
        return text

    def send_waiting(self) -> bool:
        """Send the first waiting prompt if the engine is free. Returns whether one was sent."""
        if self.held or self.state != "ready" or not self._waiting:
            return False
        self.send(self._waiting.pop(0))
        return True

    def regenerate(self) -> None:
        """Answer the last prompt again. The reply before stays until the new one has text. Raises UsageError."""
        reply = self.last_reply
        prompt = reply.parent if reply is not None else self.conversation.head
        refuse(self.busy_reason)
        if prompt is None:
            raise UsageError("There is no prompt to answer again.")
        self._begin_reply(prompt, new=False, instead=reply is not None)

    @property
    def can_continue(self) -> bool:
        """The model did not end the last reply. Without room in the context, a continuation ends at once."""
        last = self.last_reply
        return self.state == "ready" and last is not None and bool(last.rounds) and not last.complete

    def continue_reply(self, *, otherwise: bool = False) -> None:
        """Decode the rest of the last reply, if `can_continue`; `otherwise`: from another prompt. Round numbers go on."""
        otherwise = otherwise or self.setup_changed
        message = self.messages[-1]
        begun = message.begun(same_model=message.reply.setup.model == self.setup.model)
        self.journal.continue_reply(message, otherwise=otherwise)
        self.writing, self.comparison = message, None
        self._begin(message, begun)

    def stop(self) -> None:
        """End the reply, the comparison or the loading."""
        self.models.stopped = self.state == "loading"
        self.engine.stop()

    def take_back(self) -> CameBack | None:
        """The reply in place of another that has ended without text since the last call; None if there is none."""
        came_back, self._came_back = self._came_back, None
        return came_back

    # The conversation as a whole

    def new_chat(self) -> None:
        """Begin a new conversation; the models stay. Stops a reply in progress and drops its remaining events. Where nothing is
        saved on disk, `undo` turns back to the one before."""
        self._leave()
        if self.stored.saved:
            self.journal.clear()
            self.conversation.begin((), self.models.setup.system)
            return
        if self.messages:
            self.conversation.leave()
        self.conversation.system = self.models.setup.system

    def resume(self, opened: OpenedConversation) -> None:
        """Continue a stored conversation. A last prompt without an answer can be asked again."""
        self._leave(opened.figures)
        self.journal.resume(opened.conversation, (*opened.messages, *opened.others))
        self.conversation.begin(opened.messages, opened.conversation.system, opened.others)

    def _leave(self, figures: RoundCounts | None = None) -> None:
        """Leave the conversation for one with these figures."""
        # A load in progress has stopped the reply already; another stop would end the load.
        answering = self.state in ("reading", "writing", "comparing")
        if self.writing is not None:
            self._end_reply(StopReason.CANCELLED.value)
        if answering:
            self.engine.stop()
            self.activity.now = "leaving"
        self.user_knobs.restore()
        self.comparison = self._came_back = None
        self._figures = Figures(chat=figures or RoundCounts.of_conversation())

    def leave(self, identity: str) -> bool:
        """Forget the conversation of this id: it is deleted. A new chat begins if it is open; returns whether it was."""
        self.engine.forget()
        is_open = self.stored.is_open(identity)
        if is_open:
            self.new_chat()
        return is_open

    def take_offer(self) -> StoredConversation | None:
        """The conversation that a crash ended; None at the second call."""
        offer, self.offer = self.offer, None
        return offer

    # Comparison with plain decoding

    @property
    def setup_changed(self) -> bool:
        """The set-up changed since the last reply began, so a comparison with it would be wrong."""
        if (last := self.last_reply) is None:
            return False
        return last.reply.mixed or not decodes_alike(last.reply.setup, self.setup)

    def compare(self) -> Comparison:
        """Decode the last prompt again without drafts, with the knobs of the last reply. Those that a person turns meanwhile
        take effect afterwards. Raises UsageError."""
        reply, fixed = self.last_reply, self.models.fixed.get("drafter")
        refuse(self.busy_reason or (sentences.SETUP_CHANGED if self.setup_changed else ""))
        refuse(f"To compare, drafts must be switched off. {fixed.sentence}" if fixed is not None else "")
        if reply is None or not reply.rounds:
            raise UsageError("There is no finished reply to compare.")
        comparison = Comparison(reply.rounds, reply.figures, strict=self.setup.strict == "on")
        self.comparison = comparison
        self.user_knobs.override(comparison.knobs)
        self.activity.now = "comparing"
        self.ask(reply)
        return comparison

    # Events of the engine

    def drain(self) -> Iterator[Event | OfComparison | Dropped]:
        """Take the engine's events since the last call; gives those to show, in order."""
        while self.engine.events:
            if (shown := self.take(self.engine.events.popleft())) is not None:
                yield shown

    def _hear(self, event: Event) -> None:
        """Have a reply's event written, in the engine's thread: nothing that was said waits for the window."""
        if self._asked and isinstance(event, RoundDone | Finished | Failed):
            reply = self._asked[0] if isinstance(event, RoundDone) else self._asked.popleft()
            if reply is not None:
                self.journal.hear(reply, event)

    def take(self, event: Event) -> Event | OfComparison | Dropped | None:
        """Update the session with an event. Returns the event to show, or None if there is nothing to show."""
        if self.comparison is not None and self.comparison.take(event):
            if not self.comparison.running:
                self.activity.end()
                self.user_knobs.restore()
            return OfComparison(event)
        if isinstance(event, Prompt | RoundDone | Finished | Failed) and self.writing is None:
            if isinstance(event, Finished | Failed):
                self.activity.end()
            return None  # of a conversation that was left
        if not self.models.take(event):
            return None
        if isinstance(event, Loaded):
            self.user_knobs.recommend(event.sampling)
        if isinstance(event, RoundDone) and self.writing is not None:
            event = event._replace(round=self._take_round(event.round, self.writing))
        self._figures.take(event)
        to_drop = self.oldest.to_drop(event, self.knobs)
        if isinstance(event, Finished):
            self._end_reply(event.reason.value, event)
        elif isinstance(event, Failed) and not to_drop:
            self._end_reply(FAILED)
        if not to_drop:
            return event
        told = self.oldest.drop(to_drop)
        if self.writing is None:
            self.continue_reply(otherwise=True)
        else:
            self.ask(self.writing)
        return told

    def figures(self) -> Figures:
        """The figures of this moment."""
        compared = self.comparison if self.state == "ready" else None
        return self._figures.now(self.state, self.models, compared.measured if compared is not None else None, self.typed)

    def ask(self, reply: ChatMessage, begun: Message | None = None) -> None:
        """Have the engine write this reply, to the messages before it, or go on with it where it is `begun`. The template
        writes the time of the prompt, whenever that is answered, so that it is the same prompt each time."""
        talk, line = self.conversation, reply.line
        whole = (*prompt_messages(talk.system, line)[:-1], begun) if begun else prompt_messages(talk.system, line[:-1])
        self._asked.append(reply if reply is self.writing else None)
        self.engine.generate(whole, Terms(reply.parent.created or None if reply.parent else None, grammar=reply.reply.grammar))

    def _begin_reply(self, prompt: ChatMessage, *, new: bool, instead: bool) -> None:
        """Begin a reply to a prompt, which is `new` in the conversation or was there. `instead`: of another reply."""
        left_out = dropped(prompt.line)
        made = unknown_reply()._replace(setup=self.setup, dropped=left_out, grammar=self.user_knobs.schema[1])
        reply = ChatMessage("assistant", "", parent=prompt, reply=made)
        self.journal.begin_reply(reply)
        self.writing = reply
        (self.conversation.begin_attempt if instead else self.conversation.add)([prompt, reply] if new else [reply])
        self._begin(reply)

    def _begin(self, reply: ChatMessage, begun: Message | None = None) -> None:
        self._figures.show(reply)
        self.activity.now = "reading"
        self.ask(reply, begun)

    def _take_round(self, round: Round, reply: ChatMessage) -> Round:
        if self.state == "reading":
            self.activity.now = "writing"
        reply.rounds.settle()
        if not thinks(reply):
            self.user_knobs.restore()
        if self.conversation.attempt and reply.content:
            self.conversation.keep_attempt()
        return self.journal.numbered(round)

    def _end_reply(self, stop: str, finished: Finished | None = None) -> None:
        assert self.writing is not None  # other replies' events are dropped
        reply, self.writing = self.writing, None
        self.user_knobs.restore()
        self.oldest.wanted = False
        self.activity.end()
        self.journal.end_reply(stop, finished, self._figures.first_token_s)
        if reply.content:
            if self.conversation.attempt:  # its first text came and was not taken yet
                self.conversation.keep_attempt()
            return
        if self.conversation.attempt:
            self._came_back = self.conversation.leave_attempt()
        else:  # the prompt can be asked again, or goes with the next one
            self.conversation.remove(reply)
