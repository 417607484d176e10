"""docker compose's file: the services that start a program of llama.cpp, with their volumes and variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectui.errors import SpectuiError, UsageError
from spectui.profiles.imported import ImportedFile, ImportedProfile, LeftOut, imported
from spectui.profiles.llama_swap import parsed
from spectui.profiles.scripts.containers import run_by, volume
from spectui.profiles.scripts.shell import in_image
from spectui.profiles.scripts.started import Started, volumes_from, words_of
from spectui.profiles.scripts.variables import expanded, in_file

OF_COMPOSE = "These keys of the service are for docker's own use"
_READ = ("extends", "image", "command", "entrypoint", "environment", "volumes", "working_dir", "build", "env_file")


def read(text: str, file: Path | None = None) -> ImportedFile:
    """A profile for each service that starts a program of llama.cpp; the others are listed with the reason.

    Raises UsageError if the text is no YAML, has no services, or none of llama.cpp.
    """
    table = parsed(text)
    services = table.get("services") if isinstance(table, dict) else None
    if not isinstance(services, dict) or not services:
        raise UsageError("There are no services in it: docker compose has them under services:.")
    directory = file.parent if file is not None else Path.cwd()
    variables = {**in_file(directory / ".env", os.environ), **os.environ}
    found: dict[str, Started] = {}
    refused: dict[str, str] = {}
    for name, service in services.items():
        try:
            service = _expanded(_extended(service, services), variables)
            found[str(name)] = _started(str(name), service, directory, variables)
        except UsageError as error:
            refused[str(name)] = str(error)
    profiles: list[ImportedProfile] = []
    for name, started in found.items():
        try:
            profile = imported(started, name=name if len(found) > 1 else "", comments=text)
        except SpectuiError as error:
            refused[name] = str(error)
            continue
        own = [str(key) for key in services[name] if key not in _READ]
        profiles.append(profile._replace(left_out=(*profile.left_out, *(LeftOut(OF_COMPOSE, key) for key in own))))
    if not profiles:
        name, reason = next((each for each in refused.items() if each[0] in found), next(iter(refused.items())))
        raise UsageError(f"No service in it can be imported; of {name}: {reason}")
    return ImportedFile(tuple(profiles), refused=refused)


def _extended(service: Any, services: Mapping[str, Any]) -> Any:
    """A service with what it takes from another one of the file (`extends`)."""
    base = service.get("extends") if isinstance(service, dict) else None
    base = base.get("service") if isinstance(base, dict) and "file" not in base else base
    base = services.get(base) if isinstance(base, str) else None
    if not isinstance(base, dict):
        return service
    both = {key: [*base[key], *service[key]] for key in ("volumes", "environment")
            if isinstance(base.get(key), list) and isinstance(service.get(key), list)}  # fmt: skip
    return {**base, **service, **both}


def _started(name: str, service: Any, directory: Path, variables: Mapping[str, str]) -> Started:
    if not isinstance(service, dict):
        raise UsageError("it has neither an image nor a command.")
    image = str(service.get("image") or f"{name} (built here)")
    environment: dict[str, str] = {}
    for each in _texts(service.get("env_file")):
        environment |= in_file(directory / each, variables)
    environment |= _environment(service.get("environment"))
    words = run_by(image, _words(service.get("entrypoint")), _words(service.get("command")))
    volumes = volumes_from(str(directory), _volumes(service.get("volumes")))
    return in_image(image, words, environment, volumes, str(service.get("working_dir") or "/"))


def _words(value: Any) -> list[str]:
    return (
        [str(each) for each in value] if isinstance(value, list) else words_of(value) if isinstance(value, str) else []
    )


def _texts(value: Any) -> list[str]:
    every = value if isinstance(value, list) else [value]
    return [
        str(each.get("path", "")) if isinstance(each, dict) else each for each in every if isinstance(each, str | dict)
    ]


def _environment(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(key): str(each) for key, each in value.items() if isinstance(each, str)}
    lines = [str(each) for each in value] if isinstance(value, list) else []
    return {key: each for key, equals, each in (line.partition("=") for line in lines) if equals}


def _volumes(value: Any) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for each in value if isinstance(value, list) else []:
        if isinstance(each, str):
            found += volume(each)
        elif (
            isinstance(each, dict) and each.get("type", "bind") == "bind" and each.get("source") and each.get("target")
        ):
            found.append((str(each["source"]), str(each["target"])))
    return found


def _expanded(value: Any, variables: Mapping[str, str]) -> Any:
    """A value of the file with its variables replaced, all through."""
    if isinstance(value, dict):
        return {key: _expanded(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [_expanded(each, variables) for each in value]
    return expanded(value, variables) if isinstance(value, str) else value
