"""An engine in a process of its own, which a device can end: a GPU's driver, or an RPC server.

When such a process ends, the reply ends with a sentence, and the models are loaded again, without the servers. When it ends
while it loads another placement of the models, they are loaded as before; without the servers, if these are to blame.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from operator import methodcaller
from typing import Any, TypeVar

from spectui.engine.events import FREE, Event, Failed, Finished, LoadFailed, Message, Notice, Terms, Unloaded
from spectui.engine.isolation.link import Link
from spectui.engine.loading.plan import way_out
from spectui.engine.protocol import SessionEngine
from spectui.engine.worker import Emitter, Watch, Worker
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.llama.build import isolated_backends
from spectui.llama.devices.rpc import without_servers

Value = TypeVar("Value")


def engine_for(
    setup: Setup, knobs: Knobs | None = None, watch: Watch = lambda stage, setup: None, restarts: bool = False
) -> SessionEngine:
    """An engine for this set-up, in a process of its own where llama.cpp has devices that can end that, else in a thread here.

    `watch`: as in `Worker`. `restarts`: as in `EngineProcess`.
    """
    return EngineProcess(knobs, setup, watch, restarts) if isolated_backends() else Worker(knobs, watch)


class EngineProcess(Emitter):
    """Implements `protocol.SessionEngine`. Models that `load` has loaded are loaded again when their process ends; those that a
    call has loaded only with `restarts`."""

    def __init__(
        self,
        knobs: Knobs | None = None,
        setup: Setup | None = None,
        watch: Watch = lambda stage, setup: None,
        restarts: bool = False,
    ) -> None:
        """`setup`: what the first call loads. `watch` is told of replies: nothing else is lost with this process."""
        super().__init__()
        self._watch = watch
        self._knobs = knobs or Knobs()
        self.link: Link | None = None
        """The process; None before the first command, and when it has ended."""
        self._setup = setup or Setup()
        self._restarts = restarts  # also when `load` has loaded models
        self._why = ""  # why the process ended that is not started again
        self._closed = False
        # Reentrant, because a command to a process that has just ended ends it here, in the same thread.
        self._switching = threading.RLock()

    @property
    def knobs(self) -> Knobs:
        return self._knobs

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        self._knobs = knobs
        if (link := self.link) is not None:
            link.post("knobs", knobs)

    def load(self, setup: Setup) -> None:
        with self._switching:
            if not self._closed:
                self._restarts = True
                self._load(setup)

    def _load(self, setup: Setup) -> None:
        before = self.link
        if before is not None and (setup.rpc or self._setup.rpc):
            # ggml keeps the servers that it knows, and ends the process if it lists the devices of one that is gone. Also, a
            # server forgets the graphs of all models when one is freed, but the client has the next one computed again.
            self.link = None
            before.kill()
        self._setup = setup
        link = self._running(after=before)
        link.begin("load", setup, link.loaded)

    def _running(self, after: Link | None = None) -> Link:
        if self.link is None:
            self.link = Link(self, self._setup, self._knobs, after)
        return self.link

    def unload(self) -> None:
        with self._switching:
            before, self.link = self.link, None
            if before is not None:
                before.kill()
            threading.Thread(target=self._tell_unloaded, args=(before,), name="spectui-unload", daemon=True).start()

    def _tell_unloaded(self, before: Link | None) -> None:
        if before is not None:  # a GPU keeps some memory for a process as long as it lives
            before.wait()
        self.emit(Unloaded())

    def generate(self, messages: Sequence[Message], terms: Terms = FREE) -> None:
        with self._switching:
            if not self._closed:
                self._tell(self._watch, "decoding", self._setup)
                self._running().begin("generate", tuple(messages), terms)

    def emit(self, event: Event) -> None:
        if isinstance(event, Finished | Failed | LoadFailed | Unloaded):
            self._tell(self._watch, "", self._setup)
        super().emit(event)

    def forget(self) -> None:
        if self.link is not None:
            self.call(methodcaller("forget"))

    def call(self, function: Callable[..., Value], *arguments: Any) -> Future[Value]:
        """As in `SessionEngine`, with a function that can be pickled."""
        return self._call("call", function, *arguments)

    def ask(self, function: Callable[..., Value], *arguments: Any) -> Future[Value]:
        """The same."""
        return self._call("ask", function, *arguments)

    def _call(self, name: str, function: Callable[..., Value], *arguments: Any) -> Future[Value]:
        with self._switching:
            if self._closed or self._why:
                failed = Future[Value]()
                failed.set_exception(SpectuiError(f"{self._why or 'The engine has ended'}."))
                return failed
            return self._running().call(name, function, *arguments)

    def stop(self) -> None:
        if (link := self.link) is not None:
            link.stop()

    def close(self, timeout: float = 2.0) -> None:
        """Stop everything and end the process; waits at most `timeout` seconds for it. May be called twice."""
        with self._switching:
            self._closed = True
            link, self.link = self.link, None
        if link is not None:
            link.close(timeout)

    def ended(self, link: Link, reason: str, pending: Sequence[str]) -> None:
        """As in `link.Owner`."""
        with self._switching:
            if link is not self.link:
                return
            self.link = None
            if not self._restarts:
                self._why = reason
                return
            loads = pending.count("load")
            if loads and pending[0] == "load":
                self._end_loading(link, reason, loads)
                if "generate" in pending:
                    self.emit(Failed(f"{reason}: send the prompt again."))
                return
            # If a load is in the queue, load its set-up; else the set-up that was loaded, which may differ from the
            # requested one.
            setup = self._setup if loads else link.loaded or self._setup
            after = "the models are loaded on this machine alone" if setup.rpc else "the models are loaded again"
            if "generate" in pending:
                self.emit(Failed(f"{reason}: what was written is kept, and {after}."))
            else:
                self.emit(Notice(f"{reason}: {after}."))
            self._load(without_servers(setup) if setup.rpc else setup)

    def refused(self, link: Link, failed: LoadFailed, before: Setup) -> bool:
        """As in `link.Owner`."""
        with self._switching:
            return link is self.link and self._load_here(failed, before)

    def _load_here(self, failed: LoadFailed, before: Setup) -> bool:
        """Load `before` without its servers, if another placement of its models failed. Returns whether it was one."""
        if not self._setup.same_models(before):
            return False
        self.emit(Notice(f"{failed.message} The models are loaded on this machine alone."))
        self._load(without_servers(before))
        return True

    def _end_loading(self, link: Link, reason: str, loads: int) -> None:
        """The process ended during a load. If only the placement differs, load the previous set-up again."""
        failed, before = self._setup, link.loaded
        if failed.rpc and (link.hung or reason.startswith("The RPC server")):
            gone = LoadFailed(f"{reason}.", without_servers=True)
            if before is None or not self._load_here(gone, before):
                self.emit(gone)
            return
        sentence = f"{reason}: {way_out(failed)}."
        for _ in range(loads - 1):  # each command ends with an event
            self.emit(LoadFailed(sentence))
        if loads > 1:  # the last one has not begun
            self._load(failed)
        elif before is not None and failed.same_models(before):
            self.emit(Notice(f"{sentence} The models are loaded as before."))
            self._load(before)
        else:
            self.emit(LoadFailed(sentence))
