"""Units of systemd (`.service`, and podman's `.container`) and launchd's property lists."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from spectui.errors import UsageError
from spectui.profiles.imported import ImportedFile, LeftOut, imported
from spectui.profiles.scripts import shell
from spectui.profiles.scripts.containers import run_by, volume
from spectui.profiles.scripts.shell import in_image
from spectui.profiles.scripts.started import ASSIGNMENT, Started, arguments_of, cut_off, shown, unknown, volumes_from
from spectui.profiles.scripts.variables import in_file

OF_SYSTEMD = "These keys of the unit are for systemd's own use"
OF_LAUNCHD = "These keys are for launchd's own use"
NOT_READ = "These files of variables are not read"

_VARIABLE = re.compile(r"\$\$|\$\{(\w+)\}|\$(\w+)")
_SPECIFIER = re.compile(r"%(\w|%)")

Keys = dict[str, list[str]]


def read_systemd(text: str, file: Path | None = None) -> ImportedFile:
    """The profile of what a unit starts. Raises UsageError if that is no program of llama.cpp."""
    sections = _sections(text)
    for name, reader in (("Service", _service), ("Container", _container)):
        if name in sections:
            keys = sections[name]
            words_expanded = _expander(file)
            started = reader(keys, words_expanded)
            own = [key for key in keys if key not in _READ]
            files = {each: _file(each, words_expanded) for each in keys.get("EnvironmentFile", [])}
            left_out = [LeftOut(NOT_READ, each) for each, file in files.items() if not file.is_file()]
            profile = imported(started, comments=text)
            return ImportedFile((profile,), (*left_out, *(LeftOut(OF_SYSTEMD, key) for key in own)))
    raise UsageError("There is neither [Service] nor [Container] in it: give the unit that starts llama-server.")


_READ = (
    "ExecStart", "Environment", "EnvironmentFile", "WorkingDirectory", "Image", "Exec", "Entrypoint", "Volume", "Mount",
    "WorkingDir",
)  # fmt: skip


def _sections(text: str) -> dict[str, Keys]:
    """The keys of each section with all their values. A key that is set to nothing forgets those before."""
    sections: dict[str, Keys] = {}
    keys: Keys = {}
    lines = text.split("\n")
    current = ""
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("#", ";")):  # also between two lines that are one
            continue
        current += line
        if current.rstrip().endswith("\\"):
            current = current.rstrip()[:-1] + " "
            if number == len(lines):
                raise cut_off(number)
            continue
        whole, current = current.strip(), ""
        if found := re.fullmatch(r"\[(.+)\]", whole):
            keys = sections.setdefault(found[1], {})
            continue
        key, equals, value = whole.partition("=")
        if not equals:
            continue
        values = keys.setdefault(key.strip(), [])
        if value.strip():
            values.append(value.strip())
        else:
            values.clear()
    return sections


_PART = re.compile(
    r"""(?P<space>\s+)|(?P<quote>["'])|\\(?:x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|(?P<sign>.))|(?P<text>.)""",
    re.DOTALL,
)
_SIGNS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}


def _split(line: str) -> list[str]:
    """The words of a line as systemd has them: quotes of both kinds begin a word and end it, and a backslash has C's meaning.

    Raises UsageError if quotes are not closed.
    """
    words: list[str] = []
    current: str | None = None
    quote = ""
    for found in _PART.finditer(line):
        if found["space"] and not quote:
            words += [current] if current is not None else []
            current = None
        elif (
            found["quote"]
            and found["quote"] == (quote or found["quote"])
            and (quote or current is None or current.endswith("="))
        ):
            quote = "" if quote else found["quote"]
            current = current or ""
        elif code := found["x"] or found["u"]:
            current = (current or "") + chr(int(code, 16))
        elif sign := found["sign"]:
            current = (current or "") + _SIGNS.get(sign, sign)
        else:
            current = (current or "") + found[0]
    if quote:
        raise UsageError("quotes are not closed in its command.")
    return words if current is None else [*words, current]


def _expander(file: Path | None) -> Callable[[str], str]:
    """Replaces what stands for the home directory and the unit's own names."""
    stem, at, instance = file.stem.partition("@") if file is not None else ("", "", "")
    known = {"h": os.path.expanduser("~"), "%": "%"}
    if file is not None:
        known |= {"n": file.name, "N": file.stem, "p": stem}
    if at and instance:
        known |= {"i": instance, "I": instance.replace("-", "/")}
    return lambda text: _SPECIFIER.sub(lambda found: known.get(found[1], unknown(found[0])), text)


