"""What the chat says of itself while it goes on, turned into operations for the writer. Belongs to the UI thread."""

from __future__ import annotations

import dataclasses
import json
import secrets
import sqlite3
import time
from collections import deque
from functools import partial
from pathlib import Path

from spectui.engine.events import Finished
from spectui.knobs import Setup
from spectui.speculation.records import Round
from spectui.store.packed import PackedRounds
from spectui.store.packing import pack
from spectui.store.records import FAILED, Conversation, Reply
from spectui.store.writer import Writer

PROMPT_WAIT_S = 0.25
"""How long sending a prompt waits for the disk: a commit takes a millisecond, a disk that hangs takes no chat with it."""

FLUSH_WAIT_S = 2.0

TITLE = 60
"""Characters of a title."""

_TOGETHER = 500
"""Rounds of an older reply in one chunk, which has a largest size."""

_NOT_YET = "The disk is slow: this prompt may be lost if spectui ends now."


class Journal:
    """Of one conversation after the other. `path` has the ids of its messages, from the first to the last.

    Without a file nothing is kept, and every call returns at once.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._writer = Writer(file, RoundsToAppend) if file is not None else None
        self._silent: deque[str] = deque()
        self._reply: GrowingReply | None = None
        self.clear()

    @property
    def notices(self) -> deque[str]:
        """Sentences for the person, oldest first; whoever shows one takes it out."""
        return self._writer.notices if self._writer is not None else self._silent

    @property
    def conversation(self) -> str:
        """The id of the conversation that goes on; "" before its first prompt."""
        return self._conversation if self._begun else ""

    @property
    def rounds(self) -> PackedRounds | None:
        """Those of the reply that is being written, for whoever shows them to keep as well; None if none is."""
        return self._reply.rounds if self._reply is not None else None

    def flush(self) -> None:
        """Wait, within bounds, until what was said so far is on disk. From any thread."""
        if self._writer is not None:
            self._writer.post(lambda _: None).settled.wait(FLUSH_WAIT_S)

    def clear(self) -> None:
        """A new conversation begins with the next prompt."""
        self.end_reply("cancelled")
        self.path: list[int] = []
        self._conversation = secrets.token_hex(4)
        self._begun = False

    def resume(self, conversation: Conversation) -> None:
        """Go on with this one."""
        self.clear()
        self._conversation, self._begun = conversation.id, True
        self.path = [message.id for message in conversation.messages]
        if self._writer is not None:
            self._writer.post(Known(conversation), begins=True)

    def cut(self, length: int) -> None:
        """Go back to the first so many messages; what is said next is a branch from there."""
        del self.path[length:]

    def turn_here(self) -> None:
        """Whoever opens the conversation next finds it as it is cut now."""
        if self._writer is not None and self.path:
            self._writer.post(partial(_turn, conversation=self._conversation, message=self.path[-1]))

    def set_system(self, text: str) -> None:
        """The conversation has another system prompt from here on."""
        if self._writer is not None and self._begun:
            self._writer.post(partial(_set_system, conversation=self._conversation, system=_storable(text)))

    def prompt(self, text: str, system: str, target: str) -> None:
        """A prompt, which is on disk when this returns, or else a notice says why not."""
        if self._writer is None:
            return
        begins, self._begun = not self._begun, True
        now = time.time()
        about = (self._conversation, _title(text), now, _storable(system), _storable(target))
        parent = self.path[-1] if self.path else None
        self.path.append(_new_id())
        said = partial(_say, about=about, message=self.path[-1], parent=parent, role="user", text=text, now=now)
        receipt = self._writer.post(said, begins=begins)
        if not self._writer.failing and not receipt.settled.wait(PROMPT_WAIT_S):
            self.notices.append(_NOT_YET)

    def begin_reply(self, setup: Setup) -> None:
        """A reply to the last message begins, by these models."""
        self._reply = GrowingReply(_new_id())
        if self._writer is None:
            return
        parent = self.path[-1] if self.path else None
        begin = partial(
            _begin_reply,
            conversation=self._conversation,
            message=self._reply.message,
            parent=parent,
            setup=_about(setup),
            now=time.time(),
        )
        self._writer.post(begin)

    def begin_thinking(self) -> None:
        """The prompt has opened the model's thinking, which the reply goes on with. Said again it changes nothing."""
        reply = self._reply
        if self._writer is not None and reply is not None and not reply.thinking:
            reply.thinking = True
            self._writer.post(partial(_mark, message=reply.message, what="thinking"))

    def continue_reply(self, *, otherwise: bool = False) -> None:
        """The last message, a reply that was stopped, goes on; `otherwise`: under another set-up than the one that began it."""
        if self._writer is not None and self.path:
            self._reply = GrowingReply(self.path.pop())
            self._writer.post(partial(_open_reply, message=self._reply.message))
            if otherwise:
                self._writer.post(partial(_mark, message=self._reply.message, what="mixed"))

    def add_round(self, round: Round) -> None:
        """The reply has grown by a round."""
        if self._reply is not None:
            self._reply.rounds.append(round)
            if self._writer is not None:
                self._writer.add_round(self._reply, round)

    def end_reply(self, stop: str = FAILED, finished: Finished | None = None, *, kept: bool = False) -> None:
        """The reply ended; `kept`: it has become a message of the conversation. Nothing happens if none was begun."""
        reply, self._reply = self._reply, None
        if self._writer is None or reply is None:
            return
        figures = (
            (finished.prompt_tokens, finished.prompt_s, finished.time_to_first_token_s) if finished else (None,) * 3
        )
        self._writer.post(partial(_end_reply, message=reply.message, stop=stop, figures=figures, now=time.time()))
        if kept:
            self.path.append(reply.message)

    def close(self) -> None:
        """Write what is left, and end."""
        if self._writer is not None:
            self._writer.close()


