"""The open conversation on disk: the chat tells the journal what is said, and the writer's thread writes it.

Belongs to the UI thread, but for what the engine's thread tells of a reply, with `lock` held. Nothing here touches the disk,
and nothing but `flush` and `close` waits for the writer.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui.engine.events import Failed, Finished, RoundDone
from spectui.speculation.records import Round
from spectui.store.records import FAILED, OpenMessage, Reply, StoredConversation, storable
from spectui.store.rows import ConversationLog
from spectui.store.writer import Writer

FLUSH_WAIT_S = 2.0

TITLE = 60
"""Characters of a title."""


class Journal:
    """Writes one conversation after the other. Without a file nothing is saved.

    A reply is written as soon as it has text, and then the conversation is opened at it the next time. A prompt is written at
    once, or, where it takes the place of another one, with the text of its reply.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.lock = threading.RLock()
        """Held while the conversation changes."""
        self.notices: deque[str] = deque()
        """Sentences for the person, oldest first; the code that shows one takes it out."""
        self._writer = Writer(file, self.notices) if file is not None else None
        self._log: ConversationLog | None = None
        self.writing: OpenMessage | None = None
        """The reply in progress."""
        self._rounds_before = 0  # those that it had before it was continued
        self._held: list[OpenMessage] = []  # it, while it has no text, behind a prompt that waits for that

    def take_notices(self) -> Iterator[str]:
        """Take the sentences since the last call, oldest first."""
        while self.notices:
            yield self.notices.popleft()

    @property
    def conversation(self) -> str:
        """The id of the conversation that goes on; "" before its first prompt, and without a file."""
        return self._log.conversation.id if self._log is not None and self._writer is not None else ""

    @property
    def title(self) -> str:
        """The conversation's title; "" before a prompt."""
        return self._log.conversation.title if self._log is not None else ""

    def snapshot(self, messages: Iterable[OpenMessage]) -> StoredConversation:
        """The conversation after its first prompt, as it is now, with these of its messages. Without a file it has no id."""
        assert self._log is not None
        said = tuple(message.stored() for message in messages)
        return self._log.conversation._replace(id=self.conversation, messages=said)

    def flush(self) -> None:
        """Wait, at most `FLUSH_WAIT_S` seconds, until the conversation so far is on disk. Call it from a worker thread."""
        if self._writer is not None:
            self._writer.request().wait(FLUSH_WAIT_S)

    def close(self) -> str:
        """Write the rest, and end. May be called twice. Returns a sentence for the person if a part of the conversation is
        not on disk, else "".
        """
        return self._writer.close() if self._writer is not None else ""

    # Conversations

    def clear(self) -> None:
        """A new conversation begins with the next prompt. The writer forgets this one as soon as it is on disk."""
        self.end_reply("cancelled")
        with self.lock:
            if self._log is not None:
                self._log.closed = True
                self._save()
            self._log = None

    def resume(self, conversation: StoredConversation, messages: Iterable[OpenMessage]) -> None:
        """Go on with a conversation that was read from the disk, with these messages of all its branches."""
        self.clear()
        saved_in = self._writer.file_number if self._writer is not None else None
        self._begin(ConversationLog(conversation, messages, self.lock, saved_in))

    def save_head(self, message: OpenMessage | None) -> None:
        """The conversation is opened the next time at this message, unless that waits for its text."""
        with self.lock:
            log = self._log
            if log is not None and message is not None and message.id != log.head and message.id in log.messages:
                log.change(head=message.id)
                self._save()

    def change(self, **changes: str) -> None:
        """The conversation has another `title`, or another `system` prompt from here on."""
        storables: dict[str, Any] = {name: storable(text) for name, text in changes.items()}
        with self.lock:
            if self._log is not None:
                self._log.change(**storables)
                self._save()

    # Prompts

    def prompt(self, message: OpenMessage, system: str, target: str, *, instead: bool = False) -> None:
        """A person has sent a prompt. It is written at once; if the disk fails, a notice says so. `instead`: it takes the place
        of another one, and is written with its reply."""
        message.content = storable(message.content)
        system, target = storable(system), storable(target)
        with self.lock:
            if (log := self._log) is None:
                made = message.created
                fields = os.urandom(8).hex(), _title(message.content), made, made, system, target
                log = self._begin(ConversationLog(StoredConversation(*fields, ()), (), self.lock))
            log.change(system=system, target=target)
            if instead:
                self._held = [message]
                return
            log.add(message)
        self._save()

    def save_prompt(self, typed: str) -> None:
        """Store a typed prompt, which the arrow keys bring back in later chats."""
        if self._writer is not None:
            self._writer.save_prompt(typed)

    def save_unsent(self, text: str) -> None:
        """Store the text that is being written, for the next start; "" deletes the one before."""
        if self._writer is not None:
            self._writer.save_unsent(text)

    # Replies

    def begin_reply(self, message: OpenMessage) -> None:
        """This reply begins."""
        with self.lock:
            self.writing, self._rounds_before = message, 0
            self._held.append(message)

    def continue_reply(self, message: OpenMessage, *, otherwise: bool = False) -> None:
        """A reply that was stopped is continued; `otherwise`: under another set-up than it began with."""
        with self.lock:
            self.writing = message
            self._rounds_before = message.rounds[-1].index + 1 if message.rounds else 0
            self._change(message, message.reply.continued(otherwise=otherwise))

    def set_dropped(self, replies: Iterable[OpenMessage], number: int) -> None:
        """Prompts leave out the first `number` messages, behind and in these replies."""
        with self.lock:
            for message in replies:
                self._change(message, message.reply._replace(dropped=number))

    def numbered(self, round: Round) -> Round:
        """The engine's round of the reply in progress, with its number within the whole of it."""
        if not self._rounds_before:
            return round
        tokens = tuple(token._replace(round=token.round + self._rounds_before) for token in round.tokens)
        return replace(round, index=round.index + self._rounds_before, tokens=tokens)

    def hear(self, message: OpenMessage, event: RoundDone | Finished | Failed) -> None:
        """Note what the engine says of a reply, in its thread, before the window takes it: that may be long after. What it says
        of a reply that was left is no part of it."""
        with self.lock:
            if message is not self.writing:
                return
            if isinstance(event, RoundDone):
                self.add_round(self.numbered(event.round))
            elif isinstance(event, Finished):
                self.note_end(event.reason.value, event)
            else:
                self.note_end(FAILED)

    def add_round(self, round: Round) -> None:
        """The reply has grown by a round."""
        with self.lock:
            if (message := self.writing) is None:
                return
            message.add(round)
            if self._log is not None and not self._held:
                self._log.note(message, len(message.rounds) - 1)
            elif self._log is not None and message.content:
                for waiting in self._held:
                    self._log.add(waiting)
                self._held = []
                self._save()
            if self._writer is not None:
                self._writer.add_tokens(len(round.tokens))

    def note_end(self, stop: str, finished: Finished | None = None) -> None:
        """The engine has ended the reply. Nothing happens where it has no text."""
        with self.lock:
            if self.writing is not None and not self._held:
                self._change(self.writing, self.writing.reply.ended(stop, finished))

    def end_reply(self, stop: str = FAILED, finished: Finished | None = None, first_token_s: float | None = None) -> None:
        """The reply has ended. Nothing happens if none was begun. `first_token_s`: until its first token, where the engine does
        not tell it."""
        with self.lock:
            if self.writing is None:
                return
            reply = self.writing.reply
            self.writing.reply = reply._replace(first_token_s=reply.first_token_s or first_token_s)
            self.note_end(stop, finished)
            self.writing, self._held = None, []
            if self._log is not None:
                self._log.change(updated=time.time())
                self._save()

    def _change(self, message: OpenMessage, reply: Reply) -> None:
        """The message was made so."""
        message.reply = reply
        if self._log is not None:
            self._log.note(message)
            self._save()

    def _begin(self, log: ConversationLog) -> ConversationLog:
        self._log = log
        if self._writer is not None:
            self._writer.track(log)
        return log

    def _save(self) -> None:
        if self._writer is not None:
            self._writer.request()


def _title(text: str) -> str:
    """The first line of the first prompt, cut to length."""
    line = " ".join(text.strip().partition("\n")[0].split())
    return line if len(line) <= TITLE else line[: TITLE - 1] + "…"
