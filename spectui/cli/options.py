"""Flags made from the table of settings, and the command class that reads llama.cpp's command lines.

click reads an unknown `-nglx` as `-n glx`, so `Command.canonical` first rewrites a command line into click's form
(`spectui.profiles.command_line`), and notes the spelling that the person used: `config show` and error messages repeat it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from spectui.config import Configuration, Setting, load, nearest, settings, unknown_variables
from spectui.errors import UsageError
from spectui.profiles.command_line import CHANGES_TEXT, NOT_USED, Shape, changes_text, read
from spectui.reference import HEADINGS, explanation, literal
from spectui.text import of_argument, unescaped

INTERRUPTED = 130
"""The exit code after Ctrl+C: 128 + the signal's number, as a shell reports it."""

SPELLED = "spectui.spelled"
"""Key in click's `Context.meta`: option name -> the flag as it was written."""

UNUSED = "spectui.unused"
"""Key in click's `Context.meta`: the flags of llama.cpp that were left out of the command line, in order."""

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class SettingOption(click.Option):
    """A flag of a setting. The value stays text: `spectui.config` converts and checks what comes from anywhere."""

    def __init__(self, row: Setting) -> None:
        spec = row.spec
        # llama.cpp's old `-fa` stands alone: such a flag takes a value only where one follows.
        bare: dict[str, Any] = {"is_flag": False, "flag_value": spec.bare} if spec.bare else {}
        several: dict[str, Any] = {"multiple": True} if row.kind is tuple else {}
        if spec.adds:
            several = {"multiple": True, "callback": lambda ctx, option, given: ",".join(given) or None}
        what = "|".join(spec.choices) if len(spec.choices) <= 3 else "TYPE"
        super().__init__(
            [*spec.flags, row.key],
            type=click.Path() if spec.metavar in ("FILE", "DIRS") else click.STRING,
            metavar=spec.metavar or what or "N",
            help=explanation(row) + (f" (default {literal(row)})" if row.default not in (None, "") else ""),
            **bare,
            **several,
        )
        self.bare = spec.bare
        self.heading = HEADINGS[spec.section]


class ListOption(click.Option):
    """A flag of a setting that takes several values."""

    def __init__(self, row: Setting) -> None:
        help = f"{explanation(row)}; a list a,b,c{'' if row.kind is str else ' or a range FIRST:LAST:STEP'}"
        super().__init__([*row.spec.flags, row.key], metavar="LIST", help=help)
        self.heading = "Settings to compare"


class Group(click.Group):
    """A group that says in one line which command was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        commands = self.list_commands(ctx)
        if args[0] not in commands:
            raise UsageError(f"There is no command {args[0]!r} for {ctx.command_path}{nearest(args[0], commands)}")
        return super().resolve_command(ctx, args)


class Command(click.Command):
    """A command whose flags may be llama.cpp's, listed in the help under headings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.canonical(ctx, args))

    def canonical(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`args` with attached values detached and without llama.cpp's unused flags.

        Raises UsageError at the first flag that neither this command nor, if it takes settings, llama.cpp has.
        """
        parameters = self.get_params(ctx)
        flags = {
            flag: Shape(option.name or "", bool(getattr(option, "bare", "")), bool(getattr(option, "is_flag", False)))
            for option in parameters
            for flag in (*option.opts, *option.secondary_opts)
            if flag.startswith("-")
        }
        takes_settings = any(isinstance(option, SettingOption) for option in parameters)
        line = read(args, flags, ctx.command_path, settings=takes_settings)
        ctx.meta.setdefault(SPELLED, {}).update(line.spelled)
        ctx.meta.setdefault(UNUSED, {}).update(dict.fromkeys(flag for flag, *_ in line.unused))
        return line.arguments

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(option, "heading", "Options"), []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def setting_options(
    *sections: str, profile: bool = True, lists: Collection[str] = ()
) -> Callable[[Decorated], Decorated]:
    """Give a command `-P` (if `profile`), `--config` and the flags of all settings but the ui's, or of those too with "ui".

    Those in `lists` take a list or a range of values: the command reads them, not `configuration`.
    """

    def decorate(function: Decorated) -> Decorated:
        options = [
            *([click.Option(["-P", "--profile"], metavar="NAME", help="a profile of the configuration file")] * profile),
            click.Option(["--config", "config_path"], type=click.Path(path_type=Path), metavar="FILE",
                         help="read this file instead of your own configuration"),
            click.Option(["-e", "--escape/--no-escape", "escape"], default=None,
                         help="read \\n, \\t, \\xHH and the like in -p; in stop texts they are read unless --no-escape"),
            *(
                ListOption(row) if row.key in lists else SettingOption(row)
                for row in settings() if row.spec.section != "ui" or "ui" in sections
            ),
        ]  # fmt: skip
        # click collects parameters from the bottom of a stack of decorators to its top.
        existing: list[click.Parameter] = getattr(function, "__click_params__", [])
        function.__click_params__ = [*reversed(options), *existing]  # type: ignore[attr-defined]
        return function

    return decorate


def configuration(profile: str | None, config_path: Path | None, values: Mapping[str, Any]) -> Configuration:
    """The effective settings of this invocation, from the values that click collected.

    Says on standard error which of llama.cpp's flags are not used, and which variables are unknown.
    """
    spelled = click.get_current_context().meta[SPELLED]
    for notice in (*unknown_variables(), *unused_flags()):
        click.echo(f"spectui: {notice}", err=True)
    values = dict(values)
    if values.pop("escape", None) is not False and values.get("stop"):
        values["stop"] = tuple(map(unescaped, values["stop"]))
    paths = {row.key for row in settings() if row.spec.metavar in ("FILE", "DIRS")}
    given = {
        key: (value if key in paths else _text(value), spelled[key])
        for key, value in values.items()
        if value not in (None, ())
    }
    # Older versions of llama.cpp took the length of a draft here. "No such file" would not explain that.
    if "draft" in given and given["draft"][1] == "--draft" and given["draft"][0].isdecimal():
        length = given["draft"][0]
        raise UsageError(
            f"--draft takes the draft model's file; for drafts of {length} tokens write --draft-max {length}."
        )
    return load(given, path=config_path, profile=profile)


def _text(value: Any) -> Any:
    """A value that is no file's name, with its text read as UTF-8."""
    try:
        return of_argument(value) if isinstance(value, str) else value
    except UnicodeError:  # what takes it says what is wrong with it
        return value


def unused_flags() -> list[str]:
    """A line that lists the flags of llama.cpp that this invocation does not use, in a list; no line if there are none."""
    flags: dict[str, None] = click.get_current_context().meta.get(UNUSED, {})
    groups = (
        (NOT_USED, [flag for flag in flags if not changes_text(flag)]),
        (CHANGES_TEXT, [flag for flag in flags if changes_text(flag)]),
    )
    line = " ".join(f"{what}: {', '.join(found)}." for what, found in groups if found)
    return [line] if line else []
