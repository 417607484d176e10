"""The parent's end of a process that an engine runs in: its commands, what it says, and how it ends."""

from __future__ import annotations

import pickle
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from queue import SimpleQueue
from time import monotonic
from typing import IO, Any, Protocol

from spectui.engine.events import Event, Failed, Finished, Loaded, LoadFailed, Notice, RoundDone, Unloaded
from spectui.engine.isolation.child import LastWords, Result
from spectui.engine.loading.plan import way_out
from spectui.engine.worker import leave_terminal_to_main_thread, settle
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.llama.devices import rpc
from spectui.paths import program

STOP_S = 5.0
"""Seconds after which stopping once more ends a process that does not stop."""

DEATH_S = 30.0
"""Most seconds to wait for the end of a process that was ended. Its memory is freed in less; a driver that hangs holds it."""

REPLACED = "The reply was stopped, because other models are loaded: what was written is kept."

LINGERS = (
    "The engine's old process does not end, as when a driver does not answer, and may still hold memory: restart the machine"
    " if models no longer fit."
)

HANGS = "The engine has not stopped yet, as when a device does not answer: stop it once more to end its process."

_ENDS = {"load": (Loaded, LoadFailed), "generate": (Finished, Failed)}
"""Command -> the messages that end it. Results say which they end."""


class Owner(Protocol):
    """The engine that a process belongs to. Its methods are called in threads of the link."""

    def emit(self, event: Event) -> None:
        """The process tells this event."""

    def ended(self, link: Link, reason: str, pending: Sequence[str]) -> None:
        """The process has ended by itself, for this reason, before these commands were obeyed."""

    def refused(self, link: Link, failed: LoadFailed, before: Setup) -> bool:
        """A load failed because of its servers; `before` was loaded. Returns whether something else is loaded instead."""


