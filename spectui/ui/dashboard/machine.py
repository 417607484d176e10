"""The machine: what is used of each device, which models run where, and the last minutes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import ClassVar, NamedTuple

from rich.cells import set_cell_size
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from spectui.chat.device_choice import Role, chosen, selectable, used_memory
from spectui.chat.figures.format import UNKNOWN, count, decimal, percent, size
from spectui.chat.models import LoadedModels
from spectui.chat.sentences import counted_lines
from spectui.engine.events import Device, ModelInfo, ThreadsInUse
from spectui.knobs import Setup
from spectui.telemetry.gpus import Gpu, find_gpu, joules_per_token
from spectui.telemetry.monitor import Telemetry
from spectui.text import printable
from spectui.ui.keys import with_keys
from spectui.ui.textual_patches.direct_render import DirectRenderWidget
from spectui.ui.widgets.lines import LABEL, FigureLines, Line, bar_of, columns, labelled, wrapped

ROLES: tuple[Role, ...] = ("device", "device_draft")
MARKS, REST = (3, 10), 14
"""Offsets from the end of the name: each role's mark, and the other columns."""

NAME, BAR, MEMORY, USE = 12, 5, 9, 6
"""Width of the other columns, in cells. In a wide panel the first two are wider."""


NOT_LOADED = "Not loaded yet: {placement} loads it, with other numbers too; {stop} leaves it."

MINUTES = 2
"""Minutes of history; the monitor reads once a second."""

_GPUS = ("gpu", "igpu")
"""Kinds of devices that the monitor may have figures of."""

_HOST = Device("host", "", "cpu", 0, 0)
"""Where no models are loaded yet."""

_FIGURE = 20
"""Width of a row's figure, in cells."""


class Usage(NamedTuple):
    """What is used of a device: bytes of its memory, of how many, and the share of the time that it is busy."""

    used: int | None
    total: int | None
    busy: float | None = None
    gpu: Gpu | None = None
    """What the monitor knows of it."""
    measured: bool = False
    """The monitor has read the memory; else it is as ggml knew it at load."""

    @property
    def share(self) -> float | None:
        """Share of the memory, 0..1."""
        return self.used / self.total if self.used is not None and self.total else None


def usage(device: Device, models: Iterable[ModelInfo], telemetry: Telemetry | None) -> Usage:
    """What is used of a device, from the monitor, else from ggml at load."""
    used, total, gpu = used_memory(device, models), device.total or None, None
    if telemetry is None:
        return Usage(used, total)
    if device.kind == "cpu":
        host = telemetry.host
        now = host.memory_used, host.memory_total, host.cpu
    elif (gpu := find_gpu(telemetry.gpus, device.id)) is not None:
        now = gpu.memory_used, gpu.memory_total, gpu.utilisation
    else:
        return Usage(used, total)
    if now[0] is not None and now[1]:
        return Usage(*now, gpu, measured=True)
    return Usage(used, total, now[2], gpu)


