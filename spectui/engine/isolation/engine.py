"""The engine of the chat: in this process, or in one of its own where a device can end it: a GPU's driver, or an RPC server.

When such a process ends, the reply ends with a sentence, and the models are loaded again, without the servers. When it ends
while it loads another placement of the models, they are loaded as before; without the servers, if these are to blame.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from spectui.engine.events import Event, Failed, LoadFailed, Message, Notice
from spectui.engine.isolation.process import EngineProcess, needs_process
from spectui.engine.loading.plan import way_out
from spectui.engine.protocol import SessionEngine
from spectui.engine.worker import Emitter, Watch, Worker
from spectui.knobs import Knobs, Setup
from spectui.llama.devices.rpc import without_servers


class ChatEngine(Emitter):
    """Implements `protocol.Engine`."""

    def __init__(self, knobs: Knobs | None = None, watch: Watch = lambda stage, setup: None) -> None:
        super().__init__()
        # This worker stays for good: libgomp slows down once two threads of a process have computed.
        self._worker = Worker(knobs, watch)
        self._worker.events, self._worker.listen = self.events, self._hear
        self.process: EngineProcess | None = None
        """The process that the engine runs in; None for this one."""
        self._loaded_here = False  # the worker has models
        self._setup = Setup()
        # Reentrant, because a command to a process that has just ended ends it here, in the same thread.
        self._switching = threading.RLock()

    @property
    def _engine(self) -> SessionEngine:
        return self.process or self._worker

    def _hear(self, event: Event) -> None:
        self.listen(event)

    @property
    def knobs(self) -> Knobs:
        return self._worker.knobs

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        self._worker.knobs = knobs
        if (process := self.process) is not None:
            process.knobs = knobs

    def load(self, setup: Setup) -> None:
        with self._switching:
            self._load(setup)

    def _load(self, setup: Setup) -> None:
        before, isolated = self.process, needs_process(setup)
        read_once = setup.op_offload_min_batch != self._setup.op_offload_min_batch
        if before is not None and (not isolated or setup.rpc or self._setup.rpc or read_once):
            # ggml keeps the servers that it knows, and ends the process if it lists the devices of one that is gone. Also, a
            # server forgets the graphs of all models when one is freed, but the client has the next one computed again.
            self.process = None
            before.kill()
        if isolated and self.process is None:
            if self._loaded_here:
                self._worker.stop()
                self._worker.call(lambda session: session.close())
                self._loaded_here = False
            process = self.process = EngineProcess(self.knobs, setup, after=before)
            process.events, process.listen = self.events, self._hear
            process.on_end = partial(self._end, process)
            process.on_refused = partial(self._refused, process)
        elif not isolated:
            if before is not None:
                self._worker.call(lambda session: before.wait())
            self._loaded_here = True
        self._setup = setup
        self._engine.load(setup)

    def unload(self) -> None:
        with self._switching:
            before, self.process = self.process, None
            if before is not None:  # a GPU keeps some memory for a process as long as it lives
                before.kill()
                self._worker.call(lambda session: before.wait())
            self._loaded_here = False
            self._worker.unload()

    def generate(self, messages: Sequence[Message], at: float | None = None) -> None:
        with self._switching:
            self._engine.generate(messages, at)

    def stop(self) -> None:
        self._engine.stop()

    def close(self, timeout: float = 2.0) -> None:
        """Stop everything, and end process and thread; waits at most `timeout` seconds for each. May be called twice."""
        with self._switching:
            process, self.process = self.process, None
            if process is not None:
                process.close(timeout)
            self._worker.close(timeout)

    def _end(self, process: EngineProcess, reason: str, pending: Sequence[str]) -> None:
        """The process has ended by itself, during the first of these commands."""
        with self._switching:
            if process is not self.process:
                return
            self.process = None
            loads = pending.count("load")
            if loads and pending[0] == "load":
                self._end_loading(process, reason, loads)
                if "generate" in pending:
                    self._emit(Failed(f"{reason}: send the prompt again."))
                return
            # If a load is in the queue, load its set-up; else the set-up that was loaded, which may differ from the
            # requested one.
            setup = self._setup if loads else process.loaded or self._setup
            servers = bool(setup.rpc)
            after = "the models are loaded on this machine alone" if servers else "the models are loaded again"
            if "generate" in pending:
                self._emit(Failed(f"{reason}: what was written is kept, and {after}."))
            else:
                self._emit(Notice(f"{reason}: {after}."))
            self._load(without_servers(setup) if servers else setup)

    def _refused(self, process: EngineProcess, failed: LoadFailed, before: Setup) -> bool:
        """The process could not load a set-up because of its servers, nor load `before` again."""
        with self._switching:
            return process is self.process and self._load_here(failed, before)

    def _load_here(self, failed: LoadFailed, before: Setup) -> bool:
        """Load `before` without its servers, if another placement of its models failed. Returns whether it was one."""
        if not self._setup.same_models(before):
            return False
        self._emit(Notice(f"{failed.message} The models are loaded on this machine alone."))
        self._load(without_servers(before))
        return True

    def _end_loading(self, process: EngineProcess, reason: str, loads: int) -> None:
        """The process ended during a load. If only the placement differs, load the previous set-up again."""
        failed, before = self._setup, process.loaded
        if failed.rpc and (process.hung or reason.startswith("The RPC server")):
            gone = LoadFailed(f"{reason}.", without_servers=True)
            if before is None or not self._load_here(gone, before):
                self._emit(gone)
            return
        sentence = f"{reason}: {way_out(failed)}."
        for _ in range(loads - 1):  # each command ends with an event
            self._emit(LoadFailed(sentence))
        if loads > 1:  # the last one has not begun
            self._load(failed)
        elif before is not None and failed.same_models(before):
            self._emit(Notice(f"{sentence} The models are loaded as before."))
            self._load(before)
        else:
            self._emit(LoadFailed(sentence))
