"""Flags made from the table of settings, their help, and the command class that reads llama.cpp's command lines.

click reads an unknown `-nglx` as `-n glx`, so `Command.canonical` first rewrites a command line into click's form
(`spectui.profiles.command_line`), and notes the spelling that the person used: `config show` and error messages repeat it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from spectui.config import Configuration, Setting, load, nearest, settings, unknown_variables
from spectui.errors import UsageError
from spectui.profiles.command_line import CHANGES_TEXT, HUB_DRAFT, HUB_TARGET, NOT_USED, Shape, changes_text, read
from spectui.reference import HEADINGS, explanation
from spectui.text import of_argument, unescaped

INTERRUPTED = 130
"""The exit code after Ctrl+C: 128 + the signal's number, as a shell reports it."""

SPELLED = "spectui.spelled"
"""Key in click's `Context.meta`: option name -> the flag as it was written."""

UNUSED = "spectui.unused"
"""Key in click's `Context.meta`: the flags of llama.cpp that were left out of the command line, in order."""

USELESS = "spectui.useless"
"""Key in click's `Context.meta`: the flags of settings that the command has no use for, in order."""

_WHOLE = "spectui.whole"
"""Key in click's `Context.meta`: the help has to list the rare flags too."""

ENGINE = ("models", "devices", "speculation", "sampling")
"""The sections of settings that are not the window's."""

SERVER = ("server", "server_model", "server_key_file")
"""The settings of commands that can ask a server instead of loading models."""

_USUAL = ("model", "draft", "server", "ctx_size", "temperature", "predict")
"""The settings that every help lists, under one heading."""

_USUAL_HEADING = "Models and settings"

_OPTIONS = "Options"

USUAL_QUANTS = ("Q4_K_M", "Q8_0")
"""The quantisations that are fetched from the hub unless another is named, as in llama.cpp: the first that there is."""

_NONE: Mapping[str, object] = {}


class NewFile(click.Path):
    """The name of a file to be written, which standard output cannot be."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-" and param is not None:
            raise UsageError(f"{param.opts[0]} needs the name of a file: this cannot be written to standard output.")
        return super().convert(value, param, ctx)


class Option(click.Option):
    """A flag with its place in the help: a heading, and whether it is so `rare` that `--help-all` alone lists it."""

    def __init__(self, names: Sequence[str], *, heading: str = _OPTIONS, rare: bool = False, **others: Any) -> None:
        super().__init__(names, **others)
        self.heading, self.rare = heading, rare

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The names and the help; but in the short help the first names alone, short and long."""
        record = super().get_help_record(ctx)
        if record is None or ctx.meta.get(_WHOLE):
            return record
        short, long = ([name for name in self.opts if name.startswith("--") is is_long] for is_long in (False, True))
        return f"{', '.join((*short[:1], *long[:1]))} {self.metavar or ''}".rstrip(), record[1]


rare_option = partial(click.option, cls=Option, rare=True)
"""Decorator: a flag that few people need."""


