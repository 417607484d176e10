"""Memory and use of each GPU and of the host, now and over the last minutes; and the models."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from spectui.chat.device_choice import used_memory
from spectui.chat.figures.format import UNKNOWN, count, percent
from spectui.chat.sentences import counted_lines
from spectui.engine.events import Device, ModelInfo, ThreadsInUse
from spectui.telemetry.gpus import Gpu, find_gpu, joules_per_token
from spectui.telemetry.monitor import Telemetry
from spectui.text import printable
from spectui.ui.dashboard.pages.page import Page
from spectui.ui.dashboard.plot import columns
from spectui.ui.widgets.line_widget import LABEL, Line, bar_of, labelled, wrapped

MINUTES = 2
"""Seconds of history; the monitor reads once a second."""

BRIEF = -1
"""Rows of history of a GPU that is shown in one line."""

_GPUS = ("gpu", "igpu")
"""Kinds of devices that the monitor may have figures of."""


class MachinePage(Page):
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

    def update_telemetry(self, telemetry: Telemetry) -> None:
        """Add the monitor's reading. The same reading counts once."""
        if not self._past or self._past[-1] is not telemetry:
            self._past.append(telemetry)
            self.redraw()

    def update_devices(self, devices: tuple[Device, ...]) -> None:
        """Show ggml's devices: their memory is shown where NVML knows none."""
        self._devices = devices
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
        """GPUs, host, models. The history is as high as the room allows; many GPUs get one line each. The remarks about the
        models are left out where the models would be cut.
        """
        models, room = self._model_lines(self.size.width), self.size.height
        beside = room - len(models)
        for rows, owners, most in (
            (2, True, beside), (1, True, beside), (1, True, room), (1, False, room),
            (0, True, room), (0, False, room), (BRIEF, False, room),
        ):  # fmt: skip
            lines = self._device_lines(self.size.width, rows, owners)
            if len(lines) <= most:
                break
        if len(lines) + len(models) > room:
            models = self._model_lines(self.size.width, remarks=False)
        return [*lines, *models]

    def _device_lines(self, width: int, rows: int, owners: bool) -> list[Line]:
        """Every device with its figures, each with `rows` of history; with the owners of a GPU's memory, or without."""
        lines: list[Line] = []
        if not any(device.kind in _GPUS for device in self._devices) and self._past and self._past[-1].gpu_reason:
            lines = [*wrapped("no GPU", self._past[-1].gpu_reason, width, "label"), []]
        for device in self._devices:
            if device.kind != "cpu":
                gpu = device.kind in _GPUS
                lines += self._gpu(device, width, rows, owners) if gpu else _accelerator(device, width, rows)
                lines += [[]] if rows > 0 else []
        if (joules := self._joules()) is not None:
            lines += [
                labelled("energy", (f"{joules:.1f} J a token, of GPUs alone", "value")),
                *([[]] if rows > 0 else []),
            ]
        return [*lines, *self._host(width, rows)]

    def _model_lines(self, width: int, remarks: bool = True) -> list[Line]:
        """The models, with the remarks made at load, or without."""
        lines: list[Line] = []
        for role, model in zip(("target", "draft"), self._models, strict=False):
            weights, cells = _gigabytes(model.bytes) if model.bytes else "", f"{count(model.n_ctx)} cells"
            about = (model.description, weights, cells if model.n_ctx else "")
            lines += [[], *wrapped(role, ", ".join(filter(None, about)), width)]
            for use in model.memory:
                parts = (("weights", use.weights), ("cells", use.cells), ("compute", use.compute))
                sizes = ", ".join(f"{name} {_gigabytes(size)}" for name, size in parts if size)
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

    def _gpu(self, device: Device, width: int, rows: int, owners: bool) -> list[Line]:
        gpus = [find_gpu(each.gpus, device.id) for each in self._past]
        now = gpus[-1] if gpus else None
        name = _title(device)
        if now is not None and now.lost:
            return [[(name[: width - 8], "value"), ("  lost", "rejected")]]
        used = now.memory_used if now and now.memory_used is not None else used_memory(device, self._models)
        total = now.memory_total if now and now.memory_total else device.total
        use = now.utilisation if now else None
        if rows == BRIEF:
            (memory,) = _measured(printable(device.name)[: LABEL - 1], used, total, [], width - 6, 0)
            return [[*memory, (f"{percent(use):>6}", "value")]]
        temperature, power = _whole(now.temperature if now else None), _whole(now.power if now else None)
        past = _shares((gpu.memory_used, gpu.memory_total) if gpu else (None, None) for gpu in gpus)
        return [
            [(name[: width - 14], "value"), (f"  {temperature} °C {power} W", "label")],
            *_measured("shared" if device.unified else "VRAM", used, total, past, width, rows),
            *([_owners(now)] if owners else []),
            *_row("use", use, percent(use), [gpu.utilisation if gpu else None for gpu in gpus], width, rows),
        ]  # fmt: skip

    def _taken_cores(self, width: int) -> list[Line]:
        now, most = self._threads
        if now == most:
            return []
        return wrapped("threads", f"{now} of {most}: other processes are busy on the other cores", width)

    def _host(self, width: int, rows: int) -> list[Line]:
        hosts = [each.host for each in self._past]
        cpu = next((device for device in self._devices if device.kind == "cpu"), None)
        name = printable(f"host  {cpu.kind_name}, {cpu.description}" if cpu else "host").replace("\n", " ")
        if not hosts:
            return [[(name[:width], "value")], labelled("memory", (UNKNOWN, "label"))]
        now = hosts[-1]
        own = f"  spectui {_gigabytes(now.process)}" if now.process is not None else ""
        return [
            [(name[: max(4, width - len(own))], "value"), (own, "label")],
            *_measured("memory", now.memory_used, now.memory_total,
                       _shares((host.memory_used, host.memory_total) for host in hosts), width, rows),
            *_row("processor", now.cpu, percent(now.cpu), [host.cpu for host in hosts], width, rows),
            *self._taken_cores(width),
        ]  # fmt: skip


