"""The one thread that writes: operations are handed to it through a queue and nobody waits for the disk.

An operation that fails is kept and tried again, so a disk that was full, or a database that was locked, costs nothing but
lateness; meanwhile the conversation lives in memory, and one sentence says so. A damaged file is set aside, and what is
known of the present conversation is written to a new one, with what can be read of the others.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Generic, TypeVar

from spectui.speculation.records import Round
from spectui.store import database
from spectui.store.database import StoreError
from spectui.store.rescue import Rescued, rescue

COMMIT_INTERVAL_S = 0.8
"""Rounds wait this long for company; with the window's own 1/30 s and the commit it stays below a second."""

LATE_TOKENS = 48
"""Or for so many tokens; with the longest round, 49, and no more than one is on the way, it stays near 64."""

RETRY_S = 5.0

Operation = Callable[[sqlite3.Connection], object]

_Reply = TypeVar("_Reply")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Rounds(Generic[_Reply]):
    reply: _Reply
    round: Round


@dataclass(slots=True, eq=False)
class Receipt:
    """An operation, and `settled`: it is on disk, or it will not be for now, which a notice says."""

    operation: Operation
    begins: bool = False
    settled: threading.Event = field(default_factory=threading.Event)


class Writer(Generic[_Reply]):
    """Writes to one file. `notices` are sentences for whoever looks after them.

    `write_rounds` makes an operation of a reply and its next rounds. What is done is kept in case the file is lost:
    the operation should hold little then.
    """

    def __init__(self, file: Path, write_rounds: Callable[[_Reply, list[Round]], Operation]) -> None:
        self.notices: deque[str] = deque()
        self.failing = False
        """What was last tried did not reach the disk."""
        self._file = file
        self._write_rounds = write_rounds
        self._queue: deque[Receipt | _Rounds[_Reply] | None] = deque()
        self._wake = threading.Event()
        self._pending: list[Receipt] = []
        self._done: list[Operation] = []
        self._rounds: list[_Rounds[_Reply]] = []
        self._added = 0  # tokens so far; each of the two is counted by one thread
        self._gathered = 0
        self._due: float | None = None
        self._connection: sqlite3.Connection | None = None
        self._written: tuple[int, int] | None = None  # the file that has what is done
        self._tried: tuple[int, int] | None = None  # the one that was last to be written to
        # A daemon, because a disk that hangs must not keep the process from ending; `close` waits within bounds.
        self._thread = threading.Thread(target=self._run, name="spectui-store", daemon=True)
        self._thread.start()

    def post(self, operation: Operation, *, begins: bool = False) -> Receipt:
        """Have it done, together with all that was posted before. `begins`: a new conversation starts with it."""
        receipt = Receipt(operation, begins)
        self._hand(receipt)
        return receipt

    def add_round(self, reply: _Reply, round: Round) -> None:
        """Have a round of this reply written within a second. The thread is woken for the first and for the last that it waits
        for: in between it would take turns with a pass on the same cores, for nothing."""
        self._queue.append(_Rounds(reply, round))
        self._added += len(round.tokens)
        if self._due is None or self._is_late:
            self._wake.set()

    def close(self, timeout: float = 2.0) -> None:
        """Write what is left and end; wait for it at most `timeout` seconds. May be called twice."""
        self._hand(None)
        self._thread.join(timeout)

    def _hand(self, item: Receipt | None) -> None:
        self._queue.append(item)
        self._wake.set()

    @property
    def _is_late(self) -> bool:
        return self._added - self._gathered >= LATE_TOKENS

    def _run(self) -> None:
        self._commit()  # nothing yet, but it says early whether the disk will do
        open_ = True
        while open_:
            self._wake.clear()
            while open_ and self._queue:
                open_ = self._take(self._queue.popleft())
            if not open_ or self._is_late or (self._due is not None and monotonic() >= self._due):
                self._commit()
            else:
                self._wake.wait(None if self._due is None else max(0.0, self._due - monotonic()))
        if self._connection is not None:
            self._connection.close()

    def _take(self, item: Receipt | _Rounds[_Reply] | None) -> bool:
        """Put it with what waits. False: it was the last."""
        if isinstance(item, _Rounds):
            self._rounds.append(item)
            self._due = monotonic() + COMMIT_INTERVAL_S if self._due is None else self._due
        elif item is not None:
            self._gather()
            self._pending.append(item)
            self._due = monotonic() if not self.failing else self._due
        return item is not None

    def _gather(self) -> None:
        """Make an operation of the rounds that came since the last."""
        self._gathered += sum(len(each.round.tokens) for each in self._rounds)
        while self._rounds:
            reply = self._rounds[0].reply
            same = [each.round for each in self._rounds if each.reply is reply]
            self._rounds = [each for each in self._rounds if each.reply is not reply]
            self._pending.append(Receipt(self._write_rounds(reply, same)))

    def _commit(self) -> None:
        self._gather()
        self._due = None
        try:
            self._write()
        except database.FAULTS as error:
            if database.is_damage(error):
                self._begin_anew()
            else:
                self._keep_for_later(error)

    def _write(self) -> None:
        self._tried = there = _identity(self._file)
        # Set aside, by another spectui maybe, or cleared away by a person: what is known is written once more.
        cleared = there is None or self._written not in (None, there)
        if self._connection is None or cleared:
            self._disconnect()
            if cleared:
                self._pending[:0] = [Receipt(operation) for operation in self._done]
                self._done.clear()
            self._connection = database.connect(self._file)
            if self._written != _identity(self._file):
                # Damage on a page that is only read would keep everything from being found again, this chat too.
                database.check_pages(self._connection)
                self._written = _identity(self._file)
        if not self._pending:
            return
        with database.transaction(self._connection):
            for receipt in self._pending:
                self._do(self._connection, receipt.operation)
        for receipt in self._pending:
            if receipt.begins:
                self._done.clear()
            self._done.append(receipt.operation)
        self._settle()
        self._pending.clear()
        if self.failing:
            self.failing = False
            self.notices.append("This chat is being kept on disk again, all of it.")

    def _do(self, connection: sqlite3.Connection, operation: Operation) -> None:
        """What cannot be written at all must not stand in the way of what can."""
        connection.execute("SAVEPOINT operation")
        try:
            operation(connection)
        except Exception as error:
            if isinstance(error, sqlite3.OperationalError) or database.is_damage(error):
                raise
            connection.execute("ROLLBACK TO operation")
            _log.error("the journal dropped what it could not write", exc_info=error)
            self.notices.append(f"A part of this chat could not be kept on disk ({type(error).__name__}).")
        connection.execute("RELEASE operation")

    def _keep_for_later(self, error: Exception) -> None:
        self._disconnect()
        if not self.failing:
            self.failing = True
            why = str(error) if isinstance(error, StoreError) else f"{_reason(error)} ({self._file})."
            self.notices.append(f"This chat is in memory only, and is lost when spectui ends: {why}")
        self._due = monotonic() + RETRY_S
        self._settle()

    def _begin_anew(self) -> None:
        self._disconnect()
        try:
            if _identity(self._file) != self._tried:
                self._write()  # another spectui was quicker, and what stands there now is its new file
                return
            rescued = Rescued(database.set_aside(self._file))
            try:
                self._write()
                if self._connection is not None:
                    rescue(rescued, self._connection)
            finally:
                self.notices.append(rescued.sentence)
        except database.FAULTS as error:
            self._keep_for_later(error)

    def _settle(self) -> None:
        for receipt in self._pending:
            receipt.settled.set()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _identity(file: Path) -> tuple[int, int] | None:
    """Which file stands there under this name; None if none does."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _reason(error: Exception) -> str:
    """What went wrong, in the system's or SQLite's words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
