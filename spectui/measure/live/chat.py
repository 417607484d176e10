"""A measurement of a chat's pair: the chat's models are freed, a process measures, and what it found stays."""

from __future__ import annotations

from spectui.chat.models import LoadedModels
from spectui.knobs import Knobs
from spectui.measure.bench.summary import Winner
from spectui.measure.live.command import arguments
from spectui.measure.live.process import MeasurementProcess, View


class ChatMeasurement:
    """Belongs to one thread, which calls `poll` now and then."""

    def __init__(self, models: LoadedModels, view: View | None = None) -> None:
        """`view`: what was found the last time."""
        self.models = models
        self.view = view or View()
        """What was found."""
        self.process: MeasurementProcess | None = None
        """The process that measures, or the one that did last."""
        self._asked: tuple[str, ...] | None = None  # the command that waits until the models are freed
        self._width = 100
        self._seen = -1

    def close(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.close()

    @property
    def waiting(self) -> bool:
        """It waits until the chat's models are freed."""
        return self._asked is not None

    @property
    def running(self) -> bool:
        """It goes on, or waits for the memory of the chat's models."""
        return self.waiting or (self.process is not None and self.process.running)

    @property
    def winner(self) -> Winner | None:
        """What was found to be fastest, once it has ended."""
        return None if self.running else self.view.winner

    def begin(self, options: str, knobs: Knobs, width: int = 100) -> None:
        """Free the chat's models, then measure with these options. Raises UsageError if they cannot be read.

        `width`: columns of what is shown."""
        self._asked, self._width = arguments(self.models.setup, knobs, options), width
        self.process, self.view = None, View()
        if not self.models.measured:
            self.models.unload()
        self.poll()

    def stop(self) -> bool:
        """Stop what is measured; what was found stays. The second call ends its process. False: nothing goes on,
        or does not end by that either."""
        if self._asked is not None:
            self._asked = None
        elif self.process is not None and self.process.running and self.process.stops < 2:
            self.process.stop()
        else:
            return False
        return True

    def poll(self) -> bool:
        """Begin as soon as the models are freed, and take what was found since. True: something is new."""
        if self._asked is not None and self.models.unloaded:
            self.process, self._asked, self._seen = MeasurementProcess(self._asked, self._width), None, -1
        if self.process is None or self.process.changes == self._seen:
            return False
        self._seen, self.view = self.process.changes, self.process.view
        return True
