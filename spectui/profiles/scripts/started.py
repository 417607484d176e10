"""A command that starts one of llama.cpp's programs, whatever starts that: `env A=b`, `sudo`, `bash -c`, a container."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from spectui.errors import UsageError
from spectui.profiles.scripts.containers import CONTAINERS, container

LONGEST = 100_000
"""Characters of a value. Variables of variables could grow without end."""

STEPS = 20_000
"""Statements that are followed. Functions of functions could go on without end."""

EDGE = "\0"
"""Stands on both sides of what only a run can tell: no text that is read has it."""

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)

_PROGRAM = re.compile(r"(ik[-_])?llama([-_][\w.-]*)?(\.exe)?|(server|main)(\.exe)?", re.IGNORECASE)
_OTHER_PROGRAM = re.compile(
    r"llama[-_.]?(cpp[-_.])?(swap|stack|index|factory|guard|bench|batched-bench|quantize|perplexity|imatrix|gguf|embedding"
    r"|tokenize|export-lora|cvector|rpc|finetune|container)(?![a-z]).*",
    re.IGNORECASE,
)
"""Other programs with such a name, and those of llama.cpp that answer no prompt."""

_OTHER_FILE = re.compile(r"\.(?!exe$)[a-z_]+\d?$", re.IGNORECASE)
_NAME_OF_SOMETHING = re.compile(r"-[sStnugUGJ]|--(name|unit|user|group|session|title|job-name|alias|log|output)")
_WINDOWS = re.compile(r'(\\*)"|(\0[^\0]*\0|[^"\s\\\0]+|\\+|\0)|(\s+)')
_PRINTS = {
    "--version",
    "--help",
    "-h",
    "--usage",
    "--license",
    "--list-devices",
    "--cache-list",
    "-cl",
    "--completion-bash",
}
"""Flags with which a program of llama.cpp prints something and ends."""

_SUBCOMMANDS = ("serve", "server", "cli", "chat", "run", "completion")
_NOT_STARTING = {
    "alias", "apt", "awk", "brew", "cat", "chmod", "chown", "cmake", "cp", "curl", "cut", "echo", "export", "find",
    "git", "grep", "hash", "head", "install", "journalctl", "kill", "killall", "jq", "launchctl", "ln", "logger", "ls",
    "make", "mkdir", "mv", "node", "notify-send", "perl", "pgrep", "pip", "pkill", "printf", "ps", "python", "python3", "rem",
    "rg", "rm", "ruby", "sc", "sed", "systemctl", "tail",
    "taskkill", "tasklist", "tee", "title", "touch", "trap", "type", "wget", "where", "which",
}  # fmt: skip
"""Programs that may name llama-server and not start it."""

SHELLS = ("sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "ssh")

_WRAPPERS = {
    "numactl",
    "chrt",
    "xargs",
    "parallel",
    "sudo",
    "doas",
    "env",
    "nice",
    "nohup",
    "time",
    "timeout",
    "exec",
    "setsid",
    "ionice",
    "stdbuf",
    "taskset",
    "run0",
}
"""Programs that start the one that is named behind their own arguments."""

_CMDLET = re.compile(
    r"(get|stop|test|wait|remove|copy|move|new|set|out|write|select|register|unregister)-\w+$", re.IGNORECASE
)
"""Commands of PowerShell that may name llama-server and not start it."""


class ScriptError(UsageError):
    """A text that is no whole script."""

    exit_code = 1


def cut_off(line: int) -> ScriptError:
    """What is raised for a script that ends too soon; `line` is near the mistake."""
    return ScriptError(f"A line is cut off, or quotes or brackets are not closed (line {line}): give the whole script.")


@dataclass
class Started:
    """A command that starts one of llama.cpp's programs.

    `arguments`: the program's. `before`: the programs that start it, with their own arguments. `variables`: its environment.
    `directory`: where its relative paths start; None if only a run can tell, "" for where it is imported. `volumes`: in a
    container, (path outside, path inside). `tail`: what the shell does with it, as a text. `windows`: it is a command of
    Windows.
    """

    arguments: list[str]
    before: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    directory: str | None = ""
    volumes: Sequence[tuple[str, str]] | None = None
    tail: str = ""
    windows: bool = False


class Script(NamedTuple):
    """What a script starts, and its other commands."""

    started: list[Started]
    others: list[str]


def unknown(text: str) -> str:
    """Stands in a word for what only a run can tell: `text`, as it is written."""
    return EDGE + " ".join(text.replace(EDGE, "").split()) + EDGE


def shown(word: str) -> str:
    """A word as it is written."""
    return word.replace(EDGE, "")


def base_name(word: str) -> str:
    """The last part of a path with slashes or backslashes."""
    return re.split(r"[/\\]", word)[-1]


def is_program(word: str) -> bool:
    """Is it the name, or the path, of one of llama.cpp's programs?"""
    if _is_unknown(word) and re.search(r"llama[-_](cpp[-_])?(server|cli)", word, re.IGNORECASE):
        return True  # such as $LLAMA_SERVER and $(which llama-server)
    name = base_name(shown(word))
    return bool(_PROGRAM.fullmatch(name)) and not _OTHER_FILE.search(name) and not _OTHER_PROGRAM.fullmatch(name)


