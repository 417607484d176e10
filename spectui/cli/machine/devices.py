"""`spectui devices`: the devices that models can run on, and what a pair would take on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from spectui.cli.options import SERVER, Command, configuration, setting_options

MIB = 1024 * 1024


@click.command("devices", cls=Command)
@setting_options("models", "devices", "speculation", without=SERVER)
@click.option("--plan", is_flag=True, help="say what the models would take on each device, without loading them")
def command(profile: str | None, config_path: Path | None, plan: bool, **values: Any) -> None:
    """List the devices for models, and what a pair would take on each.

    With --plan the exit code is 1 if it does not fit.
    """
    from spectui.chat.figures.format import UNKNOWN
    from spectui.errors import UsageError
    from spectui.llama.devices.listing import list_devices
    from spectui.llama.devices.rpc import add_servers

    setup = configuration(profile, config_path, values).setup
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
    for line in made.lines():
        click.echo(line)
    for line in made.placed():
        click.echo(line)
    click.echo(made.sentence())
    if made.missing:
        click.get_current_context().exit(1)
