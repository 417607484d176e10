"""The command line. Each command is imported when it is called, and imports Textual, llama_cpp and numpy only if it uses
them, so that help is quick and the window opens early.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Any, cast

import click

import spectui
from spectui.cli.options import INTERRUPTED, Group
from spectui.errors import SpectuiError, UsageError
from spectui.text import LOOKALIKES, one_line

GROUPS = {
    "Chat": ("chat", "run", "serve", "history", "replay"),
    "This machine": ("doctor", "devices", "exact", "forget"),
    "Find the fastest": ("tune", "bench", "costs", "fit", "draft"),
    "Settings": ("config",),
}
"""The commands as the help lists them. Each has a module of its name here, or in the folder that `FOLDERS` names."""

FOLDERS = {
    **dict.fromkeys(("bench", "costs", "exact", "fit", "tune"), "measure."), **dict.fromkeys(("devices", "doctor"), "machine."),
}  # fmt: skip

COMMANDS = tuple(name for names in GROUPS.values() for name in names)

EXAMPLES = (
    "spectui chat -m target.gguf -md draft.gguf",
    'spectui run -m target.gguf "Say hello" --temp 0',
    "spectui tune -m target.gguf -md draft.gguf --save fast",
)

BROKEN_PIPE = 141
"""128 + the number of the signal, as a shell reports it."""


class Commands(Mapping[str, click.Command]):
    """The commands by name, as click has them; each is imported when it is asked for."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in COMMANDS:
            raise KeyError(name)
        command: click.Command = import_module(f"spectui.cli.{FOLDERS.get(name, '')}{name}").command
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Root(Group):
    """The program's group. Every error that a person can cause ends in one line on stderr and an exit code, not a traceback."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run, and exit the process. Commands return nothing and exit through click's context."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError):  # it may be closed, or None
                cast("TextIOWrapper", stream).reconfigure(errors=LOOKALIKES)
        try:
            code = super().main(*args, standalone_mode=False, **extra)  # type: ignore[call-overload]
            if sys.stdout is not None:
                sys.stdout.flush()
            elif not code:  # click writes nothing then, and says nothing
                code = complain("Standard output is closed, so there is nowhere to write to.", 1)
        except click.ClickException as error:
            code = complain(error.format_message(), error.exit_code)
        except SpectuiError as error:
            code = complain(str(error), error.exit_code)
        except click.Abort:
            code = INTERRUPTED
        except BrokenPipeError:
            code = silence()
        except OSError as error:
            unnamed = "the working directory" if isinstance(error, FileNotFoundError) else "standard output"
            code = complain(f"{error.strerror or error}: {error.filename or unnamed}.", 1)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # click would exit with 1, but a reader that went away is no error.
            ctx.exit(silence())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        room = formatter.width - 6 - max(map(len, COMMANDS))
        for heading, names in GROUPS.items():
            commands = [(f"{name:<7}", self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(name, each.get_short_help_str(room)) for name, each in commands if each is not None])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in EXAMPLES:
                formatter.write(f"  {line}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names and args[0] != "--version":
            raise UsageError(f"{args[0]} comes after a command: spectui chat {args[0]} ...; spectui --help lists commands.")
        return super().parse_args(ctx, args)


def complain(message: str, code: int) -> int:
    """Print a message as one line of printable text: it may quote a file or a model. Returns `code`."""
    line = " ".join(message.split())
    with suppress(OSError):  # stderr may be closed
        click.echo(f"spectui: {one_line(line)}", err=True)
    return code


def silence() -> int:
    """Discard what is still buffered: Python would report the closed pipe at exit. Returns the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def print_version(ctx: click.Context, parameter: click.Parameter, asked: bool) -> None:
    """spectui's and llama.cpp's, and whether the kernels were built: what a report of a fault needs first."""
    if asked:
        from importlib.metadata import PackageNotFoundError, version

        from spectui.kernels.build import LIBRARY

        try:
            llama_cpp = version("llama-cpp-python")
        except PackageNotFoundError:  # it is not needed for --server
            llama_cpp = "none"
        kernels = f"{'with' if LIBRARY.exists() else 'without'} spectui's kernels"
        click.echo(f"spectui {spectui.__version__} (llama-cpp-python {llama_cpp}, {kernels})")
        ctx.exit()


@click.group(
    "spectui",
    cls=Root,
    commands=Commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version, help="print the versions")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Chat with a local model at the speed of speculative decoding, see why it is fast, and steer it while it runs.

    Alone, it opens the chat. Flags have llama.cpp's names: a line for llama-server can be pasted after `spectui chat` or
    `spectui run`.
    """
    if ctx.invoked_subcommand is not None:
        return
    from spectui.cli.terminal import is_terminal

    if is_terminal():
        chat = root.get_command(ctx, "chat")
        assert chat is not None
        with chat.make_context("chat", [], parent=ctx) as begun:
            chat.invoke(begun)
    else:
        click.echo(ctx.get_help())


def main() -> None:
    """The program `spectui`.

    Everything is closed when its command returns, so it ends at once. Python's own end imports modules, and waits for ever if
    a thread that it has ended was importing one, as the monitor's and the engine's do at their start.
    """
    try:
        root.main(prog_name="spectui")
    except SystemExit as end:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # it may be closed, or None
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