class Link:
    """A process, from its start to its end. Each command ends with a message, also where the process ends."""

    def __init__(self, owner: Owner, setup: Setup, knobs: Knobs, after: Link | None = None) -> None:
        """`setup`: has the servers of all set-ups. `after`: a process that must end before this one uses the devices."""
        self._owner, self._setup = owner, setup
        self.loaded: Setup | None = after.loaded if after is not None else None
        """The set-up that is loaded, or was until the load in progress; None if nothing was, or loading failed."""
        self.hung = False
        """It was ended because it did not stop."""
        self._commands: SimpleQueue[bytes | None] = SimpleQueue()  # pickled
        self._pending: deque[tuple[str, Future[Any] | None]] = deque()  # commands, with the futures of calls
        self._stopped_s: float | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._state = threading.Lock()
        self._closed = False
        self._replaced = False
        self._why = ""  # the process ended by itself
        self._ended = threading.Event()
        self._same = lru_cache(1)(lambda knobs: knobs)  # one object for all rounds between two changes: each keeps it
        self.post("knobs", knobs)
        threading.Thread(target=self._run, args=(after,), name="spectui-engine-process", daemon=True).start()

    @property
    def pid(self) -> int | None:
        """The process's number; None before it was started."""
        return self._process.pid if self._process is not None else None

    def post(self, name: str, *arguments: Any) -> None:
        """Send a command that no message ends."""
        self._commands.put(pickle.dumps((name, arguments), pickle.HIGHEST_PROTOCOL))

    def begin(self, name: str, *arguments: Any, future: Future[Any] | None = None) -> None:
        """Send a command that a message ends. `future`: of a call, gets what it returns."""
        with self._state:
            self._pending.append((name, future))
            self.post(name, *arguments)
        if self._ended.is_set():
            self._fail_pending(self._why or "The engine has ended")

    def call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Have the worker "call" or "ask" `function`, which can be pickled, with the session and the arguments."""
        future = Future[Any]()
        try:
            pickled = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            future.set_exception(error)
        else:
            self.begin(name, pickled, future=future)
        return future

    def stop(self) -> None:
        """Stop the work in progress. A second call, STOP_S seconds later, ends the process."""
        now = monotonic()
        if self._stopped_s is None and self._pending:
            self._stopped_s = now
            timer = threading.Timer(STOP_S, self._tell_hang, (now,))
            timer.daemon = True
            timer.start()
        elif self._stopped_s is not None and now - self._stopped_s > STOP_S:
            self.hung = True
            self._kill()
        self.post("stop")

    def _tell_hang(self, stopped_s: float) -> None:
        if self._stopped_s == stopped_s and not self._closed and not self._ended.is_set():
            self._owner.emit(Notice(HANGS))

    def close(self, timeout: float) -> None:
        """Stop everything and end the process, after at most `timeout` seconds. May be called twice."""
        if not self._closed:
            self._closed = True
            self.post("stop")
            self._commands.put(None)
        if not self._ended.wait(timeout):
            self._kill()

    def wait(self) -> None:
        """Wait until the process, which was killed, has ended. After DEATH_S it counts as ended, and a notice says so."""
        if not self._ended.wait(DEATH_S):
            self._end("")
            self._owner.emit(Notice(LINGERS))

    def kill(self) -> None:
        """End the process at once, for another one. The commands that it had not ended are stopped, before `wait` returns."""
        self._closed = self._replaced = True
        self._commands.put(None)
        self._kill()

    def _kill(self) -> None:
        with self._state:
            if self._process is not None:
                self._process.kill()

    def _run(self, after: Link | None) -> None:
        """Start the process, and take its messages until it ends."""
        leave_terminal_to_main_thread()  # also while the process starts
        if after is not None:
            after.wait()
        try:
            with self._state:
                process = self._process = subprocess.Popen(
                    program("spectui.engine.isolation.child"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
        except OSError as error:
            self._end(f"The engine's process could not be started ({error.strerror})")
            return
        assert process.stdin is not None and process.stdout is not None
        if self._closed:
            process.kill()
        threading.Thread(target=self._write, args=(process.stdin,), name="spectui-commands", daemon=True).start()
        words = ""
        with process.stdout, suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                message = pickle.load(process.stdout)
                if isinstance(message, LastWords):
                    words = message.text
                else:
                    self._take(message)
        code = process.wait()
        self._commands.put(None)
        self._end("" if self._closed else self._reason(code, words))

    def _write(self, stdin: IO[bytes]) -> None:
        with suppress(OSError), stdin:
            while (command := self._commands.get()) is not None:
                stdin.write(command)
                stdin.flush()

    def _take(self, message: Any) -> None:
        if isinstance(message, RoundDone):
            self._owner.emit(message._replace(round=replace(message.round, knobs=self._same(message.round.knobs))))
            return
        if isinstance(message, Result):
            self._settle(message)
            return
        if self._pending and isinstance(message, _ENDS.get(self._pending[0][0], ())):
            self._stopped_s = None
            self._pending.popleft()
        before = self.loaded
        if isinstance(message, Loaded | LoadFailed | Unloaded):
            self.loaded = message.setup if isinstance(message, Loaded) else None
        refused = message if isinstance(message, LoadFailed) and message.without_servers else None
        if refused is not None and before is not None and self._owner.refused(self, refused, before):
            return
        self._owner.emit(message)

    def _settle(self, result: Result) -> None:
        """Give a future its result. What was asked has one before the end of a reply that began earlier."""
        with self._state:
            ended = next((pending for pending in self._pending if pending[0] == result.command), None)
            if ended is None:  # it has ended, because its process took too long to
                return
            self._pending.remove(ended)
        if result.command == "call":
            self._stopped_s = None
        if (future := ended[1]) is not None:
            settle(future, result.outcome)

    def _end(self, why: str) -> None:
        """The process has ended; `why` says why it did by itself."""
        self._why = "" if self._closed else why
        if self._replaced:
            for name in self._take_pending(REPLACED):
                self._owner.emit(Failed(REPLACED) if name == "generate" else LoadFailed("Loading was stopped."))
        self._ended.set()
        if self._why:
            self._fail_pending(self._why)
        else:
            self._take_pending("The engine has ended.")  # a thread may wait for what a call returns

    def _reason(self, code: int, words: str) -> str:
        """Why the process ended, as the first half of a sentence."""
        servers = rpc.addresses(self._setup.rpc)
        gone = list(rpc.problems(servers))
        if gone:
            return f"The RPC server {' and '.join(gone)} is gone"
        if "RPC server" in words:
            return f"The RPC server {' or '.join(servers)} broke off the connection, as it does when its memory is full"
        if self.hung:
            return "The engine did not stop, so its process was ended"
        if "bus error" in words:
            return words
        end = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        return f"The engine's process ended {end}{f' ({words})' if words else ''}"

    def _fail_pending(self, reason: str) -> None:
        self._owner.ended(self, reason, self._take_pending(self._advised(reason)))

    def _take_pending(self, sentence: str) -> list[str]:
        """The commands that have not ended, and end no more; calls raise this."""
        with self._state:
            pending = list(self._pending)
            self._pending.clear()
        for _, future in pending:
            if future is not None and future.set_running_or_notify_cancel():
                future.set_exception(SpectuiError(sentence))
        return [name for name, future in pending if future is None]

    def _advised(self, reason: str) -> str:
        if "GGML_ASSERT" in reason:  # trying again ends it again
            return f"{reason}: {way_out(self._setup)}."
        if "bus error" in reason:
            return f"{reason}: try again."
        return f"{reason}: try again, {'or leave out --rpc' if self._setup.rpc else 'or with -ngl 0 -ngld 0 on the CPU'}."
