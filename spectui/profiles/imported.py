"""What another program's command becomes here: the settings of a profile, and what was left out.

All three formats that are read (`llama_swap`, `preset_ini`, `llama_server`) end in `imported`, so a flag means the same in
each. What has no meaning here is listed with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from spectui import config
from spectui.errors import UsageError
from spectui.knobs import Knobs, title
from spectui.profiles.command_line import (
    CHANGES_TEXT,
    HUB_DRAFT,
    HUB_TARGET,
    NOT_USED,
    Shape,
    changes_text,
    read,
    unused_values,
)

ENVIRONMENT = "Set these variables where you start spectui"
NO_FLAG = "These words belong to no flag"
NO_VALUE = "These flags lack their value"
STARTED_BY = "It was started by"
UNKNOWN = "Neither spectui nor its llama.cpp has these flags"

MARK = re.compile(r"^[ \t]*[#;][ \t]*spectui:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
"""A comment that holds a setting which the other program does not have, as a line of TOML."""

SHAPES: dict[str, Shape] = {
    **{
        flag: Shape(row.key, bare=bool(row.spec.bare))
        for row in config.settings()
        if row.spec.section != "ui"
        for flag in row.spec.flags
    },
    **dict.fromkeys(HUB_TARGET, Shape("hub_target")),
    **dict.fromkeys(HUB_DRAFT, Shape("hub_draft")),
}

_PROGRAM = re.compile(r"(ik[-_])?llama([-_.]\S*)?|(server|main)(\.exe)?", re.IGNORECASE)
_CONTAINERS = ("docker", "podman", "nerdctl")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SECRET = re.compile(r"api-key|hf-token|-hft$|TOKEN|SECRET|PASSWORD|_KEY$")
_TRUE = ("on", "enabled", "true", "1")
_FALSE = ("off", "disabled", "false", "0")


class LeftOut(NamedTuple):
    """Something of the other program that has no meaning here. Without a `reason`, `what` is a whole sentence."""

    reason: str
    what: str


class ImportedProfile(NamedTuple):
    """A profile made from another program's command. `name` is empty if nothing names it."""

    name: str
    settings: Mapping[str, Any]
    left_out: tuple[LeftOut, ...]


class ImportedFile(NamedTuple):
    """Everything that a file of another program becomes here."""

    profiles: tuple[ImportedProfile, ...]
    left_out: tuple[LeftOut, ...] = ()
    refused: Mapping[str, str] = {}
    """Why a model cannot be imported, by its name."""


