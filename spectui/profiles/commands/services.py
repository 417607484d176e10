"""What starts llama-server as a service: a unit of systemd, or docker compose's file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui.errors import SpectuiError, UsageError
from spectui.profiles.commands.containers import run_by, volume
from spectui.profiles.commands.script import command, volumes_from
from spectui.profiles.commands.started import ASSIGNMENT, Started, cut_off, shown, split, unknown, words_of
from spectui.profiles.imported import ImportedFile, ImportedProfile, LeftOut, imported
from spectui.profiles.llama_swap import parsed
from spectui.text_file import read_text

OF_SYSTEMD = "These keys of the unit are for systemd's own use"
OF_COMPOSE = "These keys of the service are for docker's own use"
LARGEST = 100_000
"""Bytes of a file of variables."""

_READ_OF_UNITS = {"ExecStart", "Environment", "EnvironmentFile", "WorkingDirectory"}
_READ_OF_SERVICES = {"image", "command", "entrypoint", "environment", "volumes", "working_dir", "build", "env_file"}
_VARIABLE = re.compile(r"\$\$|\$\{(\w+)(?:(:?-)([^{}]*))?\}|\$(\w+)")


def read_systemd(text: str, file: Path | None = None) -> ImportedFile:
    """The profile of what a unit starts. Raises UsageError if that is no program of llama.cpp."""
    keys = _keys(text)
    expand = _specifiers(file)
    environment: dict[str, str] = {}
    for line in keys.get("Environment", []):
        environment |= {
            word[1]: expand(word[2]) for word in (ASSIGNMENT.fullmatch(word) for word in words_of(line)) if word
        }
    for line in keys.get("EnvironmentFile", []):
        environment |= _variables_of(Path(shown(expand(line.removeprefix("-")))))
    words = _unit_words(keys.get("ExecStart", []), environment, expand)
    started = command(
        words, environment, os.path.expanduser(expand(keys.get("WorkingDirectory", ["/"])[-1].lstrip("-")))
    )
    if started is None:
        raise UsageError(f"its ExecStart= starts {shown(words[0])!r}, which is no program of llama.cpp.")
    own = [LeftOut(OF_SYSTEMD, key) for key in keys if key not in _READ_OF_UNITS]
    return ImportedFile((imported(started, comments=text),), tuple(own))


def _keys(text: str) -> dict[str, list[str]]:
    """The keys of [Service] with all their values. A key that is set to nothing forgets those before."""
    if re.search(r"\\[ \t]*\Z", text):
        raise cut_off(text.count("\n") + 1)
    plain = re.sub(r"(?m)^[ \t]*[#;].*\n?", "", text)
    section = re.search(r"(?ms)^\[Service\][ \t]*$(.*?)(?:^\[|\Z)", re.sub(r"\\[ \t]*\n", " ", plain))
    if section is None:
        raise UsageError("There is no [Service] in it: give the unit that starts llama-server.")
    keys: dict[str, list[str]] = {}
    for key, value in re.findall(r"(?m)^[ \t]*(\w+)[ \t]*=[ \t]*(.*?)[ \t]*$", section[1]):
        if value:
            keys.setdefault(key, []).append(value)
        else:
            keys.pop(key, None)
    return keys


def _specifiers(file: Path | None) -> Callable[[str], str]:
    """Replaces what stands for the home directory and for the unit's instance."""
    _, at, instance = file.stem.partition("@") if file is not None else ("", "", "")
    known = {"h": os.path.expanduser("~"), "%": "%", **({"i": instance, "I": instance} if at and instance else {})}
    return lambda text: re.sub(r"%(\w|%)", lambda sign: known.get(sign[1], unknown(sign[0])), text)


def _unit_words(lines: list[str], environment: Mapping[str, str], expand: Callable[[str], str]) -> list[str]:
    """The words of a unit's command. A variable that is a word by itself may become several; a shell's text stays."""
    if len(lines) != 1:
        raise UsageError(f"There are {len(lines)} lines ExecStart= in the unit: leave one.")
    words: list[str] = []
    for word in words_of(lines[0].lstrip("-:+!|@")):
        if " " in word:
            words.append(expand(word.replace("$$", "$")))
        else:
            value = expand(expanded(word, {"HOME": os.path.expanduser("~"), **environment}))
            words += split(value) if re.fullmatch(r"\$\w+", word) else [value]
    return words


