"""The open conversation on disk: the chat tells the journal what is said, and the writer's thread writes it.

Belongs to the UI thread, but for what the engine's thread tells of a reply, with `lock` held. Nothing here touches the disk,
and nothing but `flush` and `close` waits for the writer.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from spectui.engine.events import Finished
from spectui.knobs import Setup
from spectui.speculation.records import Round
from spectui.store.records import FAILED, Reply, StoredConversation, StoredMessage, unknown_reply
from spectui.store.rows import ConversationLog, storable
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
        self.at: int | None = None
        """The id of the message that the next one follows; None: it is the first."""
        self.notices: deque[str] = deque()
        """Sentences for the person, oldest first; the code that shows one takes it out."""
        self._writer = Writer(file, self.notices) if file is not None else None
        self._log: ConversationLog | None = None
        self.writing: int | None = None
        """The id of the reply in progress."""
        self._held: dict[int, StoredMessage] = {}  # it, while it has no text, and a prompt that waits for that

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

    @property
    def times(self) -> tuple[float, float]:
        """When the conversation was begun, and when it was written to last; 0 before a prompt."""
        log = self._log
        return (log.conversation.created, log.conversation.updated) if log is not None else (0.0, 0.0)

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
            self._log = self.at = None

    def resume(self, conversation: StoredConversation) -> None:
        """Go on with a conversation that was read from the disk."""
        self.clear()
        saved_in = self._writer.file_number if self._writer is not None else None
        self._begin(ConversationLog(conversation, self.lock, saved_in))
        self.at = conversation.messages[-1].id if conversation.messages else None

    def save_head(self, message: int | None) -> None:
        """The conversation is opened the next time at the message of this id, unless that waits for its text."""
        with self.lock:
            log = self._log
            if log is not None and message is not None and message != log.head and message in log.messages:
                log.change(head=message)
                self._save()

    def change(self, **changes: str) -> None:
        """The conversation has another `title`, or another `system` prompt from here on."""
        storables: dict[str, Any] = {name: storable(text) for name, text in changes.items()}
        with self.lock:
            if self._log is not None:
                self._log.change(**storables)
                self._save()

    # Prompts

    def prompt(self, text: str, system: str, target: str, *, instead: bool = False) -> StoredMessage:
        """A person has sent a prompt. It is written at once; if the disk fails, a notice says so. `instead`: it takes the place
        of another one, and is written with its reply."""
        now = time.time()
        message = StoredMessage(_new_id(), self.at, "user", storable(text), now)
        system, target, self.at = storable(system), storable(target), message.id
        with self.lock:
            if self._log is None:
                fields = os.urandom(8).hex(), _title(text), now, now, system, target
                self._begin(ConversationLog(StoredConversation(*fields, (message,)), self.lock))
            else:
                self._log.change(system=system, target=target)
                if instead:
                    self._held = {message.id: message}
                    return message
                self._log.add(message)
        self._save()
        return message

    def save_prompt(self, typed: str) -> None:
        """Store a typed prompt, which the arrow keys bring back in later chats."""
        if self._writer is not None:
            self._writer.save_prompt(typed)

    def save_unsent(self, text: str) -> None:
        """Store the text that is being written, for the next start; "" deletes the one before."""
        if self._writer is not None:
            self._writer.save_unsent(text)

    # Replies

    def begin_reply(self, setup: Setup, dropped: int = 0, grammar: str = "") -> StoredMessage:
        """A reply to the message `at` begins, by these models. `dropped`, `grammar`: as in `records.Reply`. The journal appends
        to its rounds."""
        reply = unknown_reply()._replace(setup=setup, dropped=dropped, grammar=grammar)
        with self.lock:
            message = StoredMessage(_new_id(), self.at, "assistant", "", time.time(), reply)
            self.writing = message.id
            self._held[message.id] = message
            return message

    def continue_reply(self, *, otherwise: bool = False) -> None:
        """The message `at`, a reply that was stopped, is continued; `otherwise`: under another set-up than it began with."""
        with self.lock:
            self.writing = self.at
            self._change(self.at, lambda reply: reply.continued(otherwise=otherwise))

    def set_dropped(self, replies: Iterable[int], number: int) -> None:
        """Prompts leave out the first `number` messages, behind and in the replies of these ids."""
        with self.lock:
            for message in replies:
                self._change(message, lambda reply: reply._replace(dropped=number))

    def add_round(self, round: Round) -> None:
        """The reply has grown by a round."""
        with self.lock:
            message = self._find(self.writing)
            if message is None or message.reply is None:
                return
            message.reply.rounds.add(round)
            text = message.text + storable("".join(token.text for token in round.tokens))
            self._put(message._replace(text=text), len(message.reply.rounds) - 1)
            if self._writer is not None:
                self._writer.add_tokens(len(round.tokens))

    def note_end(self, stop: str, finished: Finished | None = None) -> None:
        """The engine has ended the reply. Nothing happens where it has no text."""
        with self.lock:
            message = self._find(self.writing)
            if message is None or message.reply is None or self._held:
                return
            self._change(message.id, lambda reply: reply.ended(stop, finished))

    def end_reply(self, stop: str = FAILED, finished: Finished | None = None, *, has_text: bool = False) -> None:
        """The reply has ended; `has_text`: so it is a message of the conversation. Nothing happens if none was begun."""
        with self.lock:
            if self.writing is None:
                return
            if has_text:
                self._write_held()
                self.at = self.writing
            self.note_end(stop, finished)
            self.writing, self._held = None, {}
            if self._log is not None:
                self._log.change(updated=time.time())
                self._save()

    def _find(self, message: int | None) -> StoredMessage | None:
        if message is None or message in self._held or self._log is None:
            return self._held.get(message or 0)
        return self._log.messages.get(message)

    def _change(self, identity: int | None, changed: Callable[[Reply], Reply]) -> None:
        """Change how a reply was made."""
        message = self._find(identity)
        if message is not None and message.role == "assistant":
            self._put(message._replace(reply=changed(message.reply or unknown_reply())))
            if not self._held:
                self._save()

    def _put(self, message: StoredMessage, first_round: int | None = None) -> None:
        """The message is another one, with new rounds from this number on."""
        if message.id in self._held:
            self._held[message.id] = message
            if message.text:
                self._write_held()
        elif self._log is not None:
            self._log.put(message, first_round)

    def _write_held(self) -> None:
        """The reply in progress has text."""
        if self._log is not None:
            for message in self._held.values():
                self._log.add(message)
            self._held = {}
            self._save()

    def _begin(self, log: ConversationLog) -> None:
        self._log = log
        if self._writer is not None:
            self._writer.track(log)

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
