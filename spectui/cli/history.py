"""`spectui history`: list, print, export and delete the conversations on disk."""

from __future__ import annotations

from datetime import datetime

import click

from spectui.cli.options import Command, Group
from spectui.errors import UsageError
from spectui.text import one_line


@click.group("history", cls=Group, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, search, read and delete conversations."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(show_list)


@command.command("list", cls=Command)
@click.argument("words", nargs=-1)
def show_list(words: tuple[str, ...]) -> None:
    """List conversations, the latest first; with WORDS, those that contain them."""
    from spectui.store.database import database_file, set_aside_files
    from spectui.store.library import summaries

    for each in summaries(database_file(), " ".join(words)):
        when = datetime.fromtimestamp(each.updated).strftime("%Y-%m-%d %H:%M")
        click.echo(f"{each.id}  {when}  {each.messages:>4}  {each.target}  {each.title}")
    for file in () if words else set_aside_files(database_file()):
        size = f"{file.stat().st_size / 1e6:.1f} MB"
        click.echo(
            f"spectui: {file} ({size}) is damaged and was set aside; history delete --all deletes it too.", err=True
        )


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
    type=click.Choice(["md", "json"]),
    default="md",
    show_default=True,
    help="the text alone, or JSON with origins and figures",
)
@click.option("--force", is_flag=True, help="replace a file of that name")
def export(name: str, kind: str, force: bool) -> None:
    """Write a conversation to a file in this directory, named after its title; prints the file's name."""
    from spectui.measure.progress import ProgressLine
    from spectui.store import export
    from spectui.store.database import database_file
    from spectui.store.library import open_conversation

    conversation, line = open_conversation(database_file(), name), ProgressLine()
    file = export.file_name(conversation.title, f".{kind}")
    try:
        saved = export.save(
            conversation,
            export.working_directory(),
            file,
            replace=force,
            progress=lambda share: line(share, file),
        )
    except export.ExistsError as error:
        raise UsageError(f"{error} --force replaces it.") from error
    finally:
        line.end()
    click.echo(one_line(str(saved)))


@command.command("delete", cls=Command)
@click.argument("names", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="delete every conversation")
def delete(names: tuple[str, ...], everything: bool) -> None:
    """Delete conversations and the prompts sent in them; their texts are overwritten on disk."""
    from spectui.store import library
    from spectui.store.database import database_file, delete_set_aside, set_aside_files
    from spectui.store.prompts import PromptHistory, prompts_file

    if bool(names) == everything:
        raise UsageError("Name the conversations to delete (spectui history lists them), or give --all.")
    file = database_file()
    history = PromptHistory(prompts_file())
    for name in [each.id for each in library.summaries(file)] if everything else names:
        history.forget(library.delete(file, name))
    aside = set_aside_files(file)
    if everything:
        history.clear()
        for each in aside:
            delete_set_aside(each)
    elif aside:
        click.echo(f"spectui: {aside[0].name} was set aside and may still hold them; --all deletes it too.", err=True)