def _environment(keys: Keys, expand: Callable[[str], str]) -> dict[str, str]:
    words = [word for line in keys.get("Environment", []) for word in _split(line)]
    environment = {found[1]: expand(found[2]) for word in words if (found := ASSIGNMENT.fullmatch(word))}
    for each in keys.get("EnvironmentFile", []):
        environment |= in_file(_file(each, expand))
    return environment


def _file(written: str, expand: Callable[[str], str]) -> Path:
    return Path(shown(expand(written.removeprefix("-"))))


def _words(line: str, environment: Mapping[str, str], expand: Callable[[str], str]) -> list[str]:
    """The words of a command: a variable that is a word by itself may become several."""
    words: list[str] = []
    known = {"HOME": os.path.expanduser("~"), **environment}
    for word in _split(line):
        found = _VARIABLE.fullmatch(word)
        if found and found[2]:
            words += known[found[2]].split() if found[2] in known else [unknown(word)]
            continue

        of_shell = any(sign.isspace() for sign in word)

        def value(part: re.Match[str], of_shell: bool = of_shell) -> str:
            name = part[1] or part[2]
            if part[2] and of_shell and name not in environment:
                return part[0]
            return "$" if name is None else known.get(name, unknown(part[0]))

        words.append(expand(_VARIABLE.sub(value, word)))
    return words


def _service(keys: Keys, expand: Callable[[str], str]) -> Started:
    environment = _environment(keys, expand)
    lines = keys.get("ExecStart", [])
    if len(lines) != 1:
        raise UsageError(f"There are {len(lines)} lines ExecStart= in the unit: leave one.")
    line = lines[0].lstrip("-:+!|@") if not lines[0].startswith("@") else re.sub(r"^@(\S+)\s+\S+", r"\1", lines[0])
    nested = partial(shell.started, variables=environment, environ={"HOME": os.path.expanduser("~")})
    started = arguments_of(_words(line, environment, expand), nested)
    started.variables = {**environment, **started.variables}
    return _in_directory(started, expand((keys.get("WorkingDirectory") or [""])[-1].lstrip("-")))


def _in_directory(started: Started, directory: str) -> Started:
    """A command that is started in a directory."""
    there = os.path.expanduser(directory)
    if started.volumes is not None:
        return replace(started, volumes=volumes_from(there, started.volumes))
    if started.directory is not None:
        return replace(started, directory=os.path.join(there, started.directory))
    return started


def _container(keys: Keys, expand: Callable[[str], str]) -> Started:
    image = (keys.get("Image") or [""])[-1]
    command = _words((keys.get("Exec") or [""])[-1], {}, expand)
    entrypoint = _words((keys.get("Entrypoint") or [""])[-1], {}, expand)
    words = run_by(image, entrypoint, command)
    environment = _environment(keys, expand)
    mounted = [*keys.get("Volume", []), *keys.get("Mount", [])]
    volumes = [each for line in mounted for each in volume(expand(line))]
    return in_image(image, words, environment, volumes, (keys.get("WorkingDir") or ["/"])[-1])


def read_launchd(text: str, file: Path | None = None) -> ImportedFile:
    """The profile of what a property list of launchd starts. Raises UsageError if that is no program of llama.cpp."""
    import plistlib
    from xml.parsers.expat import ExpatError

    text = re.sub("<!--.*?-->", "", text, flags=re.DOTALL)  # launchd takes a -- in them, as flags have
    try:
        table: Any = plistlib.loads(text.encode(errors="replace"))
    except (ExpatError, ValueError, TypeError, AttributeError, IndexError, KeyError, RecursionError):
        raise UsageError("It is not a valid property list: give the one in LaunchAgents.") from None
    given = table.get("ProgramArguments") if isinstance(table, dict) else None
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        raise UsageError("There are no ProgramArguments in it, which are what launchd starts.")
    started = arguments_of(given, shell.started)
    variables = table.get("EnvironmentVariables")
    if isinstance(variables, dict):
        started.variables = {**{str(key): str(value) for key, value in variables.items()}, **started.variables}
    directory = table.get("WorkingDirectory")
    if isinstance(directory, str):
        started = _in_directory(started, directory)
    own = [key for key in table if key not in ("ProgramArguments", "EnvironmentVariables", "WorkingDirectory")]
    return ImportedFile((imported(started, comments=text),), tuple(LeftOut(OF_LAUNCHD, str(key)) for key in own))
