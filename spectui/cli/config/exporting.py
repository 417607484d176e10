"""`spectui config export`: profiles as llama-swap, llama-server or llama.cpp's preset files have them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from spectui.atomic import write_named
from spectui.cli.options import ENGINE, Command, Options, setting_options
from spectui.config import Configuration
from spectui.profiles.exported import Exported, exported
from spectui.profiles.formats import WRITTEN


@click.command("export", cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--to", "form", type=click.Choice(WRITTEN), metavar="FORMAT", required=True, help=f"the format: {', '.join(WRITTEN)}"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="write to this file (default, or -: standard output)",
)
@click.option("--replace", is_flag=True, help="replace a file that exists")
@setting_options(*ENGINE, profile=False)
def export_command(names: tuple[str, ...], form: str, output: Path | None, replace: bool, options: Options) -> None:
    """Write profiles as other programs take them.

    Takes all flags, so that a profile without a model can be given one. What llama-server does not have is written as comments,
    which spectui config import reads back.
    """
    read = {name: dataclasses.replace(options, profile=name).settings for name in names}
    profiles = [(name, _exported(each, name)) for name, each in read.items()]
    text = WRITTEN[form](profiles)
    if output is None or str(output) == "-":
        click.echo(text, nl=False)
    else:
        write_named(output, text.encode(), replace=replace, mode=0o644, advice="--replace it, or name another with -o")
    comments = dict.fromkeys(line.split(" = ")[0] for _, each in profiles for line in each.lacking)
    if comments:
        click.echo(f"spectui: llama-server does not have these, so comments have them: {', '.join(comments)}.", err=True)


def _exported(settings: Configuration, name: str) -> Exported:
    """The profile, with the file of heads that drafts for its target unasked."""
    from spectui.gguf_files.check import metadata_of
    from spectui.gguf_files.compatibility import drafting_heads
    from spectui.gguf_files.heads import READ_LAYERS

    setup = settings.setup
    heads = drafting_heads(setup.model, setup.draft) if setup.model else None
    if heads not in (None, setup.model, setup.draft):
        setup = dataclasses.replace(setup, draft=heads)
        origins = {**settings.origins, "draft": "beside the target"}
        settings = settings._replace(setup=setup, origins=origins)
    architecture = "" if heads is None else metadata_of(heads).architecture
    kind = "" if heads is None else f"draft-{architecture if architecture in READ_LAYERS else 'mtp'}"
    return exported(settings, name, kind)
