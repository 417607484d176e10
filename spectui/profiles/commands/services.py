"""What starts llama-server as a service: a unit of systemd, or docker compose's file."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui.errors import UsageError
from spectui.profiles.commands.llama_server import command, run_by, volumes_of, words_of
from spectui.profiles.commands.reader import SHELL, Script
from spectui.profiles.imported import EDGE, RUN_IT, ImportedFile, ImportedProfile, ScriptError, imported, imported_each, split
from spectui.profiles.llama_swap import parsed


def read_systemd(text: str, file: Path | None = None) -> ImportedFile:
    """The profile of what a unit starts. Raises UsageError if that is no program of llama.cpp."""
    plain = re.sub(r"\\[ \t]*\n", " ", re.sub(r"(?m)^[ \t]*[#;].*\n?", "", text.replace(EDGE, " ")))
    section = re.search(r"(?ms)^\[Service\][ \t]*$(.*?)(?:^\[|\Z)", plain)
    keys: dict[str, list[str]] = {}
    for key, value in re.findall(r"(?m)^[ \t]*(\w+)[ \t]*=[ \t]*(.*?)[ \t]*$", section[1] if section else ""):
        keys[key] = [*keys.get(key, []), value] if value else []  # one that is set to nothing forgets those before
    if len(keys.get("ExecStart", [])) != 1:
        raise UsageError("There is no [Service] with one ExecStart= in it: give the unit that starts llama-server.")
    script = Script(SHELL, file)
    script.line = text.count("\n", 0, text.find("ExecStart=")) + 1
    script.changed = True  # this process's variables are not the unit's

    def expanded(value: str) -> str:
        return re.sub("%.", lambda sign: os.path.expanduser("~") if sign[0] == "%h" else script.untold(sign[0]), value)

    if keys.get("EnvironmentFile"):
        line = text.count("\n", 0, text.find("EnvironmentFile=")) + 1
        raise ScriptError(f"Line {line} has a file of variables, which only a run can tell: {RUN_IT}.")
    pairs = (word.partition("=") for word in words_of(" ".join(keys.get("Environment", []))))
    environment = {name: expanded(value) for name, _, value in pairs}
    script.values |= environment
    words: list[str] = []
    for word in words_of(keys["ExecStart"][0].lstrip("-:+!|@")):
        value = script.expanded(expanded(word).replace("\\", "\\\\"))
        words += split(value) if re.fullmatch(r"\$\w+", word) else [value]
    directory = os.path.expanduser(expanded(keys.get("WorkingDirectory", ["/"])[-1].lstrip("-")))
    started = command(words, environment, directory)
    if started is None:
        raise UsageError(f"Line {script.line} starts {words[0]!r}, which is no program of llama.cpp: {RUN_IT}.")
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
    script = Script(SHELL, file)
    script.changed = (directory / ".env").is_file()  # it sets variables, as docker compose config shows

    def expanded(value: Any) -> str:
        script.line = next((at for at, line in enumerate(text.splitlines(), 1) if str(value) in line), 1)
        return script.expanded(str(value).replace("\\", "\\\\"))

    def words(value: Any) -> list[str]:
        return [expanded(word) for word in (value if isinstance(value, list) else words_of(str(value or "")))]

    def profile(name: str, service: Any) -> ImportedProfile:
        if not isinstance(service, dict) or not {"extends", "env_file"}.isdisjoint(service):
            raise UsageError("it needs other files: give what docker compose config prints.")
        given, mounts = (service.get(key) or [] for key in ("environment", "volumes"))
        pairs = given.items() if isinstance(given, dict) else (str(line).split("=", 1) for line in given if "=" in str(line))
        environment = {str(key): expanded(value) for key, value in pairs}
        image = expanded(service.get("image") or f"{name} (built here)")
        run = run_by(image, words(service.get("entrypoint")), words(service.get("command")))
        started = command(run, environment, expanded(service.get("working_dir") or "/"))
        if started is None:
            raise UsageError(f"it starts {run[0] if run else image!r}, which is no program of llama.cpp.")
        paths = [mount if isinstance(mount, dict) else expanded(mount) for mount in mounts]
        started = replace(started, starters=[f"the image {image}"], volumes=volumes_of(paths, str(directory)))
        return imported(started, name=name, comments=text)

    return imported_each(services, profile, "service")
