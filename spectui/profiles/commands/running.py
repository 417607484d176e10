"""Profiles of the llama-servers that run on this machine: of their arguments, environment and directory."""

from __future__ import annotations

import os
import re
from pathlib import Path

import psutil

from spectui.errors import SpectuiError
from spectui.profiles.commands.llama_server import arguments_of, base_name
from spectui.profiles.imported import ImportedFile, ImportedProfile, Started, imported

_CONTAINER = re.compile(r"(docker|containerd|libpod|kubepods|lxc|crio)\b")
_INTERPRETER = re.compile(r"(python|perl|ruby|sh|bash|dash|zsh)[\d.]*")


def read() -> ImportedFile:
    """A profile for each llama-server that runs; those that cannot be read are listed with the reason.

    A name is the model's; where several have it, that of the process follows it. Raises SpectuiError if none runs, or none can
    be read.
    """
    profiles: dict[str, ImportedProfile] = {}
    refused: dict[str, str] = {}
    for process in psutil.process_iter():
        try:
            arguments = _arguments(process)
        except psutil.Error:  # it ended, or nobody but its owner sees its arguments
            continue
        if arguments is None:
            continue
        try:
            profile = imported(_started(process, arguments))
        except psutil.AccessDenied:
            owner = process.username()
            refused[f"process {process.pid}"] = f"it is {owner}'s, who alone may read its environment: import it as {owner}."
            continue
        except psutil.Error:
            continue
        except SpectuiError as error:
            refused[f"process {process.pid}"] = str(error)
            continue
        name = profile.name or "llama-server"
        if name in profiles:
            name = f"{name}-{process.pid}"
        profiles[name] = profile._replace(name=name)
    if not profiles and refused:
        name, reason = next(iter(refused.items()))
        raise SpectuiError(f"No running llama-server can be imported; of {name}: {reason}")
    if not profiles:
        raise SpectuiError("No llama-server runs on this machine: start it, or give the command that starts it.")
    return ImportedFile(tuple(profiles.values()), refused=refused)


def container_of(control_groups: str) -> str:
    """What runs a process in a container, by the text of its /proc/PID/cgroup; "" if nothing does."""
    program = _CONTAINER.search(control_groups)
    return program[1] if program else ""


def _control_groups(process: str) -> str:
    """The text of a process's /proc/PID/cgroup; "" where there is none."""
    try:
        return Path(f"/proc/{process}/cgroup").read_text()
    except OSError:
        return ""


def _arguments(process: psutil.Process) -> list[str] | None:
    """A process's arguments if it is a llama-server, started itself or as an interpreter's script."""
    words = process.cmdline()
    if len(words) > 1 and _INTERPRETER.fullmatch(base_name(words[0])):
        words.pop(0)
    return arguments_of(words) if words and "llama" in words[0] else None


def _started(process: psutil.Process, arguments: list[str]) -> Started:
    """Raises psutil.AccessDenied for another user's process, SpectuiError for one in a container that is not ours."""
    groups, own = _control_groups(str(process.pid)), _control_groups("self")
    if groups != own and (program := container_of(groups)):
        raise SpectuiError(
            f"it runs in a container of {program}, whose paths are not this machine's: import its compose file, or the line "
            "that runs it."
        )
    variables = {
        name: value
        for name, value in process.environ().items()
        if name.startswith("LLAMA_ARG_") or os.environ.get(name) != value
    }
    return Started(arguments, [], variables, process.cwd())
