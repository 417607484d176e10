"""Measurements of a chat's pair, one at a time: the chat's models are freed, a process measures, and what it found stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from spectui.chat.models import LoadedModels
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.gguf_files.compatibility import smaller_drafts
from spectui.knobs import Knobs
from spectui.measure.bench.summary import Winner
from spectui.measure.live.command import MEASUREMENTS, arguments, compared
from spectui.measure.live.process import MeasurementProcess, View

DRAFTS = 4
"""Drafts that a comparison proposes."""


class ChatMeasurements:
    """Belongs to one thread, which calls `poll` now and then."""

    def __init__(self, models: LoadedModels, views: dict[str, View]) -> None:
        """`views`: what was measured last, by the measurement's name. It may outlive this object."""
        self.models = models
        self.views = views
        self.chosen = MEASUREMENTS[0]
        self.options = {each.name: each.options for each in MEASUREMENTS}
        """What the command is given beside the models, by the measurement's name."""
        self.last_process: MeasurementProcess | None = None
        """The process that measures, or the one that did last."""
        self._measured = self.chosen  # by the process
        self._asked: tuple[str, ...] | None = None  # the command that waits until the models are freed
        self._width = 100
        self._seen = -1

    def close(self) -> None:
        """End the process, if there is one."""
        if self.last_process is not None:
            self.last_process.close()

    @property
    def waiting(self) -> bool:
        """A measurement waits until the chat's models are freed."""
        return self._asked is not None

    @property
    def running(self) -> bool:
        """A measurement goes on, or waits for the memory of the chat's models."""
        return self.waiting or (self.last_process is not None and self.last_process.running)

    @property
    def process(self) -> MeasurementProcess | None:
        """The process of the chosen measurement; None where another one was measured last, or none."""
        return self.last_process if self.chosen is self._measured else None

    @property
    def view(self) -> View | None:
        """What the chosen measurement has found."""
        return self.views.get(self.chosen.name)

    @property
    def winner(self) -> Winner | None:
        """What the chosen measurement found to be fastest, once it has ended."""
        return self.view.winner if self.view is not None and not self.running else None

    @property
    def can_resume(self) -> bool:
        """The chosen measurement is one that goes on where it was stopped, if the command is given again."""
        return self.chosen is MEASUREMENTS[0]

    def choose(self, name: str) -> None:
        """Choose another measurement, while none is running."""
        self.chosen = next(each for each in MEASUREMENTS if each.name == name)

    def begin(self, options: str, knobs: Knobs, width: int = 100) -> None:
        """Free the chat's models, then measure with these options. Raises UsageError if they cannot be read.

        `width`: columns of what is shown."""
        self._asked, self._width = arguments(self.chosen, self.models.setup, knobs, options), width
        self.options[self.chosen.name] = options
        self.last_process, self._measured = None, self.chosen
        self.views.pop(self.chosen.name, None)
        if not self.models.measured:
            self.models.unload()
        self.poll()

    def stop(self) -> bool:
        """Stop what is measured; what was found stays. The second call ends its process. False: nothing goes on,
        or does not end by that either."""
        process = self.last_process
        if self._asked is not None:
            self._asked = None
        elif process is not None and process.running and not process.killed:
            (process.kill if process.stopped else process.stop)()
        else:
            return False
        return True

    def poll(self) -> bool:
        """Begin as soon as the models are freed, and take what was found since. True: something is new."""
        if self._asked is not None and self.models.unloaded:
            self.last_process, self._asked, self._seen = MeasurementProcess(self._asked, self._width), None, -1
        process = self.last_process
        if process is None or process.changes == self._seen:
            return False
        self._seen = process.changes
        self.views[self._measured.name] = process.view
        return True

    def propose(self, options: str) -> None:
        """Propose these options for a comparison of drafts, unless a person has changed them."""
        last = MEASUREMENTS[-1]
        if self.options[last.name] == last.options:
            self.options[last.name] = options


def drafts_to_compare(models: LoadedModels, catalogue: ModelCatalogue, cancelled: Callable[[], bool]) -> str:
    """Options that compare the loaded draft and smaller models of the target's vocabulary; "" where there are none.

    Reads the disk, so the window calls it in a worker thread.
    """
    setup = models.setup
    beside = [Path(path).expanduser() for path in (setup.model, setup.draft) if path]
    headers = list(catalogue.scan(beside, cancelled))
    path = str(Path(setup.model or "").expanduser().absolute())
    target = next((header for header in headers if header.path == path), None)
    found = [] if target is None else [header.path for header in smaller_drafts(target, headers)]
    loaded = [str(path.absolute()) for path in beside[1:]]  # as the catalogue names it, so that it is not listed twice
    drafts: Sequence[str] = list(dict.fromkeys([*loaded, *found]))[:DRAFTS]
    return compared(drafts) if drafts else ""


def failed(process: MeasurementProcess) -> bool:
    """It ended by itself with an error."""
    return not process.running and process.code != 0 and not process.stopped