def arguments_of(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(words before the program, the program's arguments) of a command that starts one of llama.cpp's programs.

    Raises UsageError if it starts another program, or one in a container, whose paths are not this machine's.
    """
    if not words:
        raise UsageError("there is no command in it.")
    if words[0].startswith("-"):
        return [], list(words)
    if PurePath(words[0]).name in _CONTAINERS:
        raise UsageError(f"it is started by {words[0]}, whose paths are those of a container.")
    for index, word in enumerate(words):
        if not _ASSIGNMENT.fullmatch(word) and _PROGRAM.fullmatch(re.split(r"[/\\]", word)[-1]):
            return list(words[:index]), list(words[index + 1 :])
    raise UsageError(f"it starts {words[0]!r}, which is no program of llama.cpp.")


def imported(
    words: Sequence[str],
    *,
    name: str = "",
    comments: str = "",
    variables: Mapping[str, str] | None = None,
) -> ImportedProfile:
    """The profile of a command that starts one of llama.cpp's programs.

    `comments`: text in which settings are marked (`MARK`). `variables`: its environment. Relative paths start at the working
    directory. Raises UsageError as `arguments_of`.
    """
    before, arguments = arguments_of(words)
    assigned = {found[1]: found[2] for word in before if (found := _ASSIGNMENT.fullmatch(word))}
    left_out = [LeftOut(STARTED_BY, word) for word in before if word.split("=")[0] not in assigned]
    environment = {**(variables or {}), **assigned}
    given = [*_from_environment(environment, left_out), *arguments]
    line = read(given, SHAPES, "llama-server", settings=True, strict=False)
    alias = next((values[0] for flag, *values in line.unused if flag in ("-a", "--alias") and values), "")
    settings: dict[str, Any] = {}
    for flag, *values in line.unused:
        if flag == "--spec-type" and (drafter := _drafter(values)):
            settings["drafter"] = drafter
        elif flag not in ("-a", "--alias"):
            left_out.append(LeftOut(CHANGES_TEXT if changes_text(flag) else NOT_USED, _shown(flag, values)))
    left_out += [LeftOut(UNKNOWN, _shown(flag, values)) for flag, *values in line.unknown]
    left_out += [LeftOut("spectui takes no model from", _shown(flag, values)) for flag, *values in line.refused]
    for flag, value in _pairs(line.arguments, left_out):
        _take(settings, flag, value, left_out)
    _take_marked(settings, comments, left_out)
    try:
        Knobs(**{key: value for key, value in settings.items() if config.SETTINGS[key].owner is Knobs}).checked()
    except UsageError as error:
        left_out.append(LeftOut("", f"draft-min {settings.pop('draft_min')} is left out: {error}"))
    stem = Path(settings["model"]).stem if settings.get("model") else ""
    ordered = {key: settings[key] for key in config.SETTINGS if key in settings}
    return ImportedProfile(name or alias.split(",")[0] or stem, ordered, tuple(left_out))


def flag_words(flag: str, value: str) -> list[str]:
    """The words of a command line that do what a key of an INI file or an environment variable does."""
    text = value.strip().lower()
    if flag in SHAPES:
        if SHAPES[flag].bare and text in (*_TRUE, *_FALSE):
            return [flag, "on" if text in _TRUE else "off"]
        return [flag, value]
    if unused_values(flag) == 0:
        opposite = f"--{flag[5:]}" if flag.startswith("--no-") else f"--no-{flag.lstrip('-')}"
        if text in _TRUE:
            return [flag]
        if text in _FALSE and (opposite in SHAPES or unused_values(opposite) == 0):
            return [opposite]
        return [f"{flag}={value}"]
    return [flag, *value.split()] if unused_values(flag) == 2 else [flag, value]


def flag_of_variable(name: str) -> str | None:
    """The flag that one of llama.cpp's environment variables stands for."""
    from spectui.profiles.llama_flags import VARIABLES

    return dict(pair.split("=") for pair in VARIABLES.split()).get(name)


def _drafter(values: Sequence[str]) -> str | None:
    """The drafter that is nearest to llama-server's `--spec-type`; None where spectui has no such drafter."""
    kinds = {"draft-simple": "model", "none": "off"}
    found = {kinds.get(each) or ("suffix" if each.startswith("ngram-") else "") for each in ",".join(values).split(",")}
    return "auto" if found == {"model", "suffix"} else found.pop() or None if len(found) == 1 else None


def _from_environment(variables: Mapping[str, str], left_out: list[LeftOut]) -> Iterable[str]:
    for name, value in variables.items():
        if flag := flag_of_variable(name):
            yield from flag_words(flag, value)
        else:
            left_out.append(LeftOut(ENVIRONMENT, f"{name}={'…' if _SECRET.search(name) else value}"))


def _pairs(arguments: Sequence[str], left_out: list[LeftOut]) -> Iterable[tuple[str, str]]:
    """Each flag of ours with its value."""
    rest = list(reversed(arguments))
    while rest:
        flag = rest.pop()
        shape = SHAPES.get(flag)
        if shape is None:
            left_out.append(LeftOut(NO_FLAG, flag))
        elif shape.bare and (not rest or rest[-1].startswith("-")):
            yield flag, config.SETTINGS[shape.name].spec.bare
        elif rest and rest[-1] not in SHAPES:
            yield flag, rest.pop()
        else:
            left_out.append(LeftOut(NO_VALUE, flag))


def _take(settings: dict[str, Any], flag: str, value: str, left_out: list[LeftOut]) -> None:
    """Put the value of one flag into the settings, or say why not."""
    key = SHAPES[flag].name
    if key in ("hub_target", "hub_draft"):
        left_out.append(LeftOut("A profile names files, so fetch these with spectui chat", f"{flag} {value}"))
        return
    if flag == "--draft" and value.isdecimal():  # older versions of llama.cpp took the length of a draft here
        key = "draft_max"
    _put(settings, key, value, flag, left_out)


def _take_marked(settings: dict[str, Any], comments: str, left_out: list[LeftOut]) -> None:
    """Put the settings that are marked in comments in place of what the flags said."""
    import tomli

    for found in MARK.finditer(comments):
        try:
            table = tomli.loads(found[1])
        except (tomli.TOMLDecodeError, ValueError, RecursionError):
            left_out.append(LeftOut("", f"The comment {found[0].strip()!r} is left out: it is not a line of TOML."))
            continue
        for name, value in table.items():
            key = name.replace("-", "_")
            if key in config.SETTINGS:
                _put(settings, key, value, "a comment's", left_out)
            else:
                left_out.append(LeftOut("", f"The comment's {name} is left out: there is no such setting."))


def _put(settings: dict[str, Any], key: str, value: Any, origin: str, left_out: list[LeftOut]) -> None:
    try:
        converted = config.convert(key, value, f"{origin} {value}")
    except UsageError as error:
        left_out.append(LeftOut("", f"{title(key)} is left out: {error}"))
        return
    settings[key] = config.rooted(config.SETTINGS[key].spec, converted, Path.cwd())


def _shown(flag: str, values: Sequence[str]) -> str:
    return " ".join((flag, *("…" if _SECRET.search(flag) else value for value in values)))
