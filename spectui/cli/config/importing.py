"""`spectui config import`: profiles from what llama-swap or llama-server is started with."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from spectui import paths
from spectui.cli.options import Command
from spectui.config import LARGEST_FILE, nearest
from spectui.errors import SpectuiError, UsageError
from spectui.profiles.file import ProfileFile, not_allowed
from spectui.profiles.formats import FORMATS, commands_of, detect
from spectui.profiles.imported import NO_VALUE, OF_THE_HUB, ImportedFile, ImportedProfile
from spectui.text import one_line
from spectui.text_file import read_text


@click.command("import", cls=Command)
@click.argument("file", type=click.Path(allow_dash=True))
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option("--all", "every", is_flag=True, help="every model of the file")
@click.option("--as", "name", metavar="NAME", help="the profile's name (default: the model's in the file)")
@click.option("--replace", is_flag=True, help="replace profiles that exist")
@click.option(
    "--from",
    "form",
    type=click.Choice(list(FORMATS)),
    metavar="FORMAT",
    help=f"the file's format: {', '.join(FORMATS)} (default: what it looks like)",
)
@click.option("--config", "config_path", type=click.Path(path_type=Path), metavar="FILE",
              help="write into this file instead of your own configuration")  # fmt: skip
def import_command(
    file: str,
    models: tuple[str, ...],
    every: bool,
    name: str | None,
    replace: bool,
    form: str | None,
    config_path: Path | None,
) -> None:
    """Make profiles of what other programs serve.

    FILE is a llama-swap configuration, a llama-server command line or a script around one, or a preset file of llama.cpp; -
    reads standard input. What has no meaning here is listed.
    """
    where = "standard input" if file == "-" else file
    source = sys.stdin.buffer if file == "-" and sys.stdin is not None else Path(file)
    text = read_text(source, where, LARGEST_FILE, "no configuration is, so give the right file")
    text = commands_of(text, file)
    try:
        found = FORMATS[form or detect(text, file)].read(text, None if file == "-" else Path(file).absolute())
    except UsageError as error:
        raise type(error)(f"{where}: {error}") from None
    chosen = [each._replace(name=name or each.name) for each in _chosen(found, models, every, where)]
    if name and len(chosen) > 1:
        raise UsageError(f"--as names one profile, and {len(chosen)} models were chosen: import them one by one.")
    for each in chosen:
        lacking = [what for reason, what in each.left_out if reason == NO_VALUE]
        if lacking:
            raise SpectuiError(f"{where} gives {lacking[0]} no value: add it.")
        presets = [what for _, what in each.left_out if what.startswith("--models-preset ")]
        if presets and not each.settings.get("model"):
            raise SpectuiError(
                f"{where} names its models in a preset file: import {presets[0].partition(' ')[2]} instead."
            )
        if not each.settings and not any(reason == OF_THE_HUB for reason, _ in each.left_out):
            raise SpectuiError(
                f"{where} gives nothing that a profile holds: give the command that starts llama-server."
            )
        if each.name:
            continue
        raise UsageError(f"{where} has neither a model nor an alias to name the profile after: name it with --as.")
    if every:  # one name that cannot be is no reason to lose the others
        bad = {each.name: problem for each in chosen if (problem := not_allowed(each.name))}
        found = found._replace(refused={**found.refused, **bad})
        chosen = [each for each in chosen if each.name not in bad]
        if not chosen:
            raise UsageError(f"{where} has no model that can be imported: {next(iter(bad.values()), '')}")
    target = config_path or paths.config_file()
    ProfileFile(target).write({each.name: each.settings for each in chosen}, replace=replace)
    for each in chosen:
        click.echo(one_line(f"Wrote profile {each.name} to {target}: spectui chat -P {shlex.quote(each.name)}"))
    for line in _report(found, chosen):
        click.echo(one_line(line))


def _chosen(found: ImportedFile, models: Sequence[str], every: bool, where: str) -> list[ImportedProfile]:
    """The profiles that a person asked for; the only one if there is one."""
    known = {each.name: each for each in found.profiles}
    for name in models:
        if name in found.refused:
            raise UsageError(f"{where}: {name} cannot be imported: {found.refused[name]}")
        if name not in known:
            raise UsageError(f"{where} has no model {name!r}{nearest(name, known)}")
    if models:
        return [known[name] for name in dict.fromkeys(models)]
    if len(known) > 1 and not every:
        raise UsageError(f"{where} has {len(known)} models ({', '.join(known)}): name those you want, or give --all.")
    return list(known.values())


def _report(found: ImportedFile, chosen: Sequence[ImportedProfile]) -> Iterator[str]:
    """Everything that was left out, each thing once."""
    by_reason: dict[str, dict[str, None]] = {}
    sentences: dict[str, None] = {}
    for each in chosen:
        prefix = f"{each.name}: " if len(chosen) > 1 else ""
        for key in ("model", "draft"):
            if each.settings.get(key) and not Path(each.settings[key]).exists():
                sentences[f"{prefix}{key} {each.settings[key]} is not on this machine."] = None
        for reason, what in each.left_out:
            if reason:
                by_reason.setdefault(reason, {})[what] = None
            else:
                sentences[prefix + what] = None
    for reason, what in found.left_out:
        by_reason.setdefault(reason, {})[what] = None
    yield from sentences
    for reason, things in by_reason.items():
        yield f"{reason}: {', '.join(things)}."
    for name, why in found.refused.items():
        yield f"Not imported: {name}: {why}"
