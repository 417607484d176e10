"""What runs in a container: the words behind `docker run`, and a container's paths as the machine has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from spectui.errors import UsageError

CONTAINERS = ("docker", "podman", "nerdctl")

_SWITCHES = {
    "detach", "disable-content-trust", "init", "interactive", "no-healthcheck", "no-hosts", "oom-kill-disable", "privileged",
    "publish-all", "quiet", "read-only", "replace", "rm", "rmi", "rootfs", "sig-proxy", "tls-verify", "tty",
}  # fmt: skip
"""Flags of `docker run` and `podman run` without a value; every other one has one."""

_SHORT_SWITCHES = "ditPq"
_LLAMA = re.compile(r"(?<!o)llama(?!-?(swap|index|factory|stack))", re.IGNORECASE)
_MODEL = re.compile(r"\.gguf$|^(-ngl|--n-gpu-layers|--ctx-size|--model-draft|-md)$")


class Container(NamedTuple):
    """`command`: what runs in it. `volumes`: (path outside, path inside)."""

    command: list[str]
    variables: dict[str, str]
    volumes: list[tuple[str, str]]
    directory: str


def container(program: str, words: Sequence[str]) -> Container | None:
    """What `docker WORDS` runs; None if it starts no container. Raises UsageError if it is no program of llama.cpp."""
    rest = list(words)
    if rest[:1] == ["container"]:
        rest.pop(0)
    if rest[:1] in (["exec"], ["compose"], ["start"]):
        if any(_LLAMA.search(word) for word in rest) and any(_MODEL.search(word) for word in rest):
            raise UsageError(f"it is started by {program} {rest[0]}, whose paths are those of a container.")
        return None
    if rest[:1] not in (["run"], ["create"]):
        return None
    rest.pop(0)
    variables, volumes = {}, []
    directory = entrypoint = ""
    while rest and rest[0].startswith("-"):
        written = rest.pop(0)
        flag, equals, value = written.partition("=")
        if not flag.startswith("--") and len(flag) > 2 and flag[1] not in _SHORT_SWITCHES:
            flag, value, equals = flag[:2], written[2:], "="  # -p8080:8080
        switch = flag[2:] in _SWITCHES if flag.startswith("--") else all(sign in _SHORT_SWITCHES for sign in flag[1:])
        if not equals and not switch:
            value = rest.pop(0) if rest else ""
        if flag in ("-e", "--env"):
            name, equals, text = value.partition("=")
            if equals:
                variables[name] = text
        elif flag in ("-v", "--volume", "--mount"):
            volumes += volume(value)
        elif flag == "--entrypoint":
            entrypoint = value
        elif flag in ("-w", "--workdir"):
            directory = value
    if not rest:
        return None
    image, *command = rest
    return Container(run_by(image, entrypoint.split(), command), variables, volumes, directory or "/")


def run_by(image: str, entrypoint: Sequence[str], command: Sequence[str]) -> list[str]:
    """The command that an image runs: llama-server for flags alone. Raises UsageError if it is no image of llama.cpp."""
    if not entrypoint and (not command or command[0].startswith(("-", "\0"))):
        if not _LLAMA.search(image) and not any(_MODEL.search(word) for word in command):
            raise UsageError(f"it starts the image {image!r}, which is not llama.cpp's.")
        own = re.search(r":full\b", image) and command  # its own first word chooses the program
        return ["llama-server", *(command[1:] if own else command)]
    return [*entrypoint, *command]


def volume(text: str) -> list[tuple[str, str]]:
    """(path outside, path inside) of a volume as `-v` or `--mount` have it. A volume with a name has no path outside."""
    if "=" in text and "," in text:
        keys = dict(part.partition("=")[::2] for part in text.split(","))
        outside = keys.get("source") or keys.get("src") or ""
        inside = keys.get("target") or keys.get("destination") or keys.get("dst") or ""
    else:
        paths = re.fullmatch(r"((?:[A-Za-z]:)?[^:]+):([^:]+)(?::[\w,]+)?", text)
        outside, inside = (paths[1], paths[2]) if paths else ("", "")
    return [(outside, inside)] if re.match(r"[./~\\]|[A-Za-z]:|\0", outside) and inside else []


def outside(path: str, volumes: Sequence[tuple[str, str]]) -> str | None:
    """The machine's own path of a container's; None if no volume has it."""
    for there, inside in sorted(volumes, key=lambda volume: -len(volume[1])):
        if path == inside or path.startswith(inside.rstrip("/") + "/"):
            return there.rstrip("/") + path[len(inside.rstrip("/")) :]
    return None
