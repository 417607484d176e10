"""`spectui devices`: the devices that models can run on."""

from __future__ import annotations

import click

from spectui.cli.options import Command

MIB = 1024 * 1024


@click.command("devices", cls=Command)
def command() -> None:
    """List the devices for models, with their memory."""
    from spectui.llama.devices import list_devices

    for device in list_devices():
        click.echo(f"{device.name}: {device.description} ({device.total // MIB} MiB, {device.free // MIB} MiB free)")
