"""llama-server's command line: found among the words of a command, also in a container, and written from a profile."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui.errors import UsageError
from spectui.profiles.exported import Exported
from spectui.profiles.imported import EDGE, Started, joined

_PROGRAM = re.compile(
    r"(?:ik[-_])?llama(?:[-_](?:cpp[-_])?(?:server|cli|run|speculative|completion)[\w.-]*)?|server|main", re.IGNORECASE
)
_OTHER_FILE = re.compile(r"\.(?!exe$)[a-z_]+\d?$", re.IGNORECASE)
_SUBCOMMANDS = ("serve", "server", "cli", "chat", "run", "completion")
_PRINTS = {"--version", "--help", "-h", "--usage", "--license", "--list-devices", "--cache-list", "-cl"}
"""Flags with which a program of llama.cpp prints something and ends."""

_PLAIN_STARTERS = ("env", "nohup", "exec", "call", "start")
_STARTERS = (*_PLAIN_STARTERS, "sudo", "doas", "nice", "time", "timeout", "setsid", "ionice", "stdbuf", "taskset", "numactl")
"""Programs that start the one that is named after their own flags; the plain ones change nothing that a person has to know."""

_STARTERS_OWN = re.compile(r"-.*|[\dx,.-]+[smhd]?|/\w+")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SWITCHES = re.compile("-[ditP]+|--(?:rm|detach|init|interactive|tty|privileged|publish-all|read-only|replace)")
"""Flags of `docker run` and `podman run` without a value; others are followed by one."""

_LLAMA_IMAGE = re.compile(r"(?<!o)llama(?!-?(swap|index|factory|stack))", re.IGNORECASE)


def base_name(word: str) -> str:
    """The last part of a path with slashes or backslashes, without .exe."""
    return re.sub(r"(?i)\.exe$", "", re.split(r"[/\\]", word)[-1])


def arguments_of(words: Sequence[str]) -> list[str] | None:
    """The arguments of one of llama.cpp's programs; None if the first word is no such program, or it only prints."""
    program, *arguments = words
    name = base_name(program)
    is_function = name in ("main", "server") and not arguments  # of a script
    if not _PROGRAM.fullmatch(name) or is_function or _OTHER_FILE.search(name) or not _PRINTS.isdisjoint(arguments):
        return None
    if name == "llama":
        return arguments[1:] if arguments and arguments[0] in _SUBCOMMANDS else None
    return arguments


def command(words: Sequence[str], variables: Mapping[str, str] | None = None, directory: str = "") -> Started | None:
    """The command of llama.cpp that some words start; None if they start something else."""
    environment, starters, rest = dict(variables or {}), list[str](), list(words)
    while rest:
        name = base_name(rest[0]).lower()
        if assignment := _ASSIGNMENT.fullmatch(rest[0]):
            environment[assignment[1]] = assignment[2]
            rest.pop(0)
        elif name in ("docker", "podman"):
            return _in_container(name, rest[1:], directory)
        elif name in _STARTERS:
            starters += [name] if name not in _PLAIN_STARTERS else []
            rest.pop(0)
            while rest and _STARTERS_OWN.fullmatch(rest[0]):
                rest.pop(0)
        else:
            arguments = arguments_of(rest)
            return None if arguments is None else Started(arguments, starters, environment, directory)
    return None


def _in_container(program: str, words: Sequence[str], directory: str) -> Started | None:
    """What `docker run` starts."""
    rest = list(words[1:] if words[:1] == ["container"] else words)
    if rest[:1] != ["run"]:
        return None
    given: dict[str, list[str]] = {}
    rest.pop(0)
    while rest and rest[0].startswith("-"):
        flag, equals, value = rest.pop(0).partition("=")
        if re.match("-[evpw].", flag):  # -p8080:8080
            flag, value, equals = flag[:2], flag[2:] + equals + value, "="
        if not equals and not _SWITCHES.fullmatch(flag):
            value = rest.pop(0) if rest else ""
        given.setdefault(flag, []).append(value)
    volumes = [text for flag in ("-v", "--volume", "--mount") for text in given.get(flag, [])]
    variables = [text for flag in ("-e", "--env") for text in given.get(flag, [])]
    inside = [text for flag in ("-w", "--workdir") for text in given.get(flag, [])]
    run = run_by(rest[0], given.get("--entrypoint", []), rest[1:]) if rest else []
    started = command(run, dict(text.split("=", 1) for text in variables if "=" in text), (inside or ["/"])[-1])
    return started and replace(started, starters=[program], volumes=volumes_of(volumes, directory or str(Path.cwd())))


