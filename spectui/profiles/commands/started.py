"""A command that starts one of llama.cpp's programs, and the mark for what only a run can tell."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PureWindowsPath

from spectui.errors import UsageError

EDGE = "\0"
"""Stands on both sides of what only a run can tell: no text that is read has it."""

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
RUN_IT = "start it and use --running, or paste the command"
"""What to do where a text does not tell what a run would."""

_PROGRAM = re.compile(
    r"(?:ik[-_])?llama(?:[-_](?:cpp[-_])?(?:server|cli|run|speculative|completion)[\w.-]*)?|server|main", re.IGNORECASE
)
_OTHER_FILE = re.compile(r"\.(?!exe$)[a-z_]+\d?$", re.IGNORECASE)
_SUBCOMMANDS = ("serve", "server", "cli", "chat", "run", "completion")
_PRINTS = {"--version", "--help", "-h", "--usage", "--license", "--list-devices", "--cache-list", "-cl"}
"""Flags with which a program of llama.cpp prints something and ends."""

_MARKED = re.compile(f"{EDGE}[^{EDGE}]*{EDGE}")
_WINDOWS_WORD = re.compile(rf'(?:{EDGE}[^{EDGE}]*{EDGE}|"(?:\\"|""|[^"])*"|[^\s"])+')


class ScriptError(UsageError):
    """A text that is no whole script, or that only a run could tell."""

    exit_code = 1


def cut_off(line: int) -> ScriptError:
    """What is raised for a script that ends too soon; `line` is near the mistake."""
    return ScriptError(f"A line is cut off, or quotes or brackets are not closed (line {line}): give the whole script.")


@dataclass
class Started:
    """A command that starts one of llama.cpp's programs.

    `arguments`: the program's. `starters`: names of the programs that start it. `variables`: its environment. `directory`:
    where its relative paths start; None if only a run can tell, "" for where it is imported. `volumes`: in a container,
    (path outside, path inside). `windows`: it is a command of Windows.
    """

    arguments: list[str]
    starters: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    directory: str | None = ""
    volumes: Sequence[tuple[str, str]] | None = None
    windows: bool = False


def unknown(text: str) -> str:
    """Stands in a word for what only a run can tell: `text`, as it is written."""
    return EDGE + " ".join(text.replace(EDGE, "").split()) + EDGE


def shown(word: str) -> str:
    """A word as it is written."""
    return word.replace(EDGE, "")


def base_name(word: str) -> str:
    """The last part of a path with slashes or backslashes, without .exe."""
    return re.sub(r"(?i)\.exe$", "", re.split(r"[/\\]", word)[-1])


def arguments_of(words: Sequence[str]) -> list[str] | None:
    """The arguments of one of llama.cpp's programs; None if the first word is no such program, or it only prints."""
    program, *arguments = words
    name = base_name(shown(program))
    if _MARKED.fullmatch(program):
        is_program = bool(re.search(r"llama[-_](cpp[-_])?(server|cli)", program, re.IGNORECASE)) or any(
            word.endswith(".gguf") for word in arguments
        )
    else:
        is_program = bool(_PROGRAM.fullmatch(name)) and not _OTHER_FILE.search(name)
    if not is_program or not _PRINTS.isdisjoint(arguments):
        return None
    if name == "llama":
        return arguments[1:] if arguments and arguments[0] in _SUBCOMMANDS else None
    return arguments


def joined(directory: str, path: str) -> str:
    """A path that starts at a directory, which may be one of Windows."""
    if PureWindowsPath(directory).is_absolute():
        return str(PureWindowsPath(directory, path))
    return os.path.normpath(os.path.join(directory.replace("\\", "/"), path)) if directory else path


def split(value: str) -> list[str]:
    """The words of a value without quotes. What is unknown is a part of one word, whatever is in it."""
    return re.findall(f"(?:{_MARKED.pattern}|[^\\s{EDGE}])+", value)


def words_of(text: str) -> list[str]:
    """The words of a command that no shell reads, with quotes. Raises UsageError if they are not closed."""
    if has_windows_paths(text):
        return windows_words(text)
    marks = iter(_MARKED.findall(text))
    try:
        return [re.sub(EDGE, lambda _: next(marks), word) for word in shlex.split(_MARKED.sub(EDGE, text))]
    except ValueError:
        raise UsageError("quotes are not closed in its command.") from None


def has_windows_paths(text: str) -> bool:
    """Does it have paths of Windows outside of quotes, where another system would take the backslashes away?"""
    bare = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", '""', text)
    return bool(re.search(r"(?:^|[\s=])(?:[A-Za-z]:|\.{1,2}|\w[\w.-]*|\\\\\w+)\\\w", bare))


def windows_words(text: str) -> list[str]:
    """The words of a command line of Windows: a backslash is one, except before a quote. Raises UsageError if a quote is not
    closed."""
    if _WINDOWS_WORD.sub("", text).strip():
        raise UsageError("quotes are not closed in its command.")
    return ["" if word == '""' else re.sub(r'\\"|""|"', _unquoted, word) for word in _WINDOWS_WORD.findall(text)]


def _unquoted(quote: re.Match[str]) -> str:
    return '"' if len(quote[0]) == 2 else ""
