"""`spectui config show`, `path` and `init`: the settings in force and their origins, the file, and one to start with."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import Any

import click

from spectui import config, paths
from spectui.atomic import write_named
from spectui.cli.options import ENGINE, Command, Options, setting_options
from spectui.text import one_line


@click.command("show", cls=Command)
@setting_options(*ENGINE, "ui")
def show(options: Options) -> None:
    """Print every setting with its origin, and spectui's directories.

    Takes all flags, so that a line can be tried out.
    """
    from spectui.gguf_files.check import recommended_sampling

    settings = options.settings
    if model := settings.setup.model:
        settings = settings.recommended(recommended_sampling(model)[0], f"model's file {model}")
    every = chain(settings.rows(), ((f"{kind}-directory", *rest) for kind, *rest in paths.directories()))
    rows = [tuple(_shown(each) for each in row) for row in every]
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for key, value, origin in rows:
        click.echo(f"{key:<{wide[0]}}  {value:<{wide[1]}}  {origin}")


@click.command("path", cls=Command)
def path() -> None:
    """Print where the configuration file is, or would be."""
    click.echo(paths.config_file())


@click.command("init", cls=Command)
def init() -> None:
    """Write a configuration file that explains every setting.

    Never replaces an existing file.
    """
    target = paths.config_file()
    text = paths.shipped("config.example.toml").read_bytes()
    with suppress(OSError):  # else `write_named` says that there is no directory
        target.parent.mkdir(0o700, parents=True, exist_ok=True)
    write_named(target, text, mode=0o644, advice="edit it, or move it away first")
    click.echo(f"Wrote {target}")


def _shown(value: Any) -> str:
    """The text of a value on one line: a dash for an empty one, so that columns stay columns. Control characters, which values
    and names from a file may hold, are shown as ?."""
    return "-" if value in (None, "", ()) else one_line(config.shown(value))
