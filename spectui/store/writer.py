"""The one thread that writes the conversations and the prompts for the arrow keys. Others wait for no disk.

What fails is tried again, so a full disk or a locked database costs nothing but a delay; until then the conversation is in
memory only, and a notice says so. A damaged file is set aside: the new file gets the present conversation from memory, and
what can be read of the others.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from pathlib import Path
from time import monotonic

from spectui.store import database
from spectui.store.database import StoreError
from spectui.store.prompts import PromptHistory, prompts_file
from spectui.store.recovery.rescue import Rescued, rescue
from spectui.store.rows import ConversationLog, write

COMMIT_INTERVAL_S = 0.8
"""How long rounds wait for others to be committed with; with the window's 1/30 s and the commit it stays below a second."""

LATE_TOKENS = 48
"""A commit follows at once when so many tokens wait; with one round of at most 49 on the way, about 64 can be lost."""

RETRY_S = 5.0

_UNWRITABLE = (OverflowError, TypeError, UnicodeEncodeError, sqlite3.IntegrityError)
"""Errors of a value that no row can have: trying again would not help in the same file, and other conversations have none."""

_MEMORY_ONLY = "This chat is in memory only, and is lost when spectui ends: "
_DELETED = "Another spectui has deleted this conversation: what is said in it from now on is not saved on disk."


