"""Memory and use of each GPU and of the host, now and over the last minutes; and the models."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from spectui.chat.figures.format import UNKNOWN, count, percent, size
from spectui.chat.sentences import counted_lines
from spectui.engine.events import Device, ModelInfo, ThreadsInUse
from spectui.telemetry.gpus import Gpu, find_gpu, joules_per_token
from spectui.telemetry.monitor import Telemetry
from spectui.text import printable
from spectui.ui.dashboard.devices import Usage, usage
from spectui.ui.figures import columns
from spectui.ui.textual_patches.direct_render import DirectRenderWidget
from spectui.ui.widgets.line_widget import LABEL, FigureLines, Line, bar_of, labelled, wrapped

MINUTES = 2
"""Seconds of history; the monitor reads once a second."""

_GPUS = ("gpu", "igpu")
"""Kinds of devices that the monitor may have figures of."""

_HOST = Device("host", "", "cpu", 0, 0)
"""Where no models are loaded yet."""

_FIGURE = 20
"""Width of a row's figure, in cells."""


class MachinePage(FigureLines, DirectRenderWidget):
    """For each GPU and the host: memory and use, with their history."""

    HELP = """\
## Machine

Memory and use of each GPU (NVML, or what ggml says) and of the host; the columns behind are the last two minutes. Below, the
devices: **{devices}**, arrows and Enter pick those for the models.
"""

    DEFAULT_CSS = """
    MachinePage { height: 1fr; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._past: deque[Telemetry] = deque(maxlen=60 * MINUTES)
        self._devices: tuple[Device, ...] = ()
        self._models: tuple[ModelInfo, ...] = ()
        self._threads = ThreadsInUse(0, 0)
        self._served = False

    def update_telemetry(self, telemetry: Telemetry) -> None:
        """Add the monitor's reading. The same reading counts once."""
        if not self._past or self._past[-1] is not telemetry:
            self._past.append(telemetry)
            self.redraw()

    def update_devices(self, devices: tuple[Device, ...], served: bool = False) -> None:
        """Show ggml's devices: their memory is shown where NVML knows none. `served`: the models are a server's, and this
        machine's figures would be taken for its."""
        self._devices, self._served = devices, served
        self.redraw()

    def update_models(self, models: Iterable[ModelInfo]) -> None:
        """Show the loaded models."""
        self._models = tuple(models)
        self.redraw()

    def update_threads(self, threads: ThreadsInUse) -> None:
        """Show how many threads the target computes with, if it uses fewer than it could."""
        self._threads = threads
        self.redraw()

    def build_lines(self) -> list[Line]:
        """Devices and models. The history is as high as the room allows. Without room for the devices, the host alone: the
        table below has all. The remarks about the models are left out where the models would be cut.
        """
        models, room = self._model_lines(self.size.width), self.size.height
        if self._served:
            return models[1:]
        beside = room - len(models)
        for rows, most in ((2, beside), (1, beside), (1, room), (0, room)):
            lines = self._device_lines(self.size.width, rows, self._devices)
            if len(lines) <= most:
                break
        else:
            lines = self._device_lines(self.size.width, 0, ())
        if len(lines) + len(models) > room:
            models = self._model_lines(self.size.width, remarks=False)
        return [*lines, *models]

    def _device_lines(self, width: int, rows: int, devices: Iterable[Device]) -> list[Line]:
        """These devices with their figures, each with `rows` of history."""
        lines: list[Line] = []
        gap: list[Line] = [[]] if rows else []
        if not any(device.kind in _GPUS for device in self._devices) and self._past and self._past[-1].gpu_reason:
            lines = [*wrapped("no GPU", self._past[-1].gpu_reason, width, "label"), []]
        for device in devices:
            if device.kind != "cpu":
                lines += [*self._device(device, width, rows), *gap]
        if (joules := self._joules()) is not None:
            lines += [labelled("energy", (f"{joules:.1f} J a token, of GPUs alone", "value")), *gap]
        host = next((device for device in self._devices if device.kind == "cpu"), _HOST)
        return [*lines, *self._device(host, width, rows), *self._taken_cores(width)]

    def _device(self, device: Device, width: int, rows: int) -> list[Line]:
        """A device: its name, its memory and how busy it is, with their history."""
        past: list[Telemetry | None] = [*self._past] or [None]
        uses = [usage(device, self._models, reading) for reading in past]
        now, title, gpu = uses[-1], _title(device), device.kind in _GPUS
        beside = self._beside(device, now)
        memory = "memory" if not gpu else "shared" if device.unified else "VRAM"
        figure = UNKNOWN if now.share is None else f"{_gigabytes(now.used)} of {_gigabytes(now.total)}"
        lines = [
            [(title[: max(4, width - len(beside))], "value"), (beside, "label")],
            *_row(memory, now.share, figure, [use.share if use.measured else None for use in uses], width, rows),
        ]
        if device.kind != "accel":  # the monitor has no figures of BLAS and its like
            busy = [use.busy for use in uses]
            lines += _row("use" if gpu else "processor", now.busy, percent(now.busy), busy, width, rows)
        return lines

    def _beside(self, device: Device, now: Usage) -> str:
        """What stands to the right of a device's name."""
        if device.kind in _GPUS:
            gpu = now.gpu or Gpu(0)
            return f"  {_whole(gpu.temperature)} °C {_whole(gpu.power)} W"
        own = self._past[-1].host.process if self._past and device.kind == "cpu" else None
        return f"  spectui {_gigabytes(own)}" if own is not None else ""

    def _model_lines(self, width: int, remarks: bool = True) -> list[Line]:
        """The models, with the remarks made at load, or without."""
        lines: list[Line] = []
        for role, model in zip(("target", "draft"), self._models, strict=False):
            weights, cells = size(model.bytes) if model.bytes else "", f"{count(model.n_ctx)} cells"
            about = (model.description, weights, cells if model.n_ctx else "")
            lines += [[], *wrapped(role, ", ".join(filter(None, about)), width)]
            for use in model.memory:
                parts = (("weights", use.weights), ("cells", use.cells), ("compute", use.compute))
                sizes = ", ".join(f"{name} {size(taken)}" for name, taken in parts if taken)
                lines += wrapped("", f"{use.device}: {sizes}", width, "label")
            if remarks:
                lines += wrapped("", f"kernels: {model.kernels_in_words}", width, "label") if model.kernels else []
                lines += wrapped("", model.remark, width, "label")
        for number, line in enumerate(counted_lines(self.figures.counted)):
            lines += wrapped("" if number else "server", line, width, "label")
        return lines

    def _joules(self) -> float | None:
        """Energy of a token while a reply is written, of the GPUs that models are on; None if it is unknown."""
        if not self._past or not self.figures.live:
            return None
        names = {use.device for model in self._models for use in model.memory}
        on = [device for device in self._devices if device.name in names and device.kind in _GPUS]
        return joules_per_token((find_gpu(self._past[-1].gpus, device.id) for device in on), self.figures.speed)

    def _taken_cores(self, width: int) -> list[Line]:
        now, most = self._threads
        if now == most:
            return []
        return wrapped("threads", f"{now} of {most}: other processes are busy on the other cores", width)


def _title(device: Device) -> str:
    name = "host" if device.kind == "cpu" else device.name
    about = f"  {device.kind_name}, {device.description}" if device is not _HOST else ""
    return printable(name + about).replace("\n", " ")


def _whole(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:.0f}"


def _row(name: str, part: float | None, figure: str, past: list[float | None], width: int, rows: int) -> list[Line]:
    """A bar with its figure, and below it the history as columns."""
    lines = [labelled(name, *bar_of(part, width - LABEL - _FIGURE), (f"{figure:>{_FIGURE}}", "value"))]
    if rows > 0 and any(share is not None for share in past):
        latest = past[-(width - LABEL) :]
        lines += [labelled("", (text, "accepted")) for text in columns(latest, rows)]
    return lines


def _gigabytes(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number / 1e9:.1f} GB"
