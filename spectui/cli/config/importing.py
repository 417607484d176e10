"""`spectui config import`: profiles from what llama-swap or llama-server is started with, or runs with."""

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
from spectui.profiles.file import ProfileFile
from spectui.profiles.formats import FORMATS, detect
from spectui.profiles.imported import NO_VALUE, OF_THE_HUB, ImportedFile, ImportedProfile
from spectui.text import one_line
from spectui.text_file import read_text


@click.command("import", cls=Command)
@click.argument("words", nargs=-1, metavar="[FILE] [MODEL]...")
@click.option("--running", is_flag=True, help="read no file, but what runs on this machine")
@click.option("--all", "every", is_flag=True, help="every model of the file, or that runs")
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
    words: tuple[str, ...],
    running: bool,
    every: bool,
    name: str | None,
    replace: bool,
    form: str | None,
    config_path: Path | None,
) -> None:
    """Make profiles of what other programs serve.

    FILE is a llama-swap configuration, a llama-server command line, a plain script or service around one, or a preset file of
    llama.cpp; - reads standard input. With --running the llama-servers of this machine are read instead. What has no meaning
    here is listed.
    """
    if running:
        from spectui.profiles.commands.running import read

        where, models, source = "this machine", words, read()
    elif words:
        where, models = "standard input" if words[0] == "-" else words[0], words[1:]
        source = _source(words[0], where, form)
    else:
        raise UsageError("Give the file to import, or - for standard input, or --running.")
    chosen = [profile._replace(name=name or profile.name) for profile in _chosen(source, models, every, where)]
    if name and len(chosen) > 1:
        raise UsageError(f"--as names one profile, and {len(chosen)} models were chosen: import them one by one.")
    for profile in chosen:
        _check(profile, where)
    target = config_path or paths.config_file()
    ProfileFile(target).write({profile.name: profile.settings for profile in chosen}, replace=replace)
    for profile in chosen:
        click.echo(one_line(f"Wrote profile {profile.name} to {target}: spectui chat -P {shlex.quote(profile.name)}"))
    for line in _report(source, chosen):
        click.echo(one_line(line))


def _check(profile: ImportedProfile, where: str) -> None:
    """Raises SpectuiError or UsageError if this makes no profile."""
    lacking = [what for reason, what in profile.left_out if reason == NO_VALUE]
    if lacking:
        raise SpectuiError(f"{where} gives {lacking[0]} no value: add it.")
    presets = [what for _, what in profile.left_out if what.startswith("--models-preset ")]
    if presets and not profile.settings.get("model"):
        raise SpectuiError(f"{where} names its models in a preset file: import {presets[0].partition(' ')[2]} instead.")
    if not profile.settings and not any(reason == OF_THE_HUB for reason, _ in profile.left_out):
        raise SpectuiError(f"{where} gives nothing that a profile holds: give the command that starts llama-server.")
    if not profile.name:
        raise UsageError(f"{where} has neither a model nor an alias to name the profile after: name it with --as.")


def _source(file: str, where: str, form: str | None) -> ImportedFile:
    """What a file, or standard input, holds. Raises SpectuiError."""
    stream = sys.stdin.buffer if file == "-" and sys.stdin is not None else Path(file)
    text = read_text(stream, where, LARGEST_FILE, "no configuration is, so give the right file")
    try:
        return FORMATS[form or detect(text, file)].read(text, None if file == "-" else Path(file).absolute())
    except UsageError as error:
        raise type(error)(f"{where}: {error}") from None


def _chosen(source: ImportedFile, models: Sequence[str], every: bool, where: str) -> list[ImportedProfile]:
    """The profiles that a person asked for; the only one if there is one."""
    known = {profile.name: profile for profile in source.profiles}
    for name in models:
        if name in source.refused:
            raise UsageError(f"{where}: {name} cannot be imported: {source.refused[name]}")
        if name not in known:
            raise UsageError(f"{where} has no model {name!r}{nearest(name, known)}")
    if models:
        return [known[name] for name in dict.fromkeys(models)]
    if len(known) > 1 and not every:
        raise UsageError(f"{where} has {len(known)} models ({', '.join(known)}): name those you want, or give --all.")
    return list(known.values())


def _report(source: ImportedFile, chosen: Sequence[ImportedProfile]) -> Iterator[str]:
    """Everything that was left out, each thing once."""
    by_reason: dict[str, dict[str, None]] = {}
    sentences: dict[str, None] = {}
    for profile in chosen:
        prefix = f"{profile.name}: " if len(chosen) > 1 else ""
        for key in ("model", "draft"):
            if profile.settings.get(key) and not Path(profile.settings[key]).exists():
                sentences[f"{prefix}{key} {profile.settings[key]} is not on this machine."] = None
        for reason, what in profile.left_out:
            if reason:
                by_reason.setdefault(reason, {})[what] = None
            else:
                sentences[prefix + what] = None
    for reason, what in source.left_out:
        by_reason.setdefault(reason, {})[what] = None
    yield from sentences
    for reason, things in by_reason.items():
        yield f"{reason}: {', '.join(things)}."
    for name, why in source.refused.items():
        yield f"Not imported: {name}: {why}"
