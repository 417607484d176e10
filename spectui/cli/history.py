"""`spectui history`: list, print, export and delete the conversations on disk."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from spectui.cli.options import Command, Group
from spectui.cli.terminal import confirm, prepare_stdout, yes_option
from spectui.errors import UsageError
from spectui.paths import expanded
from spectui.text import one_line


@click.group("history", cls=Group, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, search, read, export and delete conversations."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(show_list)


@command.command("list", cls=Command)
@click.argument("words", nargs=-1)
def show_list(words: tuple[str, ...]) -> None:
    """List conversations, or those that contain WORDS; the latest first."""
    from spectui.chat.sentences import nothing_found
    from spectui.store.database import database_file, set_aside_files
    from spectui.store.library import summaries

    found = summaries(database_file(), " ".join(words))
    if not found:
        click.echo(f"spectui: {nothing_found(' '.join(words))}", err=True)
    for each in found:
        when = datetime.fromtimestamp(each.updated).strftime("%Y-%m-%d %H:%M")
        click.echo(f"{each.id}  {when}  {each.messages:>4}  {each.target}  {each.title}")
    for file in () if words else set_aside_files(database_file()):
        size = f"{file.stat().st_size / 1e6:.1f} MB"
        click.echo(f"spectui: {file} ({size}) is damaged and was set aside: delete it yourself if it is not needed.", err=True)


@command.command("show", cls=Command)
@click.argument("name", metavar="ID")
def show(name: str) -> None:
    """Print a conversation; the beginning of its id is enough."""
    from spectui.store.database import database_file
    from spectui.store.library import open_conversation

    for message in open_conversation(database_file(), name).messages:
        click.echo(f"{message.role}:\n{message.text}\n")


@command.command("export", cls=Command)
@click.argument("name", metavar="ID")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["md", "json", "jsonl"]),
    help="the text alone, JSON with origins and figures, or a line a round (default: as -o ends, else md)",
)
@click.option("--jsonl", "rounds", is_flag=True, help="the same as --format jsonl")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
    help="write to this file (-: standard output; default: here, under the conversation's title)",
)  # fmt: skip
@click.option("--replace", is_flag=True, help="replace a file that exists")
def export(name: str, kind: str | None, rounds: bool, output: Path | None, replace: bool) -> None:
    """Write a conversation to a file, and print the file's name."""
    from spectui.store import export
    from spectui.store.database import database_file
    from spectui.store.library import open_conversation

    conversation = open_conversation(database_file(), name)
    form = ".jsonl" if rounds else f".{kind}" if kind else ""
    if output is not None and str(output) == "-":
        prepare_stdout("the conversation")
        click.echo(export.rendered(conversation, form), nl=False)
        return
    directory = expanded(output).parent if output else export.working_directory()
    file = output.name if output else export.file_name(conversation.title, form or ".md")
    advice = "--replace it, or name another with -o"
    saved = export.save(conversation, directory, file, form=form, replace=replace, advice=advice)
    click.echo(one_line(str(saved)))


@command.command("delete", cls=Command)
@click.argument("names", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="delete every conversation, and all prompts")
@yes_option
def delete(names: tuple[str, ...], everything: bool, yes: bool) -> None:
    """Delete conversations and the prompts sent in them.

    Their texts are overwritten on disk. With --all it asks first.
    """
    from spectui import paths
    from spectui.chat.sentences import nothing_found
    from spectui.store import library
    from spectui.store.database import database_file, set_aside_files
    from spectui.store.prompts import PromptHistory, prompts_file

    if bool(names) == everything:
        raise UsageError("Name the conversations to delete (spectui history lists them), or give --all.")
    file = database_file()
    history = PromptHistory(prompts_file())
    if everything:
        names = tuple(each.id for each in library.summaries(file))
        if names or history.load():
            confirm(f"This deletes {len(names)} conversations and all prompts, and nothing brings them back", yes)
        else:
            click.echo(f"spectui: {nothing_found('')}", err=True)
    for name in names:
        history.forget(library.delete(file, name))
    paths.delete_kept()  # what models have read of them
    if everything:
        history.clear()
    for damaged in set_aside_files(file):
        click.echo(f"spectui: {damaged} was set aside and may still hold them: delete it yourself.", err=True)
