"""Flags made from the table of settings, and the command class that reads llama.cpp's command lines.

llama.cpp has single-dash flags of several letters (`-ngl 99`) and no clusters; click reads an unknown `-nglx` as `-n glx`.
So `Command.canonical` first rewrites a command line into click's form. It also suggests the nearest name for an unknown
flag, notes the spelling that the person used (`config show` and error messages repeat it), and leaves out the flags of
llama.cpp that mean nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from spectui.config import Configuration, Setting, load, nearest, settings
from spectui.errors import UsageError
from spectui.reference import HEADINGS, explanation, literal

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
        what = "|".join(spec.choices) if len(spec.choices) <= 3 else "TYPE"
        super().__init__(
            [*spec.flags, row.key],
            type=click.Path() if spec.metavar in ("FILE", "DIRS") else click.STRING,
            metavar=spec.metavar or what or "N",
            help=explanation(row) + (f" (default {literal(row)})" if row.default not in (None, "") else ""),
            **bare,
        )
        self.bare = spec.bare
        self.heading = HEADINGS[spec.section]


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
        options = {flag: option for option in parameters for flag in option.opts if flag.startswith("-")}
        takes_settings = any(isinstance(option, SettingOption) for option in parameters)
        spelled: dict[str | None, str] = ctx.meta.setdefault(SPELLED, {})
        result: list[str] = []
        rest = iter(args)
        for argument in rest:
            if argument == "--":
                return [*result, argument, *rest]
            if not argument.startswith("-") or argument == "-":
                result.append(argument)
                continue
            written, equals, value = argument.partition("=")
            flag = written.replace("_", "-") if written.startswith("--") else written  # as llama.cpp does
            attached = [value] if equals else []
            if flag not in options and argument[:2] in options and argument[2:3] and argument[2] in "-0123456789":
                written = flag = argument[:2]  # -n200
                attached = [argument[2:]]
            if flag not in options:
                values = _unused_values(flag) if takes_settings else None
                if values is None:
                    raise UsageError(f"There is no flag {written} for {ctx.command_path}{nearest(flag, options)}")
                for _ in range(values - len(attached)):
                    if next(rest, None) is None:
                        raise UsageError(f"The flag {written} needs a value.")
                ctx.meta.setdefault(UNUSED, {})[flag] = None
                continue
            option = options[flag]
            spelled[option.name] = written
            result += [flag, *attached]
            if not attached and not getattr(option, "bare", "") and not getattr(option, "is_flag", False):
                # A value may look like a flag (`-n -1`), so it is not looked at.
                result += [value for value in [next(rest, None)] if value is not None]
        return result

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(option, "heading", "Options"), []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def setting_options(*sections: str) -> Callable[[Decorated], Decorated]:
    """Give a command `-P`, `--config` and the flags of all settings but the ui's, or of those too with "ui"."""

    def decorate(function: Decorated) -> Decorated:
        options = [
            click.Option(["-P", "--profile"], metavar="NAME", help="a profile of the configuration file"),
            click.Option(["--config", "config_path"], type=click.Path(path_type=Path), metavar="FILE",
                         help="read this file instead of your own configuration"),
            *(SettingOption(row) for row in settings() if row.spec.section != "ui" or "ui" in sections),
        ]  # fmt: skip
        # click collects parameters from the bottom of a stack of decorators to its top.
        existing: list[click.Parameter] = getattr(function, "__click_params__", [])
        function.__click_params__ = [*reversed(options), *existing]  # type: ignore[attr-defined]
        return function

    return decorate


def configuration(profile: str | None, config_path: Path | None, values: Mapping[str, Any]) -> Configuration:
    """The effective settings of this invocation, from the values that click collected.

    Says on standard error which of llama.cpp's flags are not used.
    """
    spelled = click.get_current_context().meta[SPELLED]
    for notice in unused_flags():
        click.echo(f"spectui: {notice}", err=True)
    given = {key: (value, spelled[key]) for key, value in values.items() if value is not None}
    # Older versions of llama.cpp took the length of a draft here. "No such file" would not explain that.
    if "draft" in given and given["draft"][1] == "--draft" and given["draft"][0].isdecimal():
        length = given["draft"][0]
        raise UsageError(
            f"--draft takes the draft model's file; for drafts of {length} tokens write --draft-max {length}."
        )
    return load(given, path=config_path, profile=profile)


def unused_flags() -> list[str]:
    """A line that lists the flags of llama.cpp that this invocation does not use, in a list; no line if there are none."""
    from spectui.profiles.llama_flags import TEXT

    flags: dict[str, None] = click.get_current_context().meta.get(UNUSED, {})
    groups = (
        ("These flags of llama.cpp are not used", [flag for flag in flags if flag not in TEXT.split()]),
        ("spectui cannot do what these ask, so replies can differ from llama.cpp's",
         [flag for flag in flags if flag in TEXT.split()]),
    )  # fmt: skip
    line = " ".join(f"{what}: {', '.join(found)}." for what, found in groups if found)
    return [line] if line else []


def _unused_values(flag: str) -> int | None:
    """How many values follow a flag of llama.cpp that spectui does not use; None if llama.cpp has no such flag.

    Raises UsageError if the flag would choose a model.
    """
    from spectui.profiles import llama_flags

    if flag in llama_flags.MODELS.split():
        raise UsageError(f"spectui takes no model from {flag}: give its file with -m, or its repository with -hf.")
    groups = (llama_flags.SWITCHES, llama_flags.VALUES, llama_flags.PAIRS)
    return next((values for values, flags in enumerate(groups) if flag in flags.split()), None)