def _accelerator(device: Device, width: int, rows: int) -> list[Line]:
    """A device such as BLAS, which the monitor has no figures of. Most have no memory of their own."""
    if rows == BRIEF:
        return _measured(printable(device.name)[: LABEL - 1], device.total - device.free, device.total, [], width, 0)
    return [
        [(_title(device)[:width], "value")],
        *_measured("memory", device.total - device.free, device.total, [], width, 0),
    ]


def _title(device: Device) -> str:
    return printable(f"{device.name}  {device.kind_name}, {device.description}").replace("\n", " ")


def _whole(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:.0f}"


def _owners(gpu: Gpu | None) -> Line:
    """The processes that use a GPU's memory. Some drivers do not name them, above all in containers."""
    own, others = (gpu.own, gpu.others) if gpu else (None, None)
    return labelled("", (f"spectui {_gigabytes(own)}, others {_gigabytes(others)}", "label"))


def _measured(
    name: str, used: int | None, total: int | None, past: list[float | None], width: int, rows: int
) -> list[Line]:
    part = used / total if used is not None and total else None
    figure = UNKNOWN if part is None else f"{_gigabytes(used)} of {_gigabytes(total)}"
    return _row(name, part, figure, past, width, rows)


def _row(name: str, part: float | None, figure: str, past: list[float | None], width: int, rows: int) -> list[Line]:
    """A bar with its figure, and below it the history as columns."""
    lines = [labelled(name, *bar_of(part, width - 12 - 20), (f"{figure:>20}", "value"))]
    if rows > 0 and any(share is not None for share in past):
        latest = past[-(width - 12) :]
        lines += [labelled("", (text, "accepted")) for text in columns(latest, rows)]
    return lines


def _shares(pairs: Iterable[tuple[int | None, int | None]]) -> list[float | None]:
    return [used / total if used is not None and total else None for used, total in pairs]


def _gigabytes(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number / 1e9:.1f} GB"
