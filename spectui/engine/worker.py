"""The thread that makes every llama.cpp call. Implements `protocol.Engine`."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from spectui.engine.events import Event, Failed, LoadFailed, Loading, Message
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.llama.interrupt import Interrupt

if TYPE_CHECKING:
    from spectui.engine.session import Session

_NICE = 5
"""Added to the thread's nice value."""

Watch = Callable[[str, Setup], None]
"""Is told, in the worker's thread, what begins with which set-up: "loading draft", "decoding"; "": nothing goes on."""

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class Worker:
    """Commands go down a queue, events come up a deque; neither side ever waits for the other."""

    def __init__(self, knobs: Knobs | None = None, watch: Watch = lambda stage, setup: None) -> None:
        self._knobs = knobs or Knobs()
        self._watch = watch
        self._stage = ""
        self._setup = Setup()
        self.events: deque[Event] = deque()
        self._interrupt = Interrupt()
        self._commands: SimpleQueue[tuple[int, Callable[[Session], None]] | None] = SimpleQueue()
        self._posted = 0
        self._stopped = 0
        self._session: Session | None = None
        self._handing = threading.Lock()
        self._closed = False
        # A daemon, because a target pass on a slow machine must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="spectui-engine", daemon=True)
        self._thread.start()

    @property
    def knobs(self) -> Knobs:
        """The snapshot that the next round reads."""
        return self._knobs

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        with self._handing:
            self._knobs = knobs
            if self._session is not None:
                self._session.knobs = knobs

    def load(self, setup: Setup) -> None:
        """Load (or reload) the models. A reply in progress is stopped first. Ends in Loaded or LoadFailed."""
        self.stop()
        self._post(lambda session: self._load(session, setup))

    def generate(self, messages: Sequence[Message]) -> None:
        """Answer the conversation. Ends in Finished or Failed."""
        self._post(lambda session: self._generate(session, tuple(messages)))

    def call(self, function: Callable[[Session], Result]) -> Future[Result]:
        """Call `function` with the session, in the engine's thread. The future has what it returns or raises.

        Events come up the deque as usual; a LoadFailed in place of a result: llama.cpp could not be loaded.
        """
        future: Future[Result] = Future()

        def command(session: Session) -> None:
            try:
                future.set_result(function(session))
            except Exception as error:
                future.set_exception(error)

        self._post(command)
        return future

    def stop(self) -> None:
        """End what is being done, and what is asked for but not begun."""
        self._stopped = self._posted
        self._interrupt.set()

    def close(self, timeout: float = 2.0) -> None:
        """Stop everything and end the thread; wait for it at most `timeout` seconds. May be called twice."""
        if not self._closed:
            self._closed = True
            self.stop()
            self._commands.put(None)
        self._thread.join(timeout)

    def _post(self, command: Callable[[Session], None]) -> None:
        self._posted += 1
        self._commands.put((self._posted, command))

    def _run(self) -> None:
        _give_way()
        # Imported here, when something is asked: the window is there before llama.cpp is, and this is the thread that loads it.
        posted = self._commands.get()
        if posted is None:
            return
        try:
            from spectui.engine.session import Session
        except Exception as error:  # its library may be missing, or be built for another machine
            _log.exception("llama.cpp could not be loaded", exc_info=error)
            while posted is not None:
                self.events.append(LoadFailed(f"llama.cpp could not be loaded ({error}): reinstall llama-cpp-python."))
                posted = self._commands.get()
            return

        session = Session(self._tell, self._interrupt)
        with self._handing:  # what is turned just now must not be lost
            session.knobs, self._session = self._knobs, session
        while posted is not None:
            number, command = posted
            self._interrupt.clear()
            if number <= self._stopped:
                self._interrupt.set()
            command(session)
            self._enter("")
            posted = self._commands.get()
        session.close()

    def _tell(self, event: Event) -> None:
        if isinstance(event, Loading):
            self._enter(f"loading {event.what}")
        self.events.append(event)

    def _enter(self, stage: str) -> None:
        if stage != self._stage:
            self._stage = stage
            self._watch(stage, self._setup)

    def _load(self, session: Session, setup: Setup) -> None:
        from spectui.engine.pair import DraftError

        self._setup = setup
        self._enter("loading")
        try:
            session.load(setup)
        except SpectuiError as error:
            self.events.append(LoadFailed(str(error), without_draft=isinstance(error, DraftError)))
        except Exception as error:
            self.events.append(LoadFailed(self._unexpected(error, "load other models, or these again")))

    def _generate(self, session: Session, messages: Sequence[Message]) -> None:
        self._enter("decoding")
        try:
            session.generate(messages)
        except SpectuiError as error:
            self.events.append(Failed(str(error)))
        except Exception as error:
            self.events.append(Failed(self._unexpected(error, "the next prompt may work")))

    def _unexpected(self, error: Exception, way_on: str) -> str:
        """A fault of spectui's own: it goes to the log whole, and the thread lives on."""
        _log.exception("unexpected error in the engine", exc_info=error)
        return f"Something in spectui broke ({type(error).__name__}: {error}); {way_on}."


def _give_way() -> None:
    """Lower this thread's priority a little, and with it that of the OpenMP threads that it will start.

    They spin at every barrier on every core; without this a key that is typed waits for the end of a time slice.
    """
    if sys.platform == "linux":  # elsewhere a thread has no nice value of its own
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + _NICE))
