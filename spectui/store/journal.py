"""The open conversation on disk: the chat passes messages and rounds to the journal, and the writer writes them.

Belongs to the UI thread, but for `hear`. Nothing here touches the disk, and nothing but `flush` and `close` waits for the
writer.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from spectui.engine.events import Event, Failed, Finished, RoundDone
from spectui.knobs import Setup
from spectui.speculation.records import Round
from spectui.store.pending import ConversationRow, PendingConversation, PendingMessage, ReplyRow, setup_json, storable
from spectui.store.records import FAILED, StoredConversation
from spectui.store.rounds.packed import PackedRounds
from spectui.store.writer import Writer

SLOW_PROMPT_S = 0.25
"""A prompt that is not on disk after this time is reported: a commit takes a millisecond."""

FLUSH_WAIT_S = 2.0

TITLE = 60
"""Characters of a title."""

_SLOW = "The disk is slow: this prompt may be lost if spectui ends now."


Given = ParamSpec("Given")
Result = TypeVar("Result")


def _alone(method: Callable[Concatenate[Journal, Given], Result]) -> Callable[Concatenate[Journal, Given], Result]:
    """The method, while no other thread is in one of these."""

    def locked(journal: Journal, /, *given: Given.args, **named: Given.kwargs) -> Result:
        with journal._lock:
            return method(journal, *given, **named)

    return locked


class Journal:
    """Writes one conversation after the other. Without a file nothing is saved.

    A reply is written as soon as it has text, and then the conversation is opened at it the next time. A prompt is written at
    once, or, where it takes the place of another one, with the text of its reply.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._writer = Writer(file) if file is not None else None
        self._silent: deque[str] = deque()
        self._pending: PendingConversation | None = None
        self._reply: PendingMessage | None = None
        self._held: list[
            PendingMessage
        ] = []  # the reply in progress while it has no text, and a prompt that waits for that
        self._prompt: tuple[threading.Event, float] | None = None  # set when it is on disk; when it should be
        self.at: int | None = None
        """The id of the message that the next one follows; None: it is the first."""
        self._asked: deque[PendingMessage | None] = (
            deque()
        )  # what the engine writes now and next; None: not to be saved
        self._lock = threading.RLock()  # the engine's thread may write down that a reply has text

    @property
    def notices(self) -> deque[str]:
        """Sentences for the person, oldest first; the code that shows one takes it out."""
        if self._prompt is not None and self._writer is not None:
            written, due = self._prompt
            is_late = not written.is_set() and time.monotonic() >= due
            if is_late and not self._writer.failing:  # a failure has a notice of its own
                self._writer.notices.append(_SLOW)
            if is_late or written.is_set():
                self._prompt = None
        return self._writer.notices if self._writer is not None else self._silent

    @property
    def conversation(self) -> str:
        """The id of the conversation that goes on; "" before its first prompt, and without a file."""
        return self._pending.row.id if self._pending is not None and self._writer is not None else ""

    @property
    def rounds(self) -> PackedRounds | None:
        """All rounds of the reply in progress, to which the journal appends; None if there is none."""
        return self._reply.rounds if self._reply is not None else None

    def expect(self, *, saved: bool = True) -> None:
        """The engine is asked to answer: by the reply in progress, or by text that is not `saved`."""
        self._asked.append(self._reply if saved else None)

    def hear(self, event: Event) -> None:
        """Save what the engine says before the window takes it, which may be long after: call it in the engine's thread."""
        if self._asked and isinstance(event, RoundDone | Finished | Failed):
            self._hear(event)

    @_alone
    def _hear(self, event: RoundDone | Finished | Failed) -> None:
        message = self._asked[0]
        if not isinstance(event, RoundDone):
            self._asked.popleft()
        if message is None or message is not self._reply or self._writer is None:
            return
        if isinstance(event, RoundDone):
            message.hear(event.round)
            self._grow(event.round)
        elif not self._held:
            self._note_end(message, event.reason.value if isinstance(event, Finished) else FAILED, event)
            self._save()

    def flush(self) -> None:
        """Wait, at most `FLUSH_WAIT_S` seconds, until the conversation so far is on disk. Call it from a worker thread."""
        if self._writer is not None:
            self._writer.request().wait(FLUSH_WAIT_S)

    @_alone
    def clear(self) -> None:
        """A new conversation begins with the next prompt. The writer forgets this one as soon as it is on disk."""
        self.end_reply("cancelled")
        if self._pending is not None:
            self._pending.closed = True
            self._save()
        self._pending = self.at = None

    @_alone
    def resume(self, conversation: StoredConversation) -> None:
        """Go on with a conversation that was read from the disk."""
        self.clear()
        self._begin(
            PendingConversation.of(conversation, self._writer.file_number if self._writer is not None else None)
        )
        self.at = conversation.messages[-1].id if conversation.messages else None

    @property
    def title(self) -> str:
        """The conversation's title, as it was when it was begun or opened; "" before a prompt."""
        return self._pending.row.title if self._pending is not None else ""

    @_alone
    def save_head(self, message: int | None) -> None:
        """The conversation is opened the next time at the message of this id, unless that waits for its text."""
        pending = self._pending
        if pending is not None and message is not None and message != pending.row.head and pending.find(message):
            pending.row = pending.row._replace(head=message)
            self._save()

    @_alone
    def set_system(self, text: str) -> None:
        """The conversation has another system prompt from here on."""
        if self._pending is not None:
            self._pending.row = self._pending.row._replace(system=storable(text))
            self._save()

    @_alone
    def prompt(
        self, text: str, system: str, target: str, *, instead: bool = False, created: float | None = None
    ) -> int:
        """A person has sent a prompt. It is written at once; if the disk is slow or fails, a notice says so. `instead`: it
        takes the place of another one, and is written with its reply. `created`: when; None: now. Returns its id."""
        now = time.time() if created is None else created
        message = PendingMessage(_new_id(), self.at, "user", text, now)
        system, target = storable(system), storable(target)
        self.at = message.id
        if self._pending is None:
            row = ConversationRow(os.urandom(8).hex(), _title(text), now, now, system, target, message.id)
            self._begin(PendingConversation(row, [message]))
        else:
            self._pending.row = self._pending.row._replace(system=system, target=target)
            if instead:
                self._held = [message]
                return message.id
            self._add(self._pending, message)
        if self._writer is not None:
            self._prompt = self._writer.request(), time.monotonic() + SLOW_PROMPT_S
        return message.id

    def save_prompt(self, typed: str) -> None:
        """Store a typed prompt, which the arrow keys bring back in later chats."""
        if self._writer is not None:
            self._writer.save_prompt(typed)

    def save_unsent(self, text: str) -> None:
        """Store the text that is being written, for the next start; "" deletes the one before."""
        if self._writer is not None:
            self._writer.save_unsent(text)

    @_alone
    def begin_reply(self, setup: Setup, dropped: int = 0) -> int:
        """A reply to the message `at` begins, by these models. `dropped`: as in `records.Reply`. Returns its id."""
        self._reply = PendingMessage(
            _new_id(), self.at, "assistant", "", time.time(), ReplyRow(setup_json(setup), dropped=dropped)
        )
        self._held.append(self._reply)
        return self._reply.id

    def _write_held(self) -> None:
        """The reply in progress has text."""
        if self._pending is not None:
            for message in self._held:
                self._add(self._pending, message)
            self._held = []
            self._save()

    @_alone
    def begin_thinking(self) -> None:
        """The prompt has opened the model's thinking. To say it again changes nothing."""
        if self._reply is not None and self._reply.reply is not None and not self._reply.reply.thinking:
            self._reply.reply = self._reply.reply._replace(thinking=True)
            self._save()

    @_alone
    def set_dropped(self, reply: int, number: int) -> None:
        """Prompts leave out the first `number` messages, behind the reply of this id and in the reply in progress."""
        if self._pending is not None:
            for message in (self._pending.find(reply), self._reply):
                if message is not None and message.reply is not None:
                    message.reply = message.reply._replace(dropped=number)
            self._save()

    @_alone
    def continue_reply(self, *, otherwise: bool = False) -> None:
        """The message `at`, a reply that was stopped, is continued; `otherwise`: under another set-up than it began with."""
        self._reply = self._pending.find(self.at) if self._pending is not None else None
        if self._reply is not None:
            row = self._reply.reply or ReplyRow(setup_json(Setup()))  # damage may have taken it
            self._reply.reply = row._replace(stop=None, mixed=row.mixed or otherwise)
            self._reply.numbered = self._reply.rounds[-1].index + 1 if self._reply.rounds else 0
            self._save()

    @_alone
    def add_round(self, round: Round) -> None:
        """The reply has grown by a round."""
        if self._reply is not None and not self._reply.take(round):
            self._grow(round)

    def _grow(self, round: Round) -> None:
        if self._held and any(token.text for token in round.tokens):
            self._write_held()
        if self._writer is not None:
            self._writer.add_tokens(len(round.tokens))

    @_alone
    def end_reply(self, stop: str = FAILED, finished: Finished | None = None, *, has_text: bool = False) -> None:
        """The reply has ended; `has_text`: so it is a message of the conversation. Nothing happens if none was begun."""
        if has_text:
            self._write_held()
        message, self._reply, self._held = self._reply, None, []
        if message is None or message.reply is None or self._pending is None:
            return
        message.take_early()  # of a reply that was left
        self._note_end(message, stop, finished)
        self._pending.row = self._pending.row._replace(updated=time.time())
        if has_text:
            self.at = message.id
        self._save()

    def _note_end(self, message: PendingMessage, stop: str, ended: Event | None) -> None:
        row = (message.reply or ReplyRow(setup_json(Setup())))._replace(stop=stop)
        if isinstance(ended, Finished) and row.prompt_tokens is None:  # of a continued reply those of its beginning
            figures = ended.prompt_tokens, ended.prompt_s, ended.time_to_first_token_s
            row = row._replace(prompt_tokens=figures[0], prompt_s=figures[1], first_token_s=figures[2])
        message.reply = row

    def close(self) -> str:
        """Write the rest, and end. May be called twice. Returns a sentence for the person if a part of the conversation is
        not on disk, else "".
        """
        return self._writer.close() if self._writer is not None else ""

    def _begin(self, pending: PendingConversation) -> None:
        self._pending = pending
        if self._writer is not None:
            self._writer.track(pending)

    def _add(self, pending: PendingConversation, message: PendingMessage) -> None:
        pending.messages.append(message)  # before the row that refers to it
        pending.row = pending.row._replace(updated=message.created, head=message.id)

    def _save(self) -> None:
        if self._writer is not None:
            self._writer.request()


def _new_id() -> int:
    """A message's id: a random number, so that the disk need not be read for the next one."""
    return int.from_bytes(os.urandom(8), "big") >> 2


def _title(text: str) -> str:
    """The first line of the first prompt, cut to length."""
    line = " ".join(storable(text).strip().partition("\n")[0].split())
    return line if len(line) <= TITLE else line[: TITLE - 1] + "…"
