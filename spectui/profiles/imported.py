"""What another program's command becomes here: the settings of a profile, and what was left out.

All formats that are read end in `imported`, so a flag means the same in each. What has no meaning here is listed with a reason.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple, TypeVar

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
    llama_flags,
    read,
    unused_values,
)
from spectui.profiles.exported import LOOKUP, LOOKUP_LENGTH
from spectui.text import unescaped

ENVIRONMENT = "Set these variables where you start spectui"
NO_FLAG = "These words belong to no flag"
NO_VALUE = "These flags lack their value"
NO_DRAFTER = "spectui has no drafter like these of llama-server"
OF_THE_HUB = "A profile names files, so fetch these with spectui chat"
STARTED_BY = "It was started by"
UNKNOWN = "Neither spectui nor its llama.cpp has these flags or variables"

MARK = re.compile(r"^[ \t]*[#;][ \t]*spectui:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
"""A comment that holds a setting which the other program does not have, as a line of TOML."""

ESCAPES = ("-e", "--escape", "--no-escape")
"""Flags that say whether \\n and the like are read in texts, as they are without any of them."""

SHAPES: dict[str, Shape] = {
    **{
        flag: Shape(row.key, bare=bool(row.spec.bare))
        for row in config.settings()
        if row.spec.section != "ui"
        for flag in row.spec.flags
    },
    **dict.fromkeys(ESCAPES, Shape("escape", switch=True)),
    **dict.fromkeys(HUB_TARGET, Shape("hub_target")),
    **dict.fromkeys(HUB_DRAFT, Shape("hub_draft")),
}

_DRAFTING = {"draft-simple": "model", "draft-mtp": "mtp", "draft-eagle3": "model", "draft-dflash": "model"}
"""What drafts by a model or by heads, as llama-server calls it, and the drafter that it is."""

_SECRET = re.compile(r"api-key|hf-token|-hft$")
_OF_THE_MACHINE = re.compile(
    r"(CUDA|GGML|LLAMA_ARG|HIP|ROCR|HSA|AMD|GPU|NVIDIA|VK|SYCL|ONEAPI|ZES?|OMP|GOMP|KMP|MKL|OPENBLAS)_|LD_LIBRARY_PATH$"
)
"""Variables that choose devices, threads and libraries. Others, which may hold a secret, are not named."""

Entry = TypeVar("Entry")

EDGE = "\0"
_MARKED = re.compile(f"{EDGE}([^{EDGE}]*){EDGE}([^{EDGE}]*){EDGE}")
"""What only a run can tell, in a word: as it is written, and the sentence that says so. No text that is read has this sign."""

RUN_IT = "start it and use --running, or paste the command"
"""What to do where a text does not tell what a run would."""

_TRUE = ("on", "enabled", "true", "1")
_FALSE = ("off", "disabled", "false", "0")


class ScriptError(UsageError):
    """A text that is no whole script, or that only a run could tell."""

    exit_code = 1


@dataclass
class Started:
    """A command that starts one of llama.cpp's programs.

    `arguments`: the program's. `starters`: names of the programs that start it. `variables`: its environment. `directory`:
    where its relative paths start, "" for where it is imported. `volumes`: in a container, (path outside, path inside).
    `windows`: it is a command of Windows.
    """

    arguments: list[str]
    starters: list[str] = field(default_factory=list)
    variables: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    volumes: Sequence[tuple[str, str]] | None = None
    windows: bool = False


def unknown(written: str, why: str) -> str:
    """Stands in a word for what only a run can tell, as it is written; `why` is the beginning of a sentence about it."""
    return f"{EDGE}{written.replace(EDGE, '')}{EDGE}{why}{EDGE}"


def shown(word: str) -> str:
    """A word as it is written."""
    return _MARKED.sub(r"\1", word).replace(EDGE, "")


def split(value: str) -> list[str]:
    """The words of a value without quotes. What is unknown is a part of one word, whatever is in it."""
    return [word[0] for word in re.finditer(rf"(?:{_MARKED.pattern}|[^\s{EDGE}])+", value)]


def joined(directory: str, path: str) -> str:
    """A path that starts at a directory, which may be one of Windows."""
    if EDGE in directory + path:  # .. would take away what is unknown
        return path if config.is_absolute(path) else f"{directory}/{path}"
    if PureWindowsPath(directory).is_absolute():
        return str(PureWindowsPath(directory, path))
    return os.path.normpath(os.path.join(directory.replace("\\", "/"), path)) if directory else path


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


def imported_each(commands: Mapping[Any, Entry], read: Callable[[str, Entry], ImportedProfile], what: str) -> ImportedFile:
    """The profile of each entry of a file that can be read; the others with the reason.

    Raises UsageError if none can be; `what` is an entry's name in that sentence.
    """
    profiles: list[ImportedProfile] = []
    refused: dict[str, UsageError] = {}
    for name, entry in commands.items():
        try:
            profiles.append(read(str(name), entry))
        except UsageError as error:
            refused[str(name)] = error
    if not profiles:
        name, reason = min(refused.items(), key=lambda refusal: "it starts" in str(refusal[1]))
        raise type(reason)(f"No {what} in it can be imported; of {name}: {reason}")
    return ImportedFile(tuple(profiles), refused={name: str(reason) for name, reason in refused.items()})


def imported(started: Started, *, name: str = "", comments: str = "") -> ImportedProfile:
    """The profile of a command that starts one of llama.cpp's programs.

    `comments`: text in which settings are marked (`MARK`). Relative paths start at the command's directory. Raises UsageError
    if a model's path is not known, or not this machine's.
    """
    left_out = [LeftOut(STARTED_BY, shown(name)) for name in started.starters]
    given = [*_from_environment(started.variables, left_out), *started.arguments]
    line = read(given, SHAPES, "llama-server", settings=True, strict=False)
    alias = next((values[0] for flag, *values in line.unused if flag in ("-a", "--alias") and values), "")
    settings: dict[str, Any] = {}
    types: list[str] = []
    length = ""
    for flag, *values in line.unused:
        if flag == "--spec-type":
            types += _told(",".join(values)).split(",")
        elif flag == "--spec-default":
            types.append("ngram-mod")
        elif flag == LOOKUP_LENGTH and values:
            length = _told(values[0])
        elif flag not in ("-a", "--alias"):
            left_out.append(LeftOut(CHANGES_TEXT if changes_text(flag) else NOT_USED, _shown(flag, values)))
    left_out += [LeftOut(UNKNOWN, _shown(flag, values)) for flag, *values in line.unknown]
    left_out += [LeftOut("spectui takes no model from", _shown(flag, values)) for flag, *values in line.refused]
    left_out += [LeftOut(NO_FLAG, shown(_told(word))) for word in line.strays]
    escapes = [flag for flag, _ in line.given if flag in ESCAPES]
    for flag, given_value in line.given:
        shape = SHAPES[flag]
        value = config.SETTINGS[shape.name].spec.bare if shape.bare and given_value is None else given_value
        if value is None:
            left_out += [LeftOut(NO_VALUE, flag)] if not shape.switch else []
            continue
        read_escapes = shape.name == "stop" and escapes[-1:] != ["--no-escape"]
        _take(settings, flag, unescaped(value) if read_escapes else value, started, left_out)
    if rest := next((what for reason, what in left_out if reason == NO_FLAG and what.endswith(".gguf")), ""):
        raise ScriptError(f"{rest} belongs to no flag: put quotes around paths with blanks.")
    _take_types(settings, types, left_out)
    if length and LOOKUP in types and ("draft_max" not in settings or _DRAFTING.keys().isdisjoint(types)):
        settings.pop("draft_max", None)  # it bounds no lookup
        _put(settings, "draft_max", length, LOOKUP_LENGTH, left_out)
    elif length and (LOOKUP not in types or str(settings["draft_max"]) != length):
        left_out.append(LeftOut(NOT_USED, _shown(LOOKUP_LENGTH, [length])))
    _take_marked(settings, comments, left_out)
    try:
        Knobs(**{key: value for key, value in settings.items() if config.SETTINGS[key].owner is Knobs}).checked()
    except UsageError as error:
        left_out.append(LeftOut("", f"draft-min {settings.pop('draft_min')} is left out: {error}"))
    stem = PureWindowsPath(settings["model"]).stem if settings.get("model") else ""
    ordered = {key: settings[key] for key in config.SETTINGS if key in settings}
    return ImportedProfile(shown(name or alias.split(",")[0] or stem), ordered, tuple(left_out))


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
    return dict(pair.split("=") for pair in llama_flags()["variables"]).get(name)


def _take_types(settings: dict[str, Any], types: Sequence[str], left_out: list[LeftOut]) -> None:
    """Choose the drafter that is nearest to llama-server's `--spec-type`, which may be a list, and `--spec-default`."""
    kinds = {**_DRAFTING, "none": "off"}
    types = [f"draft-{name}" if f"draft-{name}" in kinds else name for name in types]  # as other versions had them
    drafter_of = {name: kinds.get(name) or ("suffix" if name.startswith("ngram-") else "") for name in types}
    left_out += [LeftOut(NO_DRAFTER, shown(name)) for name, drafter in drafter_of.items() if not drafter]
    drafters = {drafter for drafter in drafter_of.values() if drafter} - ({"off"} if len(drafter_of) > 1 else set())
    if drafters:
        settings["drafter"] = "auto" if len(drafters) > 1 else drafters.pop()
    draft = settings.get("draft")
    if draft and not set(_DRAFTING) & set(types) and any(name.startswith("draft-") for name in types):
        left_out.append(LeftOut("", f"draft {settings.pop('draft')} is left out: it is made for what spectui does not have."))


