"""A script that starts llama-server, in its plain case: `NAME=value` and its use, an array that is added to, then the command.

Nothing is run. What only a run can tell (`$(nproc)`, `$1`, what a branch sets otherwise) is marked as unknown. `Shell` reads
scripts of sh and bash; `windows` has batch files and PowerShell.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from spectui.errors import UsageError
from spectui.profiles.commands.containers import CONTAINERS, container
from spectui.profiles.commands.started import (
    ASSIGNMENT,
    EDGE,
    RUN_IT,
    ScriptError,
    Started,
    arguments_of,
    base_name,
    cut_off,
    joined,
    shown,
    split,
    unknown,
)
from spectui.profiles.imported import ImportedFile, imported

_STARTERS = {
    "sudo", "doas", "env", "nice", "nohup", "time", "timeout", "exec", "setsid", "ionice", "stdbuf", "taskset", "chrt",
    "numactl", "run0", "systemd-run", "call", "start",
}  # fmt: skip
"""Programs that start the one that is named after their own flags."""

_PLAIN_STARTERS = ("env", "nohup", "exec", "call", "start")
"""Those that change nothing which a profile would have to tell."""

LONGEST = 100_000
"""Characters or words of a variable. Variables of variables could grow without end."""

_SHELLS = ("sh", "bash", "zsh", "dash")
_NUMBER = re.compile(r"[\dx,.-]+[smhd]?|/\w+")


def command(
    words: Sequence[str], variables: Mapping[str, str] | None = None, directory: str | None = ""
) -> Started | None:
    """The command of llama.cpp that some words start; None if they start something else.

    Raises UsageError for a container whose paths are unknown.
    """
    environment, starters, rest = dict(variables or {}), list[str](), list(words)
    while rest:
        name = base_name(shown(rest[0])).lower()
        if assignment := ASSIGNMENT.fullmatch(rest[0]):
            environment[assignment[1]] = assignment[2]
            rest.pop(0)
        elif name in CONTAINERS:
            return _in_container(name, rest[1:], directory)
        elif name in _SHELLS and len(rest) > 2 and re.fullmatch(r"-\w*c", rest[1]):
            shell = Shell(None, directory, environment)
            shell.follow(rest[2])
            return shell.started[-1][1] if shell.started else None
        elif (arguments := arguments_of(rest)) is not None:
            return Started(arguments, starters, environment, directory) if arguments or not starters else None
        elif name in _STARTERS:
            starters += [name] if name not in _PLAIN_STARTERS else []
            rest.pop(0)
            after_flag = False
            while rest and not _begins(rest) and (after_flag or rest[0].startswith("-") or _NUMBER.fullmatch(rest[0])):
                after_flag = re.match("-[^=]*$", rest.pop(0)) is not None
        else:
            return None
    return None


def _begins(words: Sequence[str]) -> bool:
    """Do the words begin with a program of llama.cpp, or with what may start one?"""
    return base_name(words[0]) in (*CONTAINERS, *_STARTERS) or arguments_of(words) is not None


def _in_container(program: str, words: Sequence[str], directory: str | None) -> Started | None:
    run = container(program, words)
    if run is None:
        return None
    inner = command(run.command, run.variables, run.directory)
    return inner and replace(inner, starters=[program], volumes=volumes_from(directory, run.volumes))


def volumes_from(directory: str | None, volumes: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Volumes whose relative paths outside start at a directory, which is None if only a run can tell it."""

    def absolute(path: str) -> str:
        if re.match(rf"[/~\\{EDGE}]|[A-Za-z]:", path):
            return path
        return unknown(path) if directory is None else joined(directory or ".", path)

    return [(absolute(path), inside) for path, inside in volumes]