def run_by(image: str, entrypoint: Sequence[str], words: Sequence[str]) -> list[str]:
    """The command that an image runs: llama-server for flags alone, if it is an image of llama.cpp."""
    if entrypoint or not _LLAMA_IMAGE.search(image):
        return [*entrypoint, *words]
    own = re.search(r":full\b", image) and words  # its own first word chooses the program
    flags = words[1:] if own else words
    return ["llama-server", *flags] if not words or words[0].startswith(("-", EDGE)) else list(words)


def volumes_of(written: Iterable[Any], directory: str) -> list[tuple[str, str]]:
    """(path outside, path inside) of volumes as docker and compose have them. One with a name has no path outside."""
    volumes = []
    for text in written:
        keys = text if isinstance(text, dict) else dict(part.partition("=")[::2] for part in str(text).split(","))
        outside = str(keys.get("source") or keys.get("src") or "")
        inside = str(keys.get("target") or keys.get("destination") or keys.get("dst") or "")
        if paths := re.fullmatch(r"((?:[A-Za-z]:)?[^:]+):([^:]+)(?::[\w,]+)?", str(text)) if not inside else None:
            outside, inside = paths[1], paths[2]
        if re.match(rf"[./~\\{EDGE}]|[A-Za-z]:", outside) and inside:
            relative = not re.match(r"[/~\\]|[A-Za-z]:", outside)
            volumes.append((joined(directory, outside) if relative else outside, inside))
    return volumes


def has_windows_paths(text: str) -> bool:
    """Does it have paths of Windows outside of quotes, where another system would take the backslashes away?"""
    bare = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", '""', text)
    return bool(re.search(r"(?:^|[\s=])(?:[A-Za-z]:|\.{1,2}|\w[\w.-]*|\\\\\w+)\\\w", bare))


def words_of(text: str) -> list[str]:
    """The words of a command that no shell reads, with quotes. Raises UsageError if they are not closed."""
    if has_windows_paths(text):
        return windows_words(text)
    try:
        return shlex.split(text)
    except ValueError:
        raise UsageError("quotes are not closed in its command.") from None


_WINDOWS_WORD = re.compile(rf'(?:{EDGE}[^{EDGE}]*{EDGE}[^{EDGE}]*{EDGE}|"(?:\\"|""|[^"])*"|[^\s"])+')


def windows_words(text: str) -> list[str]:
    """The words of a command line of Windows: a backslash is one, except before a quote. Raises UsageError if a quote is not
    closed."""
    if _WINDOWS_WORD.sub("", text).strip():
        raise UsageError("quotes are not closed in its command.")
    words = _WINDOWS_WORD.findall(text)
    return [
        "" if word == '""' else re.sub(r'\\"|""|"', lambda quote: '"' if len(quote[0]) == 2 else "", word) for word in words
    ]


def write(profiles: Sequence[tuple[str, Exported]]) -> str:
    """A command line for each profile, over several lines, with comments."""
    blocks = []
    for name, exported in profiles:
        # An alias with a comma would be two.
        alias = [] if "," in name else [("--alias", name)]
        flags = [" ".join(map(shlex.quote, words)) for words in (*alias, *exported.arguments)]
        blocks.append("".join(f"# {line}\n" for line in exported.comments()) + " \\\n  ".join(["llama-server", *flags]) + "\n")
    return "\n".join(blocks)