def _from_environment(variables: Mapping[str, str], left_out: list[LeftOut]) -> Iterable[str]:
    for name, value in variables.items():
        if flag := flag_of_variable(name):
            yield from flag_words(flag, value)
        elif flag := flag_of_variable(name.replace("LLAMA_ARG_NO_", "LLAMA_ARG_", 1)):
            yield from flag_words(flag, "off")  # whatever its value is
        elif _OF_THE_MACHINE.match(name):
            reason = UNKNOWN if name.startswith("LLAMA_ARG_") else ENVIRONMENT
            left_out.append(LeftOut(reason, shown(f"{name}={value}")))


def _take(settings: dict[str, Any], flag: str, value: str, started: Started, left_out: list[LeftOut]) -> None:
    """Put the value of one flag into the settings, or say why not."""
    key = SHAPES[flag].name
    if key in ("model", "draft") and not value:
        raise ScriptError(f"{flag} is empty: write the file's path there.")
    if key in ("model", "draft") and re.search(r"\{\{.*\}\}", value):
        raise ScriptError(f"{flag} is {value}, which only a run can tell: {RUN_IT}.")
    _told(value)
    if key in ("hub_target", "hub_draft"):
        left_out.append(LeftOut(OF_THE_HUB, f"{flag} {value}"))
        return
    if flag == "--draft" and value.isdecimal():  # older versions of llama.cpp took the length of a draft here
        key = "draft_max"
    if config.SETTINGS[key].spec.metavar == "FILE":
        value = _told(_on_this_machine(flag, value, started))
    _put(settings, key, value, flag, left_out)