def starts(
    words: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    directory: str | None = "",
    nested: Callable[[str], list[Started]] | None = None,
) -> list[Started]:
    """The commands of llama.cpp that a command starts; none if it starts something else.

    `nested` reads a text that a program of `words` takes as a script (`bash -c TEXT`). Raises UsageError for a container whose
    paths are unknown.
    """
    environment = dict(variables or {})
    rest = list(words)
    while rest and (found := ASSIGNMENT.fullmatch(rest[0])):
        environment[found[1]] = found[2]
        rest.pop(0)
    while rest[:1] == ["command"]:
        if re.match("-[vV]", (*rest, "-v")[1]):
            return []  # it looks for the program
        del rest[: 2 if rest[1] in ("-p", "--") else 1]
    if not rest or _stem(rest[0]) in _NOT_STARTING or _CMDLET.match(rest[0]):
        return []
    if rest[0].startswith("-"):
        return [Started(rest, [], environment, directory)]
    before: list[str] = []
    for index, word in enumerate(rest):
        behind = rest[index + 1 :]
        if (
            index
            and _stem(rest[0]) in _WRAPPERS
            and base_name(word) in _NOT_STARTING
            and "/" not in shown(rest[index - 1])
        ):
            return []
        if base_name(word) in CONTAINERS and (index == 0 or behind[:1] in (["run"], ["container"], ["create"])):
            return _in_container(base_name(word), behind, before, directory, nested)
        is_path = index == 0 or (behind[:1] and behind[0].startswith("-"))
        if any(sign.isspace() for sign in shown(word)) and not (is_path and is_program(word)):
            if index and nested is not None and re.search("llama|server|main", word):
                of_shell = any(_stem(each) in SHELLS for each in (rest[0], *before))
                try:
                    inner = nested(word)
                except ScriptError:
                    if of_shell:
                        raise
                    continue  # a text for something else
                if not of_shell:  # a sentence that begins with the program's name starts none
                    inner = [each for each in inner if each.arguments and each.arguments[0].startswith(("-", EDGE))]
                for each in inner:
                    each.before = [" ".join(before), *each.before]
                    each.variables = {**environment, **each.variables}
                if inner:
                    return inner
        elif index and (found := ASSIGNMENT.fullmatch(word)):
            environment[found[1]] = found[2]
            continue
        elif index == 0 and _is_unknown(word) and any(each.endswith(".gguf") for each in behind):
            return [Started(behind, [word], environment, directory)]
        elif is_program(word) and (index == 0 or _is_started(rest, index)):
            if not _PRINTS.isdisjoint(behind):
                return []
            if base_name(word).lower() in ("llama", "llama.exe") and behind[:1] and behind[0] in _SUBCOMMANDS:
                behind = behind[1:]
            if before and _stem(before[0]) in ("xargs", "parallel"):
                behind = [*behind, unknown(shown(" ".join(before)))]
            return [Started(behind, [" ".join(before)] if before else [], environment, directory)]
        before.append(word)
    return []


def arguments_of(words: Sequence[str], nested: Callable[[str], list[Started]] | None = None) -> Started:
    """The one command of llama.cpp that a command without a shell starts. Raises UsageError if there is none."""
    if not words:
        raise UsageError("there is no command in it.")
    if nested is not None and any(word in ("&&", ";", "||") for word in words):  # it was written as for a shell
        found = nested(" ".join(word if word in ("&&", ";", "||") else shlex.quote(word) for word in words))
    else:
        found = starts(words, nested=nested)
    if not found:
        raise UsageError(f"it starts {shown(words[0])!r}, which is no program of llama.cpp.")
    if len(found) > 1:
        raise UsageError(f"it starts {len(found)} commands of llama.cpp: leave one.")
    return found[0]


