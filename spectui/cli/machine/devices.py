"""`spectui devices`: the devices that models can run on, and what a pair would take on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spectui.cli.options import SERVER, Command, Options, setting_options

if TYPE_CHECKING:
    from spectui.engine.loading.plan import MemoryPlan

MIB = 1024 * 1024


@click.command("devices", cls=Command)
@setting_options("models", "devices", "speculation", without=SERVER)
@click.option("--plan", is_flag=True, help="say what the models would take on each device, without loading them")
def command(options: Options, plan: bool) -> None:
    """List the devices for models, and what a pair would take on each.

    With --plan the exit code is 1 if it does not fit.
    """
    from spectui.chat.figures.format import UNKNOWN
    from spectui.errors import UsageError
    from spectui.llama.devices.listing import list_devices
    from spectui.llama.devices.rpc import add_servers

    setup = options.settings.setup
    if not plan:
        add_servers(setup.rpc)
        for device in list_devices():
            known = device.total > 0  # accelerators such as BLAS have no memory of their own
            memory = f"{device.total // MIB} MiB, {device.free // MIB} MiB free" if known else f"memory {UNKNOWN}"
            click.echo(f"{device.name}: {device.description} ({device.kind_name}, {memory})")
        return
    if setup.model is None:
        raise UsageError("--plan needs a target model: name one with -m.")
    from spectui.engine.loading.plan import make_plan

    setup.checked()
    made = make_plan(setup)
    click.echo("\n".join((*_lines(made), made.sentence())))
    if made.missing:
        click.get_current_context().exit(1)


def _lines(made: MemoryPlan) -> Iterator[str]:
    """A table of the plan, in MiB, and where the layers are."""
    from spectui.measure.report import table

    rows = [["device", "model", "weights", "cells", "compute", "sum", "free"]]
    uses = {"target": made.target, "draft": made.draft, "states": made.states}
    for device in made.devices:
        free = f"{device.free // MIB:,}" if device.total else "-"
        for role, use in ((role, use) for role, taken in uses.items() for use in taken if use.device == device.name):
            parts = (use.weights, use.cells, use.compute, use.total)
            rows.append([device.name, role, *(f"{part / MIB:,.0f}" for part in parts), free])
    yield from table(rows, 100)
    hosts = [device.name for device in made.devices if device.kind == "cpu"]
    models = {"target": (made.setup.model, *made.layers), "draft": (made.setup.draft, *made.layers_draft)}
    for role, (path, on_gpus, layers) in models.items():
        if path is not None:
            names = ", ".join(use.device for use in uses[role] if use.device not in hosts and use.weights)
            where = f"{on_gpus} of {layers} layers on {names}" if on_gpus and names else "on the CPU"
            yield f"{role}: {Path(path).name}, {where}"