class GrowingReply:
    """A reply that is written: its message's id, and the rounds that it has since this began."""

    __slots__ = ("appended", "message", "rounds", "thinking")

    def __init__(self, message: int) -> None:
        self.message = message
        self.rounds = PackedRounds()
        self.thinking = False
        self.appended = 0
        """How many of the rounds there are operations for; the writer's thread counts them."""


class RoundsToAppend:
    """An operation: append a reply's next rounds, and their text, to its message. They stay with the reply."""

    __slots__ = ("_reply", "_start", "_stop")

    def __init__(self, reply: GrowingReply, rounds: list[Round]) -> None:
        self._reply = reply
        self._start = reply.appended
        self._stop = reply.appended = reply.appended + len(rounds)

    def __call__(self, connection: sqlite3.Connection) -> None:
        """Append them."""
        rounds = self._reply.rounds.between(self._start, self._stop)
        message = self._reply.message
        text = _storable("".join(token.text for round in rounds for token in round.tokens))
        connection.execute("UPDATE message SET text = text || ? WHERE id = ?", (text, message))
        connection.execute(
            "INSERT INTO chunk SELECT ?, count(*), ? FROM chunk WHERE message = ?", (message, pack(rounds), message)
        )


class Known:
    """An operation: a conversation that was read from the file stands in it, also if the file is lost since.

    Done once more it puts back what was read, whatever another spectui may have brought over: what was said since is added
    to that.
    """

    __slots__ = ("_conversation", "_sizes", "_tried")

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        # Those of now: the last reply may be gone on with, and whoever shows it appends to its rounds.
        self._sizes = [len(each.reply.rounds) if each.reply is not None else 0 for each in conversation.messages]
        self._tried = False

    def __call__(self, connection: sqlite3.Connection) -> None:
        """Write what is missing, or all of it anew."""
        whole, messages = self._conversation, self._conversation.messages
        if self._tried:
            for message in messages:
                for table, key in (("message", "id"), ("reply", "message"), ("chunk", "message")):
                    connection.execute(f"DELETE FROM {table} WHERE {key} = ?", (message.id,))
        self._tried = True
        connection.execute(
            "INSERT OR IGNORE INTO conversation VALUES (?, ?, ?, ?, ?, ?, ?)",
            (whole.id, whole.title, whole.created, whole.updated, whole.system, whole.target,
             messages[-1].id if messages else 0),
        )  # fmt: skip
        for message, size in zip(messages, self._sizes, strict=True):
            row = (message.id, whole.id, message.parent, message.role, message.text, message.created)
            missing = connection.execute("INSERT OR IGNORE INTO message VALUES (?, ?, ?, ?, ?, ?)", row).rowcount
            if missing and message.reply is not None:
                _write_reply(connection, message.id, message.reply, size)


