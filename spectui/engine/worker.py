"""The thread that loads the models and computes with them, but for drafts made ahead. Implements `protocol.Engine`."""

from __future__ import annotations

import logging
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from operator import methodcaller
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from spectui.engine import protocol
from spectui.engine.events import (
    FREE,
    Event,
    Failed,
    Finished,
    Guess,
    LoadFailed,
    Loading,
    Message,
    Notice,
    Prompt,
    RoundDone,
    Terms,
    Unloaded,
)
from spectui.engine.room import NoRoomError
from spectui.errors import LoadError, RefusedError, SpectuiError, unless_limited
from spectui.knobs import Knobs, Setup
from spectui.llama.interrupt import Interrupt

Watch = Callable[[str, Setup], None]
"""Called in the worker's thread with the work that begins, such as "loading draft" or "" for idle, and the set-up."""

OpenSession = Callable[[Callable[[Event], None], Interrupt], protocol.Session]
"""Makes the session, from the receiver of its events and the flag that stops it. Called in the worker's thread."""

Result = TypeVar("Result")

_Command = tuple[int, Callable[[protocol.Session], None], Callable[[Exception], Event]]
"""Its number, what it does, and the event for what that raises."""

IDLE_S, REST_S = 2.0, 18.0
"""Seconds without a command after which the session catches up, and more of them after which it rests."""

_log = logging.getLogger(__name__)


def leave_terminal_to_main_thread() -> None:
    """Block the terminal's signals in this thread, and so in the processes that it starts.

    A terminal sends Ctrl+C to all processes of a program. The main thread answers it; the self-test, for one, would be ended,
    and be taken for kernels that crash. Windows has no such mask.
    """
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})


def session_here(on_event: Callable[[Event], None], interrupt: Interrupt) -> protocol.Session:
    """A session with models that are loaded in this process. Raises SpectuiError if llama.cpp cannot be loaded."""
    try:
        from spectui.engine.session import Session
    except SpectuiError:
        raise
    except Exception as error:  # the library may be missing, or built for another machine
        advice = unless_limited("reinstall llama-cpp-python")
        raise SpectuiError(f"llama.cpp could not be loaded ({error}): {advice}.") from error
    return Session(on_event, interrupt)