class Script:
    """A script that is followed, line by line. The subclasses know a language's signs.

    `values` and `lists`: its variables; `maybe` has those that a branch may have set. `exported`: those that the programs get.
    `directory`: where the next command starts; None if only a run can tell. `started`: (line, command) of each
    program of llama.cpp.
    """

    TOKEN: ClassVar[re.Pattern[str]]
    """Matches at each place what is `skipped`, a `word` with its quotes, a `redirect` or an `operator`."""

    OPENS: ClassVar[tuple[str, ...]] = ()
    CLOSES: ClassVar[tuple[str, ...]] = ()
    """Operators around a block that may not be run."""

    WINDOWS = True

    def __init__(
        self, file: Path | None, directory: str | None = "", variables: Mapping[str, str] | None = None
    ) -> None:
        self.here = str(file.parent) if file is not None else str(Path.cwd())
        self.file = str(file) if file is not None else unknown("$0")
        self.values = dict(variables or {})
        self.exported = dict(variables or {})
        self.lists: dict[str, list[str]] = {}
        self.maybe: set[str] = set()
        self.directory = directory
        self.started: list[tuple[int, Started]] = []
        self.depth = 0
        self._refused: UsageError | None = None

    def profile(self, text: str) -> ImportedFile:
        """The profile of the one command of llama.cpp in a text. Raises UsageError if there is none, or more than one."""
        self.follow(f"llama-server {' '.join(text.split(chr(10)))}" if re.match(r"\s*-", text) else text)
        if not self.started and self._refused is not None:
            raise self._refused
        given = [(line, started) for line, started in self.started if started.arguments] or self.started
        if len({tuple(started.arguments) for _, started in given}) > 1:
            lines = ", ".join(str(line) for line, _ in given)
            raise UsageError(f"There are {len(given)} commands of llama.cpp (lines {lines}): leave one in the file.")
        if not given:
            settings = {name: value for name, value in self.values.items() if name.startswith("LLAMA_ARG_")}
            if not settings:
                named = re.search(r"llama-server\S* +-", text)
                where = f", and line {text.count(chr(10), 0, named.start()) + 1} only names it" if named else ""
                raise UsageError(f"There is no llama-server command in it{where}: {RUN_IT}.")
            return ImportedFile((imported(Started([], variables=settings), comments=text),))
        return ImportedFile((imported(given[0][1], comments=text),))

    def follow(self, text: str) -> None:
        """Follow the statements of a text. Raises ScriptError if a quote or a bracket is not closed."""
        text += "\n\n"
        at, line = 0, 1
        words: list[tuple[int, str]] = []
        before = redirect = end = ""
        while at < len(text):
            token = self.TOKEN.match(text, at)
            if token is None:
                raise cut_off(line)
            if token.lastgroup == "word" and redirect:
                end = token[0].strip("'\"\\") if redirect in ("<<", "<<-") else end
                redirect = ""
            elif token.lastgroup == "word":
                words.append((line, token[0]))
            elif token.lastgroup == "redirect":
                redirect = token[0]
            elif token.lastgroup == "operator":
                if words:
                    self._try(words[0][0], before, [word for _, word in words])
                words, before = [], token[0]
                self.depth += (token[0] in self.OPENS) - (token[0] in self.CLOSES)
            at = token.end()
            if end and token[0] == "\n":  # what a here-document holds is no command
                closing = re.compile(rf"^\t*{re.escape(end)}[ \t]*$", re.MULTILINE).search(text, at)
                at, end = closing.end() if closing else len(text), ""
            line += text.count("\n", token.start(), at)
        if self.depth > 0:
            raise cut_off(line - 2)

    def _try(self, line: int, before: str, words: list[str]) -> None:
        try:
            self.statement(line, before, words)
        except UsageError as error:
            if isinstance(error, ScriptError):
                raise
            self._refused = error  # a program in a container that another line may start in a way that can be read

    def statement(self, line: int, before: str, raw: list[str]) -> None:
        """Follow a statement of a `line`: its words as they are written, and the operator `before` it."""
        raise NotImplementedError

    def run(self, line: int, words: list[str]) -> None:
        """Keep a command if it starts a program of llama.cpp."""
        if words and (started := command(words, self.exported, self.directory)):
            self.started.append((line, replace(started, windows=self.WINDOWS)))

    def set(self, name: str, value: str | list[str], line: int, sure: bool = True, adds: bool = False) -> None:
        """Set a variable. What is not `sure` to be run and changes a known value makes it, or what it adds, unknown."""
        unsure = unknown(f"{name} (line {line})")
        before = self.values.get(name)
        self.maybe |= set() if sure else {name}
        if isinstance(value, list):
            old = self.lists.get(name)
            added = value if sure or old is None else [unknown(" ".join(value)) if adds else unsure]
            self.lists[name] = [*(old or []), *added] if adds else added
        elif sure or before is None:
            self.values[name] = (before or "") + value if adds else value
        elif adds or value != before:
            self.values[name] = f"{before} {unsure}" if adds or value.startswith(f"{before} ") else unsure
        if len(self.values.get(name, "")) + len(self.lists.get(name, "")) > LONGEST:
            raise ScriptError("Its variables grow without end.")

    def doubt(self, words: Iterable[str], line: int) -> None:
        """Make the variables unknown that some words name: a line may have set them in a way that is not read."""
        for name in re.findall(r"\w+", " ".join(words)):
            if name in self.values or name in self.lists:
                self.lists.pop(name, None)
                self.values[name] = unknown(f"{name} (line {line})")

    def enter(self, directory: str, sure: bool) -> None:
        """Go to a directory, as seen from the present one."""
        known = self.directory is not None and EDGE not in directory
        there = joined(self.directory or "", os.path.expanduser(directory)) if known else None
        self.directory = there if sure or there == self.directory else None