def _told(text: str) -> str:
    """The text itself. Raises ScriptError if only a run can tell a part of it."""
    if mark := _MARKED.search(text):
        raise ScriptError(f"{mark[2]}: {RUN_IT}.")
    return text


def _on_this_machine(flag: str, value: str, started: Started) -> str:
    """A file's path as this machine has it."""
    if started.windows and not PureWindowsPath(value).is_absolute():
        value = value.replace("\\", "/")
    if started.volumes is None:
        value = os.path.expanduser(value)
        return value if config.is_absolute(value) else joined(started.directory, value)
    inside = posixpath.normpath(posixpath.join(started.directory, value))
    for outside, mounted in sorted(started.volumes, key=lambda volume: -len(volume[1])):
        if inside == mounted or inside.startswith(mounted.rstrip("/") + "/"):
            return os.path.expanduser(outside.rstrip("/") + inside[len(mounted.rstrip("/")) :])
    raise UsageError(f"its {flag} {value} is a path in a container, and no volume of it holds that.")


def _take_marked(settings: dict[str, Any], comments: str, left_out: list[LeftOut]) -> None:
    """Put the settings that are marked in comments in place of what the flags said."""
    import tomli

    for comment in MARK.finditer(comments):
        try:
            table = tomli.loads(comment[1])
        except (tomli.TOMLDecodeError, ValueError, RecursionError):
            left_out.append(LeftOut("", f"The comment {comment[0].strip()!r} is left out: it is not a line of TOML."))
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
    if config.SETTINGS[key].spec.adds and settings.get(key):
        converted = f"{settings[key]},{converted}"
    if isinstance(converted, tuple):  # each time that its flag is given adds some
        converted = (*settings.get(key, ()), *converted)
    settings[key] = config.rooted(config.SETTINGS[key].spec, converted, Path.cwd())


def _shown(flag: str, values: Sequence[str]) -> str:
    return shown(" ".join((flag, *("…" if _SECRET.search(flag) else value for value in values))))