class Emitter:
    """The events of an engine, and who listens to them: see `protocol.Engine`."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.listen: Callable[[Event], None] = lambda event: None
        self.wants_probabilities = False
        self._guess: Guess | None = None
        self._coming = 0  # the number of the round that comes next
        self._logged = False

    @property
    def guess(self) -> str:
        guess = self._guess
        return guess.text if guess is not None and guess.round == self._coming else ""

    def ask(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """As in `protocol.SessionEngine`."""
        raise NotImplementedError

    def count(self, text: str) -> Future[int | None]:
        return self.ask(methodcaller("count", text))

    def emit(self, event: Event) -> None:
        if isinstance(event, Guess):
            self._guess = event
            return
        self._tell(self.listen, event)
        self.events.append(event)
        if isinstance(event, RoundDone):
            self._coming = event.round.index + 1
        elif isinstance(event, Finished | Failed):
            self._guess, self._coming = None, 0

    def _tell(self, listen: Callable[..., None], *what: object) -> None:
        """Call a listener. One that raises ends no thread of the engine: its error is logged, once."""
        try:
            listen(*what)
        except Exception as error:
            if not self._logged:
                self._logged = True
                _log.exception("a listener of the engine failed", exc_info=error)


def settle(future: Future[Result], function: Callable[[], Result]) -> None:
    """Give the future what the function returns or raises. Nothing is called for one that was cancelled."""
    if future.set_running_or_notify_cancel():
        try:
            result = function()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)


class Unopened:
    """Stands for a session that could not be opened: each command that uses it raises why, and so ends."""

    def __init__(self, why: Exception) -> None:
        self._why = why

    def __getattr__(self, name: str) -> Any:
        raise self._why

    def close(self) -> None:
        """There is nothing to free, to read or to save."""

    catch_up = rest = close


class Worker(Emitter):
    """Commands go into a queue, events come out of a deque; neither side waits for the other."""

    def __init__(
        self, knobs: Knobs | None = None, watch: Watch = lambda stage, setup: None, open_session: OpenSession = session_here
    ) -> None:
        super().__init__()
        self._knobs = knobs or Knobs()
        self._watch = watch
        self._open_session = open_session
        self._stage = ""
        self._setup = Setup()
        self._interrupt = Interrupt()
        self._commands: SimpleQueue[_Command | None] = SimpleQueue()
        self._asked: SimpleQueue[Callable[[protocol.Session], None]] = SimpleQueue()
        self._posted = 0
        self._stopped = 0
        self._session: protocol.Session | None = None
        self._handing = threading.Lock()
        self._idle = False  # what the session does now is interrupted by the next command
        self._closed = False
        # A daemon thread: a target pass on a slow machine must not delay the end of the process.
        self._thread = threading.Thread(target=self._run, name="spectui-engine", daemon=True)
        self._thread.start()

    @property
    def knobs(self) -> Knobs:
        return self._knobs

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        with self._handing:
            self._knobs = knobs
            if self._session is not None:
                self._session.knobs = knobs

    @property
    def running(self) -> bool:
        """Whether its thread has not ended yet."""
        return self._thread.is_alive()

    def load(self, setup: Setup, before: Setup | None = None) -> None:
        """As every engine.

        `before`: as in `Session.load`.
        """
        self.stop()
        self._post(lambda session: self._load(session, setup, before), self._load_failed)

    def unload(self) -> None:
        self.stop()
        self._post(self._unload, self._went_wrong)

    def generate(self, messages: Sequence[Message], terms: Terms = FREE) -> None:
        self._post(lambda session: self._generate(session, tuple(messages), terms), self._reply_failed)

    def forget(self) -> None:
        self._post(lambda session: session.forget(), self._went_wrong)

    def call(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        future: Future[Result] = Future()
        self._post(lambda session: settle(future, lambda: function(session, *arguments)), self._went_wrong)
        return future

    def ask(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        future: Future[Result] = Future()
        self._asked.put(lambda session: settle(future, lambda: function(session, *arguments)))
        self._post(self._answer, self._went_wrong)  # where no pass comes before it
        return future

    def _answer(self, session: protocol.Session) -> None:
        while not self._asked.empty():
            self._asked.get()(session)

    def stop(self) -> None:
        """Stop the current command, and those in the queue."""
        self._stopped = self._posted
        self._interrupt.set()

    def close(self, timeout: float = 2.0) -> None:
        """Stop everything and end the thread; waits for that at most `timeout` seconds. May be called twice."""
        if not self._closed:
            self._closed = True
            self._commands.put(None)  # before the stop, so that the session catches up no more behind that
            self.stop()
        self._thread.join(timeout)

    def _post(self, command: Callable[[protocol.Session], None], failed: Callable[[Exception], Event]) -> None:
        """`failed`: the event for what the command raises."""
        with self._handing:
            if self._idle:
                self._interrupt.set()
            self._posted += 1
            self._commands.put((self._posted, command, failed))

    def _run(self) -> None:
        leave_terminal_to_main_thread()
        # llama.cpp is imported here and at the first command: the window appears before that, and this thread must load it.
        posted = self._commands.get()
        if posted is None:
            return
        try:
            session = self._open_session(self.emit, self._interrupt)
        except Exception as error:
            _log.info("the engine could not begin", exc_info=error)
            session = Unopened(error)
        with self._handing:  # knobs that another thread sets now must not be lost
            session.knobs, self._session = self._knobs, session
        while posted is not None:
            number, command, failed = posted
            self._interrupt.clear()
            if number <= self._stopped:
                self._interrupt.set()
            try:
                command(session)
            except Exception as error:
                self.emit(failed(error))
            self._enter("")
            posted = self._next(session)
        try:
            session.close()
        except Exception as error:
            self.emit(self._went_wrong(error))

    def _next(self, session: protocol.Session) -> _Command | None:
        """The next command; meanwhile the session catches up and rests, once."""
        for seconds, stage, does in ((IDLE_S, "reading", session.catch_up), (REST_S, "", session.rest)):
            with suppress(Empty):
                return self._commands.get(timeout=seconds)
            with self._handing:
                self._interrupt.clear()
                self._idle = self._commands.empty()
            try:
                if self._idle:
                    self._enter(stage)
                    does()
            except Exception as error:
                self.emit(self._went_wrong(error))
            self._enter("")
            with self._handing:
                self._idle = False
        return self._commands.get()

    def emit(self, event: Event) -> None:
        if isinstance(event, Loading):
            self._enter(f"loading {event.what}")
        super().emit(event)
        if isinstance(event, Prompt | RoundDone) and self._session is not None:
            self._answer(self._session)

    def _enter(self, stage: str) -> None:
        if stage != self._stage:
            self._stage = stage
            self._tell(self._watch, stage, self._setup)

    def _load(self, session: protocol.Session, setup: Setup, before: Setup | None) -> None:
        self._setup = setup
        self._enter("loading")
        session.load(setup, before)

    def _load_failed(self, error: Exception) -> Event:
        if isinstance(error, LoadError):
            return LoadFailed(str(error), error.without_draft, error.without_servers)
        if isinstance(error, SpectuiError):
            return LoadFailed(str(error))
        return LoadFailed(self._unexpected(error, "load other models, or these again"))

    def _unload(self, session: protocol.Session) -> None:
        try:
            session.close()
        finally:
            self.emit(Unloaded())

    def _generate(self, session: protocol.Session, messages: Sequence[Message], terms: Terms) -> None:
        self._enter("decoding")
        session.wants_probabilities = self.wants_probabilities
        session.generate(messages, terms)

    def _reply_failed(self, error: Exception) -> Event:
        if isinstance(error, NoRoomError):
            return Failed(str(error), error.to_drop, no_room=True, refused=True, tokens=error.tokens, n_ctx=error.n_ctx)
        if isinstance(error, SpectuiError):
            return Failed(str(error), refused=isinstance(error, RefusedError))
        return Failed(self._unexpected(error, "the next prompt may work"))

    def _went_wrong(self, error: Exception) -> Event:
        return Notice(self._unexpected(error, "start spectui again if its memory is not free"))

    def _unexpected(self, error: Exception, what_to_do: str) -> str:
        """A sentence for a fault of spectui itself. The traceback goes to the log, and the thread continues."""
        _log.exception("unexpected error in the engine", exc_info=error)
        return f"Something in spectui broke ({type(error).__name__}: {error}); {what_to_do}."