def _without_colours(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        os.environ["NO_COLOR"] = "1"  # Textual reads it when the app is made


color_option = rare_option(
    "--no-color", is_flag=True, expose_value=False, callback=_without_colours,
    help="no colours; NO_COLOR in the environment does the same",
)  # fmt: skip


class SettingOption(Option):
    """A flag of a setting. The value stays text: `spectui.config` converts and checks what comes from anywhere."""

    def __init__(self, row: Setting, **place: Any) -> None:
        spec = row.spec
        # llama.cpp's old `-fa` stands alone: such a flag takes a value only where one follows.
        bare: dict[str, Any] = {"is_flag": False, "flag_value": spec.bare} if spec.bare else {}
        several: dict[str, Any] = {"multiple": True} if row.kind is tuple else {}
        if spec.adds:
            several = {"multiple": True, "callback": lambda ctx, option, given: ",".join(given) or None}
        few = 0 < len(spec.choices) <= 3
        what = "|".join(spec.choices) if few else "TYPE" if spec.choices else "N"
        help = spec.help if few else explanation(row)
        if row.default not in (None, "", ()):
            help += f" (default {row.default})"
        super().__init__(
            [*spec.flags, row.key],
            type=click.Path() if spec.metavar in ("FILE", "DIRS") else click.STRING,
            metavar=spec.metavar or (f"[{what}]" if spec.bare else what),
            heading=HEADINGS[spec.section],
            **{"help": help, "rare": row.key not in _USUAL, **bare, **several, **place},
        )
        self.bare, self.choices = spec.bare, spec.choices

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The values that begin so, or files."""
        choices = [CompletionItem(choice) for choice in self.choices if choice.startswith(incomplete)]
        return choices or super().shell_complete(ctx, incomplete)


class ListOption(Option):
    """A flag of a setting that takes several values."""

    def __init__(self, row: Setting) -> None:
        help = f"{explanation(row)}; a list a,b,c{'' if row.kind is str else ' or a range FIRST:LAST:STEP'}"
        super().__init__([*row.spec.flags, row.key], metavar="LIST", help=help, heading="Settings to compare")


def _print_whole_help(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        ctx.meta[_WHOLE] = True
        click.echo(ctx.get_help())
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, expose_value=False, is_eager=True, callback=_print_whole_help,
    help="print this with all flags",
)  # fmt: skip


class Group(click.Group):
    """A group that lists its commands in their order, and says in one line which command was meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        commands = self.list_commands(ctx)
        if args[0] not in commands:
            raise UsageError(f"There is no command {args[0]!r} for {ctx.command_path}{nearest(args[0], commands)}")
        return super().resolve_command(ctx, args)


class Command(click.Command):
    """A command whose flags may be llama.cpp's, listed in the help under headings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.canonical(ctx, args))

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        parameters = super().get_params(ctx)
        return [*parameters, _HELP_ALL] if any(getattr(each, "rare", False) for each in parameters) else parameters

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
        groups: dict[str, list[tuple[str, str]]] = {_OPTIONS: []}
        whole = ctx.meta.get(_WHOLE)
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option) and (whole or not getattr(option, "rare", False)):
                heading = getattr(option, "heading", _OPTIONS)
                if heading in HEADINGS.values() and not whole:  # of each there are few
                    heading = _USUAL_HEADING
                groups.setdefault(heading, []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


@dataclass(frozen=True)
class Options:
    """What a command line says of settings. `values`: the flags of settings, by key."""

    values: Mapping[str, Any]
    profile: str | None = None
    config_path: Path | None = None

    @cached_property
    def settings(self) -> Configuration:
        """The effective settings. Says on standard error which of llama.cpp's flags are not used, and which variables are
        unknown. Raises UsageError."""
        spelled = click.get_current_context().meta[SPELLED]
        for notice in (*unknown_variables(), *unused_flags()):
            click.echo(f"spectui: {notice}", err=True)
        values = dict(self.values)
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
            raise UsageError(f"--draft takes the draft model's file; for drafts of {length} tokens write --draft-max {length}.")
        return load(given, path=self.config_path, profile=self.profile)


def setting_options(
    *sections: str,
    without: Collection[str] = (),
    profile: bool = True,
    lists: Collection[str] = (),
    defaults: Mapping[str, object] = _NONE,
    kind: type[Options] = Options,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command `-P` (if `profile`), `--config`, and the flags of the settings in these sections `without` some. It is
    called with `options`, which are of this `kind`: what that has fields for is taken from the command's other options. Where
    it has them for models of the hub, the command gets their flags too.

    Those in `lists` take a list or a range of values: the command reads them, not `Options.settings`. The other sections of
    `ENGINE` are accepted, as a line is pasted whole, and `Options.settings` says that they are not used. `defaults`: what the
    command takes in place of a setting's own default of -1, for the help.
    """

    names = {field.name for field in fields(kind)}

    def flags(row: Setting) -> Iterator[Option]:
        yield flag(row)
        if "hub_draft" in names and row.key == "draft":
            for role, spelled in (("target", HUB_TARGET), ("draft", HUB_DRAFT)):
                help = f"fetch the {role} from the Hugging Face hub (default {', else '.join(USUAL_QUANTS)}, else the smallest)"
                yield Option([*spelled, f"hub_{role}"], metavar="USER/REPO[:QUANT]", heading=HEADINGS["models"],
                             rare=role == "draft", help=help)  # fmt: skip

    def flag(row: Setting) -> Option:
        if row.spec.section not in sections:
            return SettingOption(row, hidden=True, expose_value=False, callback=_useless)
        if row.key in lists:
            return ListOption(row)
        if row.key in defaults:  # what -1 means is left out, because here it means the same
            return SettingOption(row, help=f"{row.spec.help.partition(' (')[0]} (default {defaults[row.key]})")
        return SettingOption(row)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        options = [
            *([Option(["-P", "--profile"], metavar="NAME", help="a profile of the configuration file")] * profile),
            Option(["--config", "config_path"], type=click.Path(path_type=Path), metavar="FILE", rare=True,
                   help="read this file instead of your own configuration"),
            Option(["-e", "--escape/--no-escape", "escape"], default=None, rare=True,
                   help="read \\n, \\t, \\xHH and the like in -p; in stop texts they are read unless --no-escape"),
            *(option for row in settings() if row.spec.section in (*ENGINE, *sections) and row.key not in without
              for option in flags(row)),
        ]  # fmt: skip
        keys = [option.name for option in options if option.name not in names]

        @functools.wraps(function)
        def called(*arguments: Any, **given: Any) -> Any:
            values = {key: given.pop(key) for key in keys if key in given}
            own = {name: given.pop(name) for name in names & given.keys()}
            return function(*arguments, options=kind(values=values, **own), **given)

        # click collects parameters from the bottom of a stack of decorators to its top.
        existing: list[click.Parameter] = getattr(function, "__click_params__", [])
        called.__click_params__ = [*reversed(options), *existing]  # type: ignore[attr-defined]
        return called

    return decorate


def _useless(ctx: click.Context, option: click.Parameter, given: Any) -> None:
    if given not in (None, (), ""):
        ctx.meta.setdefault(USELESS, {})[ctx.meta[SPELLED][option.name]] = None


def _text(value: Any) -> Any:
    """A value that is no file's name, with its text read as UTF-8."""
    try:
        return of_argument(value) if isinstance(value, str) else value
    except UnicodeError:  # what takes it says what is wrong with it
        return value


def unused_flags() -> list[str]:
    """A line that lists the flags that this invocation does not use, in a list; no line if there are none."""
    ctx = click.get_current_context()
    flags: dict[str, None] = ctx.meta.get(UNUSED, {})
    groups = (
        (f"{ctx.command_path} does not use these settings", list(ctx.meta.get(USELESS, {}))),
        (NOT_USED, [flag for flag in flags if not changes_text(flag)]),
        (CHANGES_TEXT, [flag for flag in flags if changes_text(flag)]),
    )
    line = " ".join(f"{what}: {', '.join(found)}." for what, found in groups if found)
    return [line] if line else []