class Writer:
    """Writes conversations to one file, and adds sentences for the person to the `notices`."""

    def __init__(self, file: Path, notices: deque[str]) -> None:
        self._notices = notices
        self.failing = False
        """The last attempt to write did not reach the disk."""
        self.file_number: int | None = None
        """Number of files that have had this name so far; None before the first was opened."""
        self._file = file
        self._logs: list[ConversationLog] = []
        self._requests: deque[threading.Event] = deque()
        self._history = PromptHistory(prompts_file())
        self._prompts: deque[str] = deque()
        self._unsent: str | None = None
        self._unsent_saved: str | None = None  # what of that the disk has
        self._wake = threading.Event()
        self._closing = False
        self._added = 0  # tokens so far; each of the two is counted by one thread
        self._taken = 0
        self._due: float | None = None
        self._failure = ""
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None
        self._tried: tuple[int, int] | None = None
        # A daemon, because a disk that hangs must not keep the process from ending; `close` waits within bounds.
        self._thread = threading.Thread(target=self._run, name="spectui-store", daemon=True)
        self._thread.start()

    def track(self, log: ConversationLog) -> None:
        """Write this one too, from the next request on, until it is closed."""
        self._logs.append(log)

    def request(self) -> threading.Event:
        """Write the conversation so far at once. The event is set when it is on disk, or when writing fails (see
        `failing`)."""
        done = threading.Event()
        self._requests.append(done)
        self._wake.set()
        return done

    def save_prompt(self, typed: str) -> None:
        """Add a prompt to the history of prompts."""
        self._prompts.append(typed)
        self._wake.set()

    def save_unsent(self, text: str) -> None:
        """Save the text that is being written; "" deletes the one before."""
        self._unsent = text
        self._wake.set()

    def add_tokens(self, number: int) -> None:
        """A tracked reply has this many more tokens: write them within a second.

        The thread is woken for the first and the last that it waits for. Waking it in between would cost passes on the same
        cores their time.
        """
        self._added += number
        if self._due is None or self._is_late:
            self._wake.set()

    def close(self, timeout: float = 2.0) -> str:
        """Write the rest, wait at most `timeout` seconds for it, and end. May be called twice. Returns a sentence for the
        person if a part of the conversation is not on disk, else "".
        """
        self._closing = True
        self._wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            return f"The disk does not answer: what was said last may not be in {self._file}."
        if all(log.is_saved(self.file_number) for log in self._logs):
            return ""
        return f"What was said last is not on disk: {self._failure}"

    @property
    def _is_late(self) -> bool:
        return self._added - self._taken >= LATE_TOKENS

    def _run(self) -> None:
        self._save()  # there is nothing to write yet, but it shows early whether the disk works
        while True:
            self._wake.clear()
            closing = self._closing
            requested = [self._requests.popleft() for _ in range(len(self._requests))]
            if self._due is None and self._added != self._taken:
                self._due = monotonic() + COMMIT_INTERVAL_S
            at_once = closing or (not self.failing and (bool(requested) or self._is_late))
            if at_once or (self._due is not None and monotonic() >= self._due):
                self._save()
            while self._prompts:  # after the conversation, which is more important
                self._history.add(self._prompts.popleft())
            unsent = self._unsent
            if unsent is not None and unsent != self._unsent_saved and self._history.keep_unsent(unsent):
                self._unsent_saved = unsent
            for request in requested:
                request.set()
            if closing:
                break
            waits = [] if self._unsent == self._unsent_saved else [RETRY_S]
            waits += [] if self._due is None else [max(0.0, self._due - monotonic())]
            self._wake.wait(min(waits, default=None))
        self._disconnect()

    def _save(self) -> None:
        self._taken, self._due = self._added, None
        try:
            with database.names_kept(self._file):
                self._write()
        except Exception as error:  # whatever it is, the chat is still in memory
            if database.is_damage(error):
                self._begin_anew()
            else:
                self._retry_later(error)

    def _write(self) -> None:
        self._tried = there = database.identity(self._file)
        # Another spectui may have set the file aside, or a person removed it.
        is_new = there is None or there != self._opened
        if self._connection is None or is_new:
            self._connect()
            if is_new:  # a removed file's inode may be used again, so inodes alone cannot tell files apart
                self.file_number = (self.file_number or 0) + 1
        assert self._connection is not None
        changed = [log for log in tuple(self._logs) if not (self._refuses(log) or log.is_saved(self.file_number))]
        for log in changed:
            self._write_log(self._connection, log)
        if self.failing:
            self.failing = False
            if not any(map(self._refuses, changed)):
                self._notices.append("This chat is being saved on disk again, all of it.")
        for log in tuple(self._logs):
            if log.closed and log.is_saved(self.file_number):
                self._logs.remove(log)  # in place: the UI thread may append to the list just now

    def _connect(self) -> None:
        self._disconnect()
        unclean = database.was_left_open(self._file)
        self._connection = database.connect(self._file)
        if unclean:
            # Damage on a page that nothing is written to would keep everything from being read again, this chat too.
            database.check_pages(self._connection)
        self._opened = database.identity(self._file)

    def _write_log(self, connection: sqlite3.Connection, log: ConversationLog) -> None:
        """Write what the file lacks of a conversation in one transaction; if another file has it, all of it."""
        try:
            with database.transaction(connection):
                there = connection.execute("SELECT 1 FROM conversation WHERE id = ?", (log.conversation.id,)).fetchone()
                is_here = log.saved_in == self.file_number or (log.saved_in is None and there is not None)
                if is_here and there is None:  # another process has deleted the conversation
                    self._logs.remove(log)
                    if not log.closed:
                        self._notices.append(_DELETED)
                    return
                written = write(connection, log, whole=not is_here)
        except _UNWRITABLE as error:
            log.refused_by = self.file_number  # and the others go on
            self._failure = self._sentence(error)
            self._notices.append(f"{_MEMORY_ONLY}{self._failure}")
        else:
            log.committed(written, self.file_number)

    def _refuses(self, log: ConversationLog) -> bool:
        return log.refused_by == self.file_number

    def _retry_later(self, error: Exception) -> None:
        self._disconnect()
        self._failure = self._sentence(error)
        if not self.failing:
            self.failing = True
            self._notices.append(f"{_MEMORY_ONLY}{self._failure}")
        self._due = monotonic() + RETRY_S

    def _begin_anew(self) -> None:
        self._disconnect()
        try:
            aside = database.set_aside(self._file, self._tried)
            with database.names_kept(self._file):
                if aside is None:
                    self._write()
                    return
                rescued = Rescued(aside)
                try:
                    self._write()
                    if self._connection is not None:
                        rescue(rescued, self._connection)
                finally:
                    self._notices.append(rescued.sentence)
        except Exception as error:
            self._retry_later(error)

    def _disconnect(self) -> None:
        if self._connection is not None:
            with database.names_kept(self._file):
                self._connection.close()
            self._connection = None

    def _sentence(self, error: Exception) -> str:
        """The error in the system's or SQLite's words."""
        if isinstance(error, StoreError):
            return str(error)
        words = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        return f"{words} ({self._file})."
