"""What starts llama-server as a service: a unit of systemd, or docker compose's file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui.errors import UsageError
from spectui.profiles.commands.llama_server import command, run_by, volumes_of, words_of
from spectui.profiles.imported import (
    EDGE,
    RUN_IT,
    ImportedFile,
    ImportedProfile,
    ScriptError,
    Started,
    imported,
    imported_each,
    split,
    unknown,
)
from spectui.profiles.llama_swap import parsed
from spectui.text_file import read_text

LARGEST = 100_000
"""Bytes of a file of variables."""


def read_systemd(text: str, file: Path | None = None) -> ImportedFile:
    """The profile of what a unit starts. Raises UsageError if that is no program of llama.cpp."""
    text = text.replace(EDGE, " ")
    line = text.count("\n", 0, text.find("ExecStart=")) + 1
    plain = re.sub(r"\\[ \t]*\n", " ", re.sub(r"(?m)^[ \t]*[#;].*\n?", "", text))
    section = re.search(r"(?ms)^\[Service\][ \t]*$(.*?)(?:^\[|\Z)", plain)
    keys: dict[str, list[str]] = {}
    for key, value in re.findall(r"(?m)^[ \t]*(\w+)[ \t]*=[ \t]*(.*?)[ \t]*$", section[1] if section else ""):
        keys[key] = [*keys.get(key, []), value] if value else []  # one that is set to nothing forgets those before
    if len(keys.get("ExecStart", [])) != 1:
        raise UsageError("There is no [Service] with one ExecStart= in it: give the unit that starts llama-server.")
    _, at, instance = file.stem.partition("@") if file is not None else ("", "", "")
    signs = {"%h": os.path.expanduser("~"), "%%": "%", **({"%i": instance, "%I": instance} if at and instance else {})}

    def expand(value: str) -> str:
        return re.sub(
            r"%[\w%]",
            lambda sign: signs.get(sign[0], unknown(sign[0], f"Line {line} has {sign[0]}, which only a run can tell")),
            value,
        )

    environment: dict[str, str] = {}
    for word in (word for value in keys.get("Environment", []) for word in words_of(value)):
        environment |= {word.partition("=")[0]: expand(word.partition("=")[2])}
    for value in keys.get("EnvironmentFile", []):
        environment |= _variables_of(Path(expand(value.removeprefix("-"))), value.startswith("-"))
    words: list[str] = []
    for word in words_of(keys["ExecStart"][0].lstrip("-:+!|@")):
        value = expand(_expanded(word, {"HOME": os.path.expanduser("~"), **environment}, line))
        words += split(value) if re.fullmatch(r"\$\w+", word) else [value]
    directory = expand(keys.get("WorkingDirectory", ["/"])[-1].lstrip("-"))
    started = command(words, environment, os.path.expanduser(directory))
    if started is None:
        raise UsageError(f"Line {line} starts {words[0]!r}, which is no program of llama.cpp: {RUN_IT}.")
    return ImportedFile((imported(started, comments=text),))


def read_compose(text: str, file: Path | None = None) -> ImportedFile:
    """A profile for each service that starts a program of llama.cpp; the others are listed with the reason.

    Raises UsageError if the text is no YAML, has no services, or none of llama.cpp.
    """
    table = parsed(text)
    services = table.get("services") if isinstance(table, dict) else None
    if not isinstance(services, dict) or not services:
        raise UsageError("There are no services in it: docker compose has them under services:.")
    directory = file.parent if file is not None else Path.cwd()
    variables = {**_variables_of(directory / ".env", optional=True), **os.environ}

    def profile(name: str, service: Any) -> ImportedProfile:
        return imported(_service(name, service, directory, variables, text), name=name, comments=text)

    return imported_each(services, profile, "service")


def _service(name: str, service: Any, directory: Path, variables: Mapping[str, str], text: str) -> Started:
    if not isinstance(service, dict) or "extends" in service:
        raise UsageError("it has no command of its own: give the service that has it.")

    def expand(value: Any) -> str:
        line = next((at for at, line in enumerate(text.splitlines(), 1) if str(value) in line), 1)
        return _expanded(str(value), variables, line)

    def words(key: str) -> list[str]:
        value = service.get(key) or []
        return [expand(word) for word in (value if isinstance(value, list) else words_of(str(value)))]

    environment: dict[str, str] = {}
    files = service.get("env_file")
    for path in files if isinstance(files, list) else [files] if files else []:
        environment |= _variables_of(directory / expand(path))
    given = service.get("environment") or []
    pairs = given.items() if isinstance(given, dict) else (str(line).split("=", 1) for line in given if "=" in str(line))
    environment |= {str(key): expand(value) for key, value in pairs}
    image = expand(service.get("image") or f"{name} (built here)")
    run = run_by(image, words("entrypoint"), words("command"))
    started = command(run, environment, expand(service.get("working_dir") or "/"))
    if started is None:
        raise UsageError(f"it starts {run[0] if run else image!r}, which is no program of llama.cpp.")
    mounts = service.get("volumes")
    written = [
        {key: expand(value) for key, value in mount.items()} if isinstance(mount, dict) else expand(mount)
        for mount in (mounts if isinstance(mounts, list) else [])
    ]
    return replace(started, starters=[f"the image {image}"], volumes=volumes_of(written, str(directory)))


def _expanded(text: str, known: Mapping[str, str], line: int) -> str:
    """A text of a unit or a service with its `$NAME` and `${NAME:-other}` replaced; what has no value is unknown."""

    def replaced(part: re.Match[str]) -> str:
        name = part[1] or part[4]
        if part[0] == "$$":
            return "$"
        if name is None or (name not in known and not part[2]):
            return unknown(part[0], f"Line {line} has {part[0]}, which only a run can tell")
        missing = not known.get(name) if part[2] == ":-" else name not in known
        return str(part[3]) if missing and part[2] else known[name]

    return re.sub(r"\$\$|\$\{(\w+)(?:(:?-)([^{}]*))?\}|\$(\w+)|\$\{", replaced, text)


def _variables_of(file: Path, optional: bool = False) -> dict[str, str]:
    """The variables of a file of lines NAME=value, which has to be there unless it is `optional`. Raises UsageError."""
    if not file.is_file():
        if optional:
            return {}
        raise ScriptError(f"{file}, which sets variables for it, is not on this machine: {RUN_IT}.")
    text = read_text(file, str(file), LARGEST, "no file of variables is")
    pairs = re.findall(r"(?m)^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*=[ \t]*(?:'(.*)'|\"(.*)\"|(.*?))(?:[ \t]+#.*)?[ \t]*$", text)
    return {name: single or double or bare for name, single, double, bare in pairs}