_BRACES = r"\$\{(?:[^{}]|\{[^{}]*\})*+\}"
_SUBSTITUTION = r"\$\((?:[^()]|\((?:[^()]|\([^()]*\))*+\))*+\)|`[^`]*`"
_SINGLE = r"'[^']*'"
_DOUBLE = rf'"(?:\\.|{_SUBSTITUTION}|{_BRACES}|[^"\\])*+"'
_VALUE = rf"{_SUBSTITUTION}|{_BRACES}|\$\w+|\$[@*#?!$-]|\$'(?:\\.|[^'\\])*+'"
_TEXT = r"[^\s'\"\\`$;&|()<>]|\$(?![({'])"
_LIST = rf"(?<==)\((?:{_SINGLE}|{_DOUBLE}|(?<=\s)#[^\n]*|{_SUBSTITUTION}|[^()'\"])*+\)"
_SET = re.compile(rf"([A-Za-z_]\w*)(\+?)=(?:({_LIST})|(.*))", re.DOTALL)
_PARAMETER = re.compile(r"(\w+)(?:\[(?:0|([@*]))\])?(?:(:?[-=?+])(.*))?|([@*])", re.DOTALL)
"""What stands behind $, or between ${ and }: a name with what to use instead, or a whole list."""

_CHANGING = ("let", "unset", "printf", "mapfile", "readarray", "getopts", "read")
_OPENING = ("if", "case", "for", "while", "until", "select", "{")
_CLOSING = ("fi", "esac", "done", "}")