def _write_reply(connection: sqlite3.Connection, message: int, reply: Reply, size: int) -> None:
    """A reply with the first `size` of its rounds."""
    setup = _about(reply.setup, thinking=reply.thinking, mixed=reply.mixed)
    row = (message, setup, reply.stop, reply.prompt_tokens, reply.prompt_s, reply.first_token_s)
    connection.execute("INSERT OR REPLACE INTO reply VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.execute("DELETE FROM chunk WHERE message = ?", (message,))
    for number, at in enumerate(range(0, size, _TOGETHER)):
        chunk = pack(reply.rounds.between(at, min(at + _TOGETHER, size)))
        connection.execute("INSERT INTO chunk VALUES (?, ?, ?)", (message, number, chunk))


def _say(
    connection: sqlite3.Connection,
    *,
    about: tuple[str, str, float, str, str],
    message: int,
    parent: int | None,
    role: str,
    text: str,
    now: float,
) -> None:
    identity, title, created, system, target = about
    connection.execute(
        "INSERT INTO conversation VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, head = excluded.head,"
        " system = excluded.system, target = excluded.target",
        (identity, title, created, now, system, target, message),
    )
    connection.execute(
        # Another spectui that found the file damaged may have brought it over: here, and in a reply, it begins anew.
        "INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?, ?)",
        (message, identity, parent, role, _storable(text), now),
    )


def _begin_reply(
    connection: sqlite3.Connection, *, conversation: str, message: int, parent: int | None, setup: str, now: float
) -> None:
    row = (message, conversation, parent, now)
    connection.execute("INSERT OR REPLACE INTO message VALUES (?, ?, ?, 'assistant', '', ?)", row)
    connection.execute("INSERT OR REPLACE INTO reply (message, setup) VALUES (?, ?)", (message, setup))
    connection.execute("DELETE FROM chunk WHERE message = ?", (message,))
    connection.execute("UPDATE conversation SET updated = ?, head = ? WHERE id = ?", (now, message, conversation))


def _mark(connection: sqlite3.Connection, *, message: int, what: str) -> None:
    connection.execute(
        # What somebody else has damaged stays as it is, rather than end the writing.
        "UPDATE reply SET setup = json_set(setup, ?, json('true')) WHERE message = ? AND json_valid(setup)",
        (f"$.{what}", message),
    )


def _open_reply(connection: sqlite3.Connection, *, message: int) -> None:
    connection.execute("UPDATE reply SET stop = NULL WHERE message = ?", (message,))


def _end_reply(
    connection: sqlite3.Connection,
    *,
    message: int,
    stop: str,
    figures: tuple[int | float | None, ...],
    now: float,
) -> None:
    connection.execute(
        # A reply that was gone on with keeps the figures of its beginning.
        "UPDATE reply SET stop = ?, prompt_tokens = coalesce(prompt_tokens, ?), prompt_s = coalesce(prompt_s, ?),"
        " first_token_s = coalesce(first_token_s, ?) WHERE message = ?",
        (stop, *figures, message),
    )
    connection.execute(
        "UPDATE conversation SET updated = ? WHERE id = (SELECT conversation FROM message WHERE id = ?)", (now, message)
    )


def _set_system(connection: sqlite3.Connection, *, conversation: str, system: str) -> None:
    connection.execute("UPDATE conversation SET system = ? WHERE id = ?", (system, conversation))


def _turn(connection: sqlite3.Connection, *, conversation: str, message: int) -> None:
    connection.execute("UPDATE conversation SET head = ? WHERE id = ?", (message, conversation))


def _about(setup: Setup, **marks: bool) -> str:
    """What stands in a reply's `setup`."""
    return json.dumps({**dataclasses.asdict(setup), **marks})


def _new_id() -> int:
    """Of a message: drawn, so that nobody has to ask the disk for the next number."""
    return secrets.randbits(62)


def _title(text: str) -> str:
    """The first line of the first prompt, cut to length."""
    line = " ".join(_storable(text).strip().partition("\n")[0].split())
    return line if len(line) <= TITLE else line[: TITLE - 1] + "…"


def _storable(text: str) -> str:
    """Lone surrogates cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
