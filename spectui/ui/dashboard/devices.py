"""The devices: which models run on each, its memory and its use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import wrap
from typing import ClassVar, NamedTuple

from rich.cells import set_cell_size
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from spectui.chat.device_choice import Role, chosen, selectable, used_memory
from spectui.chat.figures.format import UNKNOWN, decimal, percent
from spectui.engine.events import Device, ModelInfo
from spectui.knobs import Setup
from spectui.telemetry.gpus import Gpu, find_gpu
from spectui.telemetry.monitor import Telemetry
from spectui.text import printable
from spectui.ui.figures import MUTED
from spectui.ui.keys import with_keys
from spectui.ui.widgets.line_widget import gauge

ROLES: tuple[Role, ...] = ("device", "device_draft")
MARKS, REST = (3, 10), 14
"""Offsets from the end of the name: each role's mark, and the other columns."""

NAME, BAR, MEMORY, USE = 12, 5, 9, 6
"""Width of the other columns, in cells. In a wide panel the first two are wider."""


NOT_LOADED = "Not loaded yet: {placement} loads it, with other numbers too; {stop} leaves it."


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


class DevicePane(Widget, can_focus=True):
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

    def __init__(self, setup: Setup, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._setup = setup
        self._picked = False  # the set-up is not the loaded one
        self._plan = ""
        self._devices: tuple[Device, ...] = ()
        self._models: dict[str, ModelInfo] = {}
        self._telemetry: Telemetry | None = None
        self._row = 0
        self._role = 0

    def update_devices(self, devices: tuple[Device, ...], setup: Setup, *, picked: bool = False) -> None:
        """Show these devices and this set-up; `picked`: the one that a person has picked, which is not loaded. Does a layout
        only if the number of rows changed."""
        grown = (len(devices), picked) != (len(self._devices), self._picked) or bool(self._plan)
        self._devices, self._setup, self._picked, self._plan = devices, setup, picked, ""
        self._row = min(self._row, max(0, len(devices) - 1))
        self.refresh(layout=grown)

    def show_plan(self, plan: str) -> None:
        """Say what the models would take on the picked devices."""
        self._plan = plan
        self.refresh(layout=True)

    def update_models(self, models: Iterable[ModelInfo]) -> None:
        """Mark where these models are: the target, and the draft if there is one."""
        self._models = dict(zip(ROLES, models, strict=False))
        self.refresh()

    def update_telemetry(self, telemetry: Telemetry) -> None:
        """Show the monitor's latest figures."""
        if telemetry is not self._telemetry:
            self._telemetry = telemetry
            self.refresh()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """A heading, a row for each device, and some about devices that are picked and not loaded."""
        return 1 + max(1, len(self._devices)) + len(self._about_picked(width))

    def _about_picked(self, width: int) -> list[str]:
        said = f"{self._plan} {with_keys(self.app, NOT_LOADED)}" if self._picked else ""
        return wrap(printable(said).strip(), max(8, width))

    def action_move(self, rows: int, roles: int) -> None:
        """Move the cursor."""
        self._row = min(max(0, self._row + rows), max(0, len(self._devices) - 1))
        self._role = min(max(0, self._role + roles), 1)
        self.refresh()

    def action_pick(self) -> None:
        """Pick the mark under the cursor."""
        if self._row < len(self._devices) and selectable(self._devices[self._row]):
            role: Role = ROLES[self._role]
            if role == "device_draft" and self._setup.draft is None:
                return
            self.post_message(self.Picked(role, self._devices[self._row].name))

    def on_click(self, event: events.Click) -> None:
        """Pick the mark under the mouse."""
        row = event.y - 1
        if not 0 <= row < len(self._devices):
            return
        self._row = row
        name, _ = self._widths()
        for role, behind in enumerate(MARKS):
            if abs(event.x - name - behind) <= 2:
                self._role = role
                self.action_pick()
        self.refresh()

    def render(self) -> Content:
        """The heading and the rows."""
        name, bar_width = self._widths()
        words = f"{'device':<{name}} target draft {'memory':<{bar_width + MEMORY - 2}}GB{'use':>{USE}}"
        heading = Content.styled(words, MUTED).truncate(self.size.width)
        if not self._devices:
            return Content("\n").join([heading, Content.styled(UNKNOWN, MUTED)])
        rows = [heading, *(self._line(row) for row in range(len(self._devices)))]
        rows += [Content.styled(line, "$warning") for line in self._about_picked(self.size.width)]
        return Content("\n").join(rows)

    def _widths(self) -> tuple[int, int]:
        """Cells of the name and of the memory's bar."""
        spare = max(0, self.size.width - NAME - REST - BAR - MEMORY - USE)
        return NAME + spare // 2, BAR + spare - spare // 2

    def _line(self, row: int) -> Content:
        device = self._devices[row]
        width, bar_width = self._widths()
        name = printable(device.name if device.kind != "cpu" else f"CPU {device.description}").replace("\n", " ")
        use = usage(device, self._models.values(), self._telemetry)
        memory = UNKNOWN if use.used is None or not use.total else f"{decimal(use.used / 1e9)}/{use.total / 1e9:.0f}"
        return Content.assemble(
            set_cell_size(name, width), "   ",
            self._mark(row, 0), "      ", self._mark(row, 1), "   ",
            gauge(use.share, bar_width), f"{memory:>{MEMORY}}", f"{percent(use.busy):>{USE}}",
        ).truncate(self.size.width)  # fmt: skip

    def _mark(self, row: int, index: int) -> Content:
        device, role = self._devices[row], ROLES[index]
        if not selectable(device) or (role == "device_draft" and self._setup.draft is None):
            return Content.styled("·", MUTED)
        on = device.name in chosen(self._setup, role, self._devices, self._models.get(role))
        here = self.has_focus and (row, index) == (self._row, self._role)
        return Content.styled("●" if on else "○", "reverse" if here else "$accent" if on else MUTED)