def _is_started(words: Sequence[str], index: int) -> bool:
    """Is a program's name that is not a command's first word the program that it starts?"""
    name = base_name(words[index]).lower()
    behind = words[index + 1] if index + 1 < len(words) else ""
    if name.removesuffix(".exe") in ("server", "main") and name == words[index].lower():
        return False
    if _NAME_OF_SOMETHING.fullmatch(words[index - 1]):
        return False
    if name.removesuffix(".exe") == "llama":
        return behind in _SUBCOMMANDS
    if not behind:
        return _stem(words[0]) in _WRAPPERS
    return behind.startswith(("-", EDGE)) and behind != "--"


def _in_container(
    program: str,
    words: list[str],
    before: list[str],
    directory: str | None,
    nested: Callable[[str], list[Started]] | None,
) -> list[Started]:
    found = container(program, words)
    if found is None:
        return []
    command = found.command
    inner = (
        [Started(list(command))]
        if not command or command[0].startswith(("-", EDGE))
        else starts(command, nested=nested and (lambda text: nested(f"cd {shlex.quote(found.directory)}\n{text}")))
    )
    starter = " ".join([*before, found.shown])
    volumes = volumes_from(directory, found.volumes)
    return [contained(each, starter, found.variables, volumes, found.directory) for each in inner]


def contained(
    inner: Started,
    starter: str,
    variables: Mapping[str, str],
    volumes: Sequence[tuple[str, str]],
    directory: str,
) -> Started:
    """A command as `starter` starts it in a container, whose `directory` it begins in."""
    there = None if inner.directory is None else posixpath.join(directory, inner.directory)
    return replace(
        inner,
        before=[starter, *inner.before],
        variables={**variables, **inner.variables},
        directory=there,
        volumes=volumes,
    )


def volumes_from(directory: str | None, volumes: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Volumes whose relative paths outside start at a directory; None if only a run can tell which."""
    found: list[tuple[str, str]] = []
    for path, inside in volumes:
        if not re.match(rf"[/~\\{EDGE}]|[A-Za-z]:", path):
            relative = str(PurePosixPath(path.replace("\\", "/")))
            path = unknown(path) if directory is None else joined(directory, relative)
        found.append((path, inside))
    return found


def joined(directory: str, path: str) -> str:
    """A path that starts at a directory, which may be one of Windows."""
    if PureWindowsPath(directory).is_absolute():
        return str(PureWindowsPath(directory, path))
    return os.path.join(directory.replace("\\", "/"), path)


def _is_unknown(word: str) -> bool:
    return bool(re.fullmatch(f"{EDGE}[^{EDGE}]*{EDGE}", word))


def _stem(word: str) -> str:
    return PurePath(base_name(word)).stem.lower()


def words_of(text: str) -> list[str]:
    """The words of a command that no shell reads, with quotes. Raises UsageError if they are not closed."""
    marks = re.findall(f"{EDGE}[^{EDGE}]*{EDGE}", text)
    if marks:  # what is unknown is a part of one word, whatever is in it
        whole = iter(marks)
        words = words_of(re.sub(f"{EDGE}[^{EDGE}]*{EDGE}", EDGE, text))
        return [re.sub(EDGE, lambda _: next(whole), word) for word in words]
    try:
        if has_windows_paths(text):
            return split_windows(text)
        return shlex.split(text)
    except ValueError:
        raise UsageError("quotes are not closed in its cmd.") from None


def has_windows_paths(text: str) -> bool:
    """Does it have paths of Windows outside of quotes, where another system would take the backslashes away?"""
    bare = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", '""', text)
    return bool(re.search(r"(?:^|[\s=])(?:[A-Za-z]:|\.{1,2}|\w[\w.-]*|\\\\\w+)\\\w", bare))


def split_windows(text: str) -> list[str]:
    """The words of a command line as programs of Windows take them apart: a backslash is one, except before a quote.

    By the rules of CommandLineToArgvW. Raises ValueError if quotes are not closed.
    """
    words: list[str] = []
    current: str | None = None
    quoted, position = False, 0
    while found := _WINDOWS.match(text, position):
        position = found.end()
        if found[3] is not None and not quoted:
            words += [current] if current is not None else []
            current = None
            continue
        if found[1] is None:
            current = (current or "") + found[0]
            continue
        current = (current or "") + "\\" * (len(found[1]) // 2)
        if len(found[1]) % 2:
            current += '"'
        elif quoted and text.startswith('"', position):
            current += '"'
            position += 1
        else:
            quoted = not quoted
    if quoted:
        raise ValueError("quotes are not closed")
    return words if current is None else [*words, current]


def windows_environment() -> Mapping[str, str]:
    """The variables where it is imported, by their names in capitals: Windows does not tell them apart."""
    return {name.upper(): value for name, value in os.environ.items()} if os.name == "nt" else {}