def read_compose(text: str, file: Path | None = None) -> ImportedFile:
    """A profile for each service that starts a program of llama.cpp; the others are listed with the reason.

    Raises UsageError if the text is no YAML, has no services, or none of llama.cpp.
    """
    table = parsed(text)
    services = table.get("services") if isinstance(table, dict) else None
    if not isinstance(services, dict) or not services:
        raise UsageError("There are no services in it: docker compose has them under services:.")
    directory = file.parent if file is not None else Path.cwd()
    variables = {**_variables_of(directory / ".env"), **os.environ}
    profiles: dict[str, ImportedProfile] = {}
    refused: dict[str, str] = {}
    for name, service in services.items():
        try:
            profile = imported(_service(str(name), service, directory, variables), name=str(name), comments=text)
            own = [LeftOut(OF_COMPOSE, str(key)) for key in service if key not in _READ_OF_SERVICES]
            profiles[str(name)] = profile._replace(left_out=(*profile.left_out, *own))
        except SpectuiError as error:
            refused[str(name)] = str(error)
    if not profiles:
        name, reason = min(refused.items(), key=lambda refusal: "it starts" in refusal[1])
        raise UsageError(f"No service in it can be imported; of {name}: {reason}")
    return ImportedFile(tuple(profiles.values()), refused=refused)


def _service(name: str, service: Any, directory: Path, variables: Mapping[str, str]) -> Started:
    if not isinstance(service, dict):
        raise UsageError("it has neither an image nor a command.")
    if "extends" in service:
        raise UsageError("it extends another service: give the one that has the command.")
    whole = {key: _replaced(service.get(key), variables) for key in _READ_OF_SERVICES}
    files = whole["env_file"] if isinstance(whole["env_file"], list) else [whole["env_file"]]
    environment: dict[str, str] = {}
    for path in files:
        environment |= _variables_of(directory / path) if isinstance(path, str) else {}
    given = whole["environment"]
    pairs = (
        given.items()
        if isinstance(given, dict)
        else (str(line).split("=", 1) for line in given or [] if "=" in str(line))
    )
    environment |= {str(key): str(value) for key, value in pairs}
    image = str(whole["image"] or f"{name} (built here)")
    words = run_by(image, _texts(whole["entrypoint"]), _texts(whole["command"]))
    started = command(words, environment, str(whole["working_dir"] or "/"))
    if started is None:
        raise UsageError(f"it starts {shown(words[0])!r}, which is no program of llama.cpp.")
    volumes: list[tuple[str, str]] = []
    for mount in whole["volumes"] if isinstance(whole["volumes"], list) else []:
        if not isinstance(mount, dict):
            volumes += volume(str(mount))
        elif mount.get("source") and mount.get("target"):
            volumes.append((str(mount["source"]), str(mount["target"])))
    return replace(started, starters=[f"the image {image}"], volumes=volumes_from(str(directory), volumes))


def _texts(value: Any) -> list[str]:
    return (
        [str(word) for word in value] if isinstance(value, list) else words_of(value) if isinstance(value, str) else []
    )


def _replaced(value: Any, variables: Mapping[str, str]) -> Any:
    """A value of the file with its variables replaced, all through."""
    if isinstance(value, dict):
        return {key: _replaced(inner, variables) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, variables) for inner in value]
    return expanded(value, variables) if isinstance(value, str) else value


def expanded(value: str, known: Mapping[str, str]) -> str:
    """A text with its `$NAME` and `${NAME:-other}` replaced; a name that is not known stays unknown."""

    def replaced(part: re.Match[str]) -> str:
        name = part[1] or part[4]
        if name is None:
            return "$"
        missing = not known.get(name) if part[2] == ":-" else name not in known
        return (part[3] if part[2] else unknown(part[0])) if missing else known[name]

    return _VARIABLE.sub(replaced, value)


def _variables_of(file: Path) -> dict[str, str]:
    """The variables of a file of lines NAME=value; none if there is no such file. Raises UsageError if it cannot be read."""
    if not file.is_file():
        return {}
    lines = read_text(file, str(file), LARGEST, "no file of variables is").splitlines()
    pairs = (
        re.fullmatch(r"\s*(?:export\s+)?(\w+)\s*=\s*(?:'(.*)'|\"(.*)\"|(.*?))(?:\s+#.*)?\s*", line) for line in lines
    )
    return {pair[1]: pair[2] or pair[3] or pair[4] or "" for pair in pairs if pair}
