"""The engine's process: commands come in by standard input, and events go out by standard output, pickled.

`link.Link` starts it and is at the other end. A command is (name, arguments); a message to the parent is an event,
or one of the records below.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

from spectui.engine.events import Event, Guess
from spectui.engine.protocol import Session
from spectui.engine.worker import Worker


class Result(NamedTuple):
    """What a "call" or "ask" has returned or raised. It is pickled by itself, as the call is: what cannot be read at the other
    end is that call's error, and no other message is lost."""

    command: str
    pickled: bytes

    @classmethod
    def of(cls, command: str, done: Future[Any]) -> Result:
        """The result, or the exception, of a call that has ended."""
        error = done.exception()
        try:
            return cls(command, pickle.dumps((None if error else done.result(), error), pickle.HIGHEST_PROTOCOL))
        except Exception as problem:  # somebody waits for it
            return cls(command, pickle.dumps((None, RuntimeError(repr(problem)))))

    def outcome(self) -> Any:
        """Returns or raises what the call did."""
        value, error = pickle.loads(self.pickled)
        if error is not None:
            raise error
        return value


class LastWords(NamedTuple):
    """ggml's last message before it ended the process, or which model file was lost."""

    text: str


class _Worker(Worker):
    """Tells the parent guesses too."""

    def emit(self, event: Event) -> None:
        super().emit(event)
        if isinstance(event, Guess):
            self.listen(event)


def main() -> None:
    """Run commands until standard input ends, because the parent closed it or died."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers the terminal; only Windows has not blocked it
    commands, out = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Text printed by libraries must not mix with the messages.
    os.dup2(2 if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY), 1)
    sending = threading.Lock()

    def send(message: object) -> None:
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        with sending, suppress(OSError):  # the parent is gone, and standard input ends
            out.write(data)
            out.flush()

    worker = _Worker()
    worker.events, worker.listen = deque(maxlen=0), send
    worker.call(lambda session: _report_abort(send))
    with suppress(EOFError):
        while True:
            name, arguments = pickle.load(commands)
            _obey(worker, send, name, arguments)
    worker.close()
    os._exit(0)  # an unfinished pass must not keep the process alive


def _obey(worker: Worker, send: Callable[[object], None], name: str, arguments: tuple[Any, ...]) -> None:
    if name == "knobs":
        (worker.knobs,) = arguments
    elif name in ("call", "ask"):
        getattr(worker, name)(_call, *arguments).add_done_callback(lambda done: send(Result.of(name, done)))
    else:
        getattr(worker, name)(*arguments)


def _call(session: Session, pickled: bytes) -> Any:
    function, arguments = pickle.loads(pickled)
    return function(session, *arguments)


def _report_abort(send: Callable[[object], None]) -> None:
    from spectui.llama.last_words import on_abort

    on_abort(lambda text: send(LastWords(text)))


if __name__ == "__main__":
    # Pickle finds the records by the module's name, which is not __main__ at the other end.
    from spectui.engine.isolation import child

    child.main()