class Shell(Script):
    """A script of sh or bash, or a command line as one types it there."""

    TOKEN = re.compile(
        r"(?P<skipped>[ \t\r]+|\\\n|\#[^\n]*|\d?[<>]&[\d-])|(?P<redirect>&>>?|\d?(?:<<<|<<-?|>>|>\||[<>]))"
        rf"|(?P<operator>\n|&&|\|\||;;&?|;&|[;&|()])|(?P<word>(?:{_LIST}|{_SINGLE}|{_DOUBLE}|\\.|{_VALUE}|{_TEXT})+)",
        re.DOTALL,
    )
    WINDOWS = False
    _pieces: ClassVar[re.Pattern[str]] = re.compile(
        rf"(?P<single>{_SINGLE})|(?P<double>{_DOUBLE})|(?P<escape>\\.)|(?P<value>{_VALUE})|(?P<text>{_TEXT})", re.DOTALL
    )

    def statement(self, line: int, before: str, raw: list[str]) -> None:
        """Follow a statement. What a branch, a loop or another command's success decides is not sure to be run."""
        sure = self.depth == 0 and before not in ("&&", "||", "|", "(")
        while raw and raw[0] in (*_OPENING, *_CLOSING, "then", "do", "else", "elif", "!", "function"):
            word = raw.pop(0)
            self.depth += (word in _OPENING) - (word in _CLOSING)
            if word in ("for", "select") and raw:
                self.values[raw[0]] = unknown(f"${raw[0]}")
            if word in ("for", "select", "case"):
                return
        if raw[1:] and raw[-1] == "{":
            self.depth += 1
            return
        declares = raw[:1] and raw[0] in ("export", "local", "readonly", "declare", "typeset")
        if raw and (declares or all(_SET.fullmatch(word) for word in raw)):
            for word in raw[1:] if declares else raw:
                self._assign(word, line, sure)
                name = re.split(r"\+?=", word)[0]
                if raw[0] == "export" and name in self.values:
                    self.exported[name] = self.values[name]
            if declares and re.match("-[a-z]*[inA]", " ".join(raw[1:])):
                self.doubt(raw, line)
            return
        first = re.match(r"[-+]*(\w+)", raw[0]) if raw else None
        if first and (first[1] in _CHANGING or first[1] in self.values or first[1] in self.lists):
            self.doubt(raw, line)
            return
        words = [value for word in raw for value in self.words(word)]
        match words:
            case ["cd" | "pushd", *_, place] if place != "-":
                self.enter(place, sure)
            case ["set", "--", *arguments]:
                self.lists["@"] = arguments
            case ["source" | "." | "eval", file, *_] if words[0] == "eval" or EDGE in file or os.path.exists(file):
                self.doubt([*self.values, *self.lists], line)
            case _:
                self.run(line, words)

    def _assign(self, word: str, line: int, sure: bool) -> None:
        if parts := _SET.fullmatch(word):
            name, adds, items, value = parts.groups()
            tokens = self.TOKEN.finditer(items[1:-1]) if items else ()
            listed = [word for token in tokens if token.lastgroup == "word" for word in self.words(token[0])]
            self.set(name, listed if items else "".join(self.words(value, False)), line, sure, bool(adds))

    def words(self, raw: str, splits: bool = True) -> list[str]:
        """What a word becomes: none, or several, where it has variables outside of quotes."""
        words, current = list[str](), None
        for piece in self._pieces.finditer(raw):
            text, kind = piece[0], piece.lastgroup
            inner = text[1:-1] if kind == "double" else text
            parameter = _parameter(inner) if kind in ("double", "value") else None
            values = self.lists.get((parameter[5] or (parameter[2] and parameter[1])) if parameter else "")
            if values is None and kind == "value":
                values = split(self.value(text)) if splits else [self.value(text)]
            elif values is None:
                values = [self._plain(kind or "", inner)]
            if values:
                words += [(current or "") + values[0], *values[1:-1]] if values[1:] else []
                current = values[-1] if values[1:] else (current or "") + values[0]
        words += [] if current is None else [current]
        is_pattern = raw.endswith(".gguf") and re.search(r"[*?]|(?<!\$)\{[^{}]*,", raw)
        return [unknown(word) for word in words] if is_pattern else words

    def _plain(self, kind: str, text: str) -> str:
        """A part of a word without its quotes and backslashes, with the variables in double quotes replaced."""
        if kind == "double":
            return re.sub(rf"\\\n|\\([\\\"$`])|{_VALUE}", self._inner, text)
        return text[1:-1] if kind == "single" else text[1:].strip("\n") if kind == "escape" else text

    def _inner(self, part: re.Match[str]) -> str:
        return part[1] or ("" if part[0] == "\\\n" else self.value(part[0]))

    def value(self, written: str) -> str:
        """The value of `$NAME`, `${NAME:-other}` or `$(command)`; unknown if only a run can tell it."""
        if written.startswith(("$(", "`")):
            return self._output(written[2:-1] if written[0] == "$" else written[1:-1]) or unknown(written)
        parameter = _parameter(written)
        name = parameter[1] if parameter else None
        if parameter is None or name is None or parameter[2]:
            return unknown(written)
        if name in ("0", "BASH_SOURCE"):
            return self.file
        known = self.values.get(name, os.environ.get(name))
        sign, other = parameter[3] or "", parameter[4] or ""
        if sign.endswith("+") or (sign and name in self.maybe) or (known is None and not sign.endswith(("-", "="))):
            return unknown(written)
        if not known and (known is None or sign.startswith(":")):
            known = "".join(self.words(other, False))
        if sign.endswith("="):
            self.values[name] = known or ""
        return known or ""

    def _output(self, written: str) -> str | None:
        """What the usual ways to the script's own directory print."""
        tokens = [token for token in self.TOKEN.finditer(written) if token.lastgroup in ("word", "operator")]
        words = [word for token in tokens for word in ([token[0]] if token[0] == "&&" else self.words(token[0]))]
        match words if EDGE not in "".join(words) else []:
            case ["dirname", *_, path]:
                return posixpath.dirname(path)
            case ["realpath" | "readlink", *_, path]:
                return path
            case ["cd", *_, path, "&&", "pwd"] | ["cd", *_, path, "&&", "pwd", "-P"]:
                return joined(self.here, path)
        return None


def _parameter(written: str) -> re.Match[str] | None:
    braces = written.startswith("${") and written.endswith("}")
    return _PARAMETER.fullmatch(written[2:-1] if braces else written[1:]) if written.startswith("$") else None