class DevicePane(FigureLines, can_focus=True):
    """A row for each device. Arrows move, Enter or a click picks; nothing is loaded by that."""

    HELP = """\
## Devices

Arrows choose a device and a role, **Enter** or a click puts the target or the draft there or takes it away. When all is
chosen, the lines below say what the models would take, and **{placement}** loads them anew: there the numbers stand too, such
as layers, context and the share of each GPU. The conversation stays. Several GPUs may share a model; the CPU takes it alone.
"""

    BINDING_GROUP_TITLE = "devices"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1, 0)", "Up", id="devices.up", show=False),
        Binding("down", "move(1, 0)", "Down", id="devices.down", show=False),
        Binding("left", "move(0, -1)", "Target", id="devices.target"),
        Binding("right", "move(0, 1)", "Draft", id="devices.draft"),
        Binding("enter", "pick", "Pick device", id="pick-device",
                tooltip="Put the model there, or take it away; nothing is loaded yet"),
    ]  # fmt: skip

    DEFAULT_CSS = """
    DevicePane { height: auto; }
    """

    @dataclass
    class Picked(Message):
        """A person has picked this device for `role` ("device" or "device_draft" of the set-up), or removed it."""

        role: Role
        device: str

    def __init__(self, models: LoadedModels, past: Sequence[Telemetry], *, id: str | None = None) -> None:
        """`past`: the monitor's readings, the latest last."""
        super().__init__(id=id)
        self._models, self._past = models, past
        self.picked: Setup | None = None
        """The set-up with the devices or the context that a person has picked, until it is loaded."""
        self.plan = ""
        """What the models would take as they were picked."""
        self._row = self._role = 0

    def show(self) -> None:
        """Draw the devices as they are now. Does a layout only if the number of rows changed."""
        self._row = min(self._row, max(0, len(self._models.devices) - 1))
        self.redraw()
        if self.is_attached and self.get_content_height(None, None, self.size.width) != self.size.height:
            self.refresh(layout=True)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """A heading, a row for each device, and some about devices that are picked and not loaded."""
        return 1 + max(1, len(self._models.devices)) + len(self._about_picked(width))

    def _about_picked(self, width: int) -> list[str]:
        said = f"{self.plan} {with_keys(self.app, NOT_LOADED)}" if self.picked is not None else ""
        return wrap(printable(said).strip(), max(8, width))

    @property
    def _setup(self) -> Setup:
        return self.picked or self._models.setup

    def action_move(self, rows: int, roles: int) -> None:
        """Move the cursor."""
        self._row = min(max(0, self._row + rows), max(0, len(self._models.devices) - 1))
        self._role = min(max(0, self._role + roles), 1)
        self.rewrite()

    def action_pick(self) -> None:
        """Pick the mark under the cursor."""
        if self._row < len(self._models.devices) and self._can_pick(self._models.devices[self._row], ROLES[self._role]):
            self.post_message(self.Picked(ROLES[self._role], self._models.devices[self._row].name))

    def _can_pick(self, device: Device, role: Role) -> bool:
        return selectable(device) and (role == "device" or self._setup.draft is not None)

    def on_click(self, event: events.Click) -> None:
        """Pick the mark under the mouse."""
        if 0 < event.y <= len(self._models.devices):
            self._row = event.y - 1
            for role, behind in enumerate(MARKS):
                if abs(event.x - self._widths()[0] - behind) <= 2:
                    self._role = role
                    self.action_pick()
            self.rewrite()

    def watch_has_focus(self, has_focus: bool) -> None:
        """Draw the cursor, or none."""
        super().watch_has_focus(has_focus)
        self.rewrite()

    def build_lines(self) -> list[Line]:
        """The heading and the rows."""
        name, bar_width = self._widths()
        words = f"{'device':<{name}} target draft {'memory':<{bar_width + MEMORY - 2}}GB{'use':>{USE}}"
        rows = [self._line(row, device) for row, device in enumerate(self._models.devices)]
        about: list[Line] = [[(line, "big")] for line in self._about_picked(self.size.width)]
        return [[(words, "label")], *(rows or [[(UNKNOWN, "label")]]), *about]

    def _widths(self) -> tuple[int, int]:
        """Cells of the name and of the memory's bar."""
        spare = max(0, self.size.width - NAME - REST - BAR - MEMORY - USE)
        return NAME + spare // 2, BAR + spare - spare // 2

    def _line(self, row: int, device: Device) -> Line:
        width, bar_width = self._widths()
        name = printable(device.name if device.kind != "cpu" else f"CPU {device.description}").replace("\n", " ")
        use = usage(device, _loaded(self._models), self._past[-1] if self._past else None)
        title = (set_cell_size(name, width) + "   ", "value")
        memory = UNKNOWN if use.used is None or not use.total else f"{decimal(use.used / 1e9)}/{use.total / 1e9:.0f}"
        target, draft = (self._mark(row, device, role) for role in ROLES)
        figures = f"{memory:>{MEMORY}}{percent(use.busy):>{USE}}"
        return [title, target, (" " * 6, "value"), draft, ("   ", "value"), *bar_of(use.share, bar_width), (figures, "value")]

    def _mark(self, row: int, device: Device, role: Role) -> tuple[str, str]:
        if not self._can_pick(device, role):
            return "·", "label"
        model = self._models.target if role == "device" else self._models.draft
        on = device.name in chosen(self._setup, role, self._models.devices, model)
        here = self.has_focus and (row, role) == (self._row, ROLES[self._role])
        return "●" if on else "○", "chosen" if here else "mark" if on else "label"


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

    def __init__(self, models: LoadedModels, past: Sequence[Telemetry], *, id: str | None = None) -> None:
        """`past`: the monitor's readings, the latest last."""
        super().__init__(id=id)
        self._models, self._past = models, past
        self.threads = ThreadsInUse(0, 0)
        """How many threads the target computes with, if it uses fewer than it could."""

    def build_lines(self) -> list[Line]:
        """Devices and models. The history is as high as the room allows. Without room for the devices, the host alone: the
        table below has all. The remarks about the models are left out where the models would be cut.
        """
        models, room = self._model_lines(self.size.width), self.size.height
        if self._models.setup.server:  # this machine's figures would be taken for the server's
            return models[1:]
        for rows, devices in ((2, self._models.devices), (1, self._models.devices), (0, self._models.devices), (0, ())):
            lines = self._device_lines(self.size.width, rows, devices)
            if len(lines) <= (room - len(models) if rows > 1 else room):
                break
        if len(lines) + len(models) > room:
            models = self._model_lines(self.size.width, remarks=False)
        return [*lines, *models]

    def _device_lines(self, width: int, rows: int, devices: Iterable[Device]) -> list[Line]:
        """These devices with their figures, each with `rows` of history."""
        lines: list[Line] = []
        gap: list[Line] = [[]] if rows else []
        if not any(device.kind in _GPUS for device in self._models.devices) and self._past and self._past[-1].gpu_reason:
            lines = [*wrapped("no GPU", self._past[-1].gpu_reason, width, "label"), []]
        for device in devices:
            if device.kind != "cpu":
                lines += [*self._device(device, width, rows), *gap]
        if (joules := self._joules()) is not None:
            lines += [labelled("energy", (f"{joules:.1f} J a token, of GPUs alone", "value")), *gap]
        host = next((device for device in self._models.devices if device.kind == "cpu"), _HOST)
        return [*lines, *self._device(host, width, rows), *self._taken_cores(width)]

    def _device(self, device: Device, width: int, rows: int) -> list[Line]:
        """A device: its name, its memory and how busy it is, with their history."""
        past: list[Telemetry | None] = [*self._past] or [None]
        uses = [usage(device, _loaded(self._models), reading) for reading in past]
        now, title, gpu = uses[-1], _title(device), device.kind in _GPUS
        beside = self._beside(device, now)
        memory = "memory" if not gpu else "shared" if device.unified else "VRAM"
        figure = f"{size(now.used)} of {size(now.total)}" if now.used is not None and now.total else UNKNOWN
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
        return f"  spectui {size(own)}" if own is not None else ""

    def _model_lines(self, width: int, remarks: bool = True) -> list[Line]:
        """The models, with the remarks made at load, or without."""
        lines: list[Line] = []
        for role, model in zip(("target", "draft"), _loaded(self._models), strict=False):
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
        names = {use.device for model in _loaded(self._models) for use in model.memory}
        on = [device for device in self._models.devices if device.name in names and device.kind in _GPUS]
        return joules_per_token((find_gpu(self._past[-1].gpus, device.id) for device in on), self.figures.speed)

    def _taken_cores(self, width: int) -> list[Line]:
        now, most = self.threads
        if now == most:
            return []
        return wrapped("threads", f"{now} of {most}: other processes are busy on the other cores", width)


def _loaded(models: LoadedModels) -> list[ModelInfo]:
    return [model for model in (models.target, models.draft) if model is not None]


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
