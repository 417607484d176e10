"""A script around llama-server in its plain case: `NAME=value` and its use, a list that is added to, then the one command.

Nothing is run and nothing is guessed. A variable is known while each statement that names it assigns it, outside of
blocks. From any other on it is unknown, and a command that needs it is refused by a sentence with the line's number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from spectui.errors import UsageError
from spectui.profiles.commands.llama_server import command, windows_words
from spectui.profiles.imported import EDGE, RUN_IT, ImportedFile, ScriptError, Started, imported, joined, shown, split, unknown

LONGEST = 100_000
"""Characters or words of a variable. Variables of variables could grow without end."""

_KEYWORDS = {
    **dict.fromkeys(("if", "case", "for", "while", "until", "select", "{"), 1),
    **dict.fromkeys(("fi", "esac", "done", "}"), -1),
    **dict.fromkeys(("then", "do", "else", "elif", "!", "function", "time"), 0),
}
"""Words of a shell before a command, and how many blocks they open."""

_JUMPS = re.compile(r":\w|.*\bgoto (?!:eof)", re.IGNORECASE)
_PRINTS = re.compile(r"(?:echo|write-host|write-output)\b(?!.*(?:\(\(|\{\w+:?=))", re.IGNORECASE | re.DOTALL)
_MOVES = re.compile(r"(?:^|\s)(?:cd|chdir|(?:push|pop)d|(?:set|push|pop)-location)(?: /d)?(?: (.*)|$)", re.IGNORECASE)
_CHANGES = re.compile(
    r"(?:^|\s)(?:eval|source|call|iex|invoke-expression|shift|endlocal)(?=\s|$)|^(?:\.|let|trap|shopt|alias)\s"
    r"|^(?:function|filter|param)\b|(?:^|\s)(?:export|declare|typeset|readonly|read|set) [^=]*[$%`]"
    r"|(?:^|\s)(?:printf -v|set (?:-- |[-+]\w*a|.*allexport))|\bIFS\b|\$\(\(.*?(?:=|\+\+|--)|\$\{\w+:?=",
    re.DOTALL | re.IGNORECASE,
)
"""Match statements that jump, print, change the directory, and may set any variable or argument."""

_NAMES = re.compile(
    r"(?<![\w$%!{#])[a-z_]\w*|\$\{?((?:env:)?\w+)\}?(?=\s?(?:[-+*/]?=(?!=)|,)|\+\+|--|\.\w+\(|\[[^@*]|\s+in\b)", re.IGNORECASE
)
"""Matches names but those of variables that are only read."""

_HERE = r"\$\(dirname (?:-- )?\"?\$(?:0|BASH_SOURCE|\{0\}|\{BASH_SOURCE(?:\[0\])?\})\"?\)|%~dp0\\?|\$(?i:PSScriptRoot)"
_PLACE = r"\$\(cd (?:-- )?(\S.*?) ?(?:> ?/dev/null )?(?:2>&1 )?&& pwd(?: -P)?\)"
"""The usual ways to the script's own directory."""

_VARIABLE = r"(?si)((?:env:)?\w+)(?:\[@\])?(?::-(.*)|:\?.*)?"
"""Matches the name of a variable, and what a shell takes if it has none."""


class Signs(NamedTuple):
    """A language's signs, as regular expressions.

    `piece` matches at each place what is `skipped`, an `operator`, a piece of a word, or what is `cut` off. Such a piece is a
    `list`, its `items` elsewhere, a text in `single` or `double` quotes, a `value`, an `escape`, plain text, or what is
    `unclear` without a run. `inner` matches a value in quotes, or an escaped `sign`.
    """

    piece: str
    inner: str
    assignment: str


_SINGLE = r"'[^']*'"
_SUBSTITUTION = r"\$\((?:[^()]|\((?:[^()]|\([^()]*\))*+\))*+\)|`[^`]*`"
_BRACES = r"\$\{(?:[^{}]|\{[^{}]*\})*+\}"
_DOUBLE = rf'"(?:\\.|{_SUBSTITUTION}|{_BRACES}|[^"\\])*+"'
_VALUE = rf"{_SUBSTITUTION}|{_BRACES}|\$\w+|\$[@*#?!$-]|\$'(?:\\.|[^'\\])*+'"
_LIST = rf"\((?:{_SINGLE}|{_DOUBLE}|(?<=\s)#[^\n]*|{_SUBSTITUTION}|[^()'\"])*+\)"
_HERE_DOCUMENT = r"<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[^\n;&|]*\n(?:[^\n]*\n)*?\t*(?P=end)(?=\n)"
_REDIRECT = rf"(?:&>>?|\d?(?:<<<|>>|>\||[<>]))\s*(?:{_SINGLE}|{_DOUBLE}|{_VALUE}|[^\s'\"`$;&|()<>])+|\d?[<>]&[\d-]"
SHELL = Signs(
    piece=rf"(?s)(?P<skipped>[ \t\r]+|\\\n|(?<![^\s;&|()])\#[^\n]*|{_HERE_DOCUMENT}|{_REDIRECT})"
    rf"|(?P<list>(?<==){_LIST})|(?P<operator>\n|&&|\|\||[;&|()])"
    rf"|(?P<items>\"\$\{{\w+\[@\]\}}\"|\"\$@\"|\$@)|(?P<single>{_SINGLE})|(?P<double>{_DOUBLE})"
    rf"|(?P<escape>\\.)|(?P<value>{_VALUE})|(?P<unclear>[*?\[]|\{{[^{{}}\s]*[,.][^{{}}\s]*\}})"
    r"|(?P<text>[^\s'\"\\`$;&|()<>*?\[{#]+|[{#]|\$(?![({']))|(?P<cut>.)",
    inner=rf"(?s)(?P<sign>\\[\\\"$`\n])|{_VALUE}",
    assignment=r"(?s)(?:(?P<exports>export) |readonly )?(?P<name>[A-Za-z_]\w*)(?P<adds>\+?)="
    rf"(?P<value>{_LIST}|(?:{_SINGLE}|{_DOUBLE}|{_VALUE}|\\.|[^\s'\"`\\])*)",
)
"""sh and bash, and a command line as one types it there."""

_QUOTED = r'"(?:\\"|[^"\n])*+"'
BATCH = Signs(
    piece=r"(?P<skipped>[ \t\r]+|\^\n|\d?>&\d|(?:(?<=\n)|\A)[ \t]*@?(?i:rem\b|::)[^\n]*|\d?(?:>>?|<)[ \t]*"
    rf"(?:{_QUOTED}|[^\s&|<>()])+)|(?P<operator>\n|&&|\|\||[&|()])|(?P<double>{_QUOTED})|(?P<escape>\^.)"
    r"|(?P<text>[^\s\"&|<>()^]+)|(?P<cut>.)",
    inner=r"(?P<sign>(?!))|%~dp0\\?|%\w+%|!\w+!|%[^%\s]+:[^%\n]*%|%%~?\w|%(?:~\w*)?[*\d]",
    assignment=r"(?P<exports>(?i:set)) (?P<quote>\"?)(?P<name>\w+)(?P<adds>)=(?P<value>.+)(?P=quote)",
)
"""Batch files, and a command line as one types it at the prompt of Windows."""

_PS_DOUBLE = r'"(?:`.|\$\((?:[^()]|\([^()]*\))*+\)|[^"`])*+"'
_PS_VALUE = r"\$?\((?:[^()]|\((?:[^()]|\([^()]*\))*+\))*+\)|\$\{\w+\}|[$@](?:\w+:)?\w+(?:\.\w+|\[[^\]]*\])*"
_PS_ITEMS = rf"(?:(?:{_SINGLE}|{_PS_DOUBLE}|-?[\d.]+|\$\w+|\$env:\w+)(?:[\s,]|\#[^\n]*)*)+"
POWERSHELL = Signs(
    piece=r"(?s)(?P<skipped>[ \t\r]+|`[ \t]*\n|<\#.*?\#>|(?<!\S)\#[^\n]*|\d?>&\d"
    rf"|[\d*]?(?:>>?|<)\s*(?:{_SINGLE}|{_PS_DOUBLE}|[^\s'\";|(){{}}<>])+)|(?P<operator>\n|&&|\|\||[;&|{{}}])"
    rf"|(?P<list>@\((?:{_SINGLE}|{_PS_DOUBLE}|(?<=\s)\#[^\n]*|[^()'\"])*+\))"
    rf"|(?P<unclear>,|(?:{_SINGLE}|{_PS_DOUBLE})(?=['\"]))|(?P<single>{_SINGLE})|(?P<double>{_PS_DOUBLE})"
    rf"|(?P<items>[@$]\w+(?![\w:.\[]))|(?P<value>{_PS_VALUE})|(?P<text>[^\s'\"`;|(){{}}<>])|(?P<cut>.)",
    inner=r'(?s)(?P<sign>`["`$])|`.|\$(?:\((?:[^()]|\([^()]*\))*\)|\{\w+\}|(?:\w+:)?\w+)',
    assignment=r"(?si)\$(?P<name>(?P<exports>env:)?\w+) ?(?P<adds>\+?)= ?"
    rf"(?P<value>{_PS_ITEMS}|@\(\s*(?:{_PS_ITEMS})?\))",
)


class Script:
    """A script that is read statement by statement.

    `values`: texts and lists by name. `doubtful`: names of those that stay unknown. `changed`: others may be set elsewhere.
    `exported`: names of those that programs get. `directory`: where the next command starts. `depth`: blocks that have begun.
    `started`: (line, statement, is it in a block, command) of the program of llama.cpp.
    """

    def __init__(self, signs: Signs, file: Path | None) -> None:
        self.signs, self.windows = signs, signs is not SHELL
        self.name: Callable[[str], str] = str.upper if self.windows else str
        self.here = str(file.absolute().parent) if file else unknown("its directory", "Pasted text has no directory")
        self.values: dict[str, str | list[str]] = {"@": []}  # it is started without arguments
        self.doubtful: set[str] = set()
        self.exported: set[str] = set()
        self.directory, self.changed = "", False
        self.line = self.depth = 0
        self.started: tuple[int, str, bool, Started] | None = None

    def profile(self, text: str) -> ImportedFile:
        """The profile of the one command of llama.cpp in a text. Raises UsageError if there is none, or more than one."""
        text = text.replace(EDGE, " ")
        self.follow(f"llama-server {' '.join(text.split(chr(10)))}" if re.match(r"\s*-", text) else text)
        if self.started is None:
            raise UsageError(f"There is no llama-server command in it: {RUN_IT}.")
        self.line, statement, in_block, started = self.started
        profile = imported(started, comments=text)
        again = self.command(statement) if in_block else started
        if again is None or imported(again, comments=text) != profile:
            raise ScriptError(f"Line {self.line} is in a block, and other lines change what it uses: {RUN_IT}.")
        return ImportedFile((profile,))

    def follow(self, text: str) -> None:
        """Follow the statements of a text. Raises ScriptError if one is not whole."""
        before = "\n"
        for self.line, statement, after in self.statements(f"{text}\n"):  # noqa: B020
            words = statement.split(" ")
            while not self.windows and words and words[0] in _KEYWORDS:
                self.depth += _KEYWORDS[words.pop(0)]
            self.depth += (words[1:] != [] and words[-1] == "{") or (self.windows and _JUMPS.match(statement) is not None)
            self.statement(" ".join(words).lstrip("@"), before, after)
            # The brackets of a case's patterns are not in pairs, so a shell's close only what has one statement.
            closes = after == "}" or (after == ")" and (self.windows or before in ("(", ")")))
            self.depth = max(0, self.depth + (after in ("(", "{")) - closes)
            before = after

    def statements(self, text: str) -> Iterator[tuple[int, str, str]]:
        """(line, text without comments, operator after it) of each statement."""
        statement, first, line = "", 1, 1
        for piece in re.finditer(self.signs.piece, text):
            if piece.lastgroup == "cut":
                raise _not_plain(line)
            if piece.lastgroup == "operator":
                yield first, statement.strip(), piece[0]
                statement = ""
            else:
                first = first if statement.strip() else line
                statement += " " if piece.lastgroup == "skipped" else piece[0]
            line += piece[0].count("\n")

    def statement(self, text: str, before: str, after: str) -> None:
        """Follow a statement: an assignment, a program, a directory. Others may set what they name."""
        plain = before in ("\n", ";") and not self.depth
        started = self.command(text)
        if _PRINTS.match(text):
            return
        if not started and _CHANGES.search(text):
            self.doubt(*self.values)
            self.changed = True
        if assignment := re.fullmatch(self.signs.assignment, text):
            self.assign(assignment, plain and after in ("\n", ";"))
        elif started:
            if after in ("(", "{"):
                raise _not_plain(self.line)
            self.started = self.started or (self.line, text, self.depth > 0, started)
            if started != self.started[3]:
                raise UsageError(f"Lines {self.started[0]} and {self.line} start llama.cpp: leave one command in the file.")
        elif move := _MOVES.search(text):
            places = self.words(move[1] or "-")
            if plain and move.start() == 0 and after not in ("|", "&") and len(places) == 1 and places[0] != "-":
                self.directory = joined(self.directory, os.path.expanduser(places[0]))
            else:
                self.directory = unknown("cd", f"Line {self.line} changes the directory where only a run can tell")
        else:
            self.doubt(*(name[1] or name[0] for name in _NAMES.finditer(text)))

    def assign(self, assignment: re.Match[str], plain: bool) -> None:
        """Set a variable, or add to it."""
        name, written, adds = self.name(assignment["name"]), assignment["value"], bool(assignment["adds"])
        if self.signs is POWERSHELL:  # commas outside of quotes are between the items of a list
            written = re.sub(rf"(?s)({_SINGLE}|{_PS_DOUBLE}|#[^\n]*)|,", r"\1 ", written)
        items = re.fullmatch(r"(?s)@?\((.*)\) ?", written)
        words = [self.expanded(written)] if self.signs is BATCH else self.words(items[1] if items else written, bool(items))
        value = words if items or len(words) > 1 else "".join(words)
        before = self.values.get(name) if adds else value[:0]
        sums = adds and self.windows and not isinstance(value, list)  # PowerShell adds numbers
        if not plain or sums or name in self.doubtful or type(before) is not type(value) or len(value) > LONGEST:
            self.doubt(assignment["name"])
        else:
            self.values[name] = before + value  # type: ignore[operator]  # they are of one type
        if assignment["exports"]:
            self.exported.add(name)

    def command(self, text: str) -> Started | None:
        """The program of llama.cpp that a statement starts."""
        given = {name: str(value) for name, value in self.values.items() if name in self.exported or "LLAMA_ARG_" in name}
        environment = {name.removeprefix("ENV:"): value for name, value in given.items()}
        words = self.words(re.sub('(?i)^start "[^"]*"', "start", text) if self.signs is BATCH else text)
        started = command(words, environment, self.directory)
        return started and replace(started, windows=self.windows)

    def words(self, text: str, splits: bool = True) -> list[str]:
        """The words of a text: a list is several, and so may be a variable in a shell that `splits`."""
        if self.signs is BATCH:  # variables are replaced before quotes are read
            return windows_words(self.expanded(re.sub(rf"({_QUOTED})|\^(.)", lambda sign: sign[1] or sign[2], text)))
        words, in_word = list[str](), False
        for piece in re.finditer(self.signs.piece, text):
            kind, written = str(piece.lastgroup), piece[0]
            if kind == "skipped" or written == "\n":
                in_word = False
                continue
            name = re.search(r"\w+", written)
            values = self.values.get(self.name(name[0]) if name else "@") if kind == "items" else None
            if not isinstance(values, list) or (self.depth and not name):  # a function has other arguments
                value = self.text(kind, written)
                values = split(value) if splits and kind == "value" and not self.windows else [value]
                is_part = in_word or text[piece.end() : piece.end() + 1].strip()
                if (values != [value] and is_part) or (kind == "value" and re.search(r"[*?\[]", shown(value))):
                    values = [self.untold(written)]
            if values:
                words[len(words) - in_word :] = ["".join(words[len(words) - in_word :]) + values[0], *values[1:]]
                in_word = True
        return words

    def text(self, kind: str, written: str) -> str:
        """What a piece of a word becomes."""
        if kind in ("value", "items"):
            return self.value(written.strip('"'))
        if kind in ("single", "double"):
            return self.expanded(written[1:-1]) if kind == "double" else written[1:-1]
        return written[kind == "escape" :] if kind in ("text", "escape") else self.untold(written)

    def expanded(self, text: str) -> str:
        """A text with its variables replaced."""
        return re.sub(self.signs.inner, lambda part: part[0][1:].strip("\n") if part["sign"] else self.value(part[0]), text)

    def value(self, written: str) -> str:
        """The value of `$NAME`, `${NAME:-other}`, `%NAME%` or the script's directory; unknown if only a run can tell it."""
        if re.fullmatch(_HERE, written):
            return self.here + "/" * written.startswith("%")
        if place := re.fullmatch(_PLACE, written):
            there = "".join(self.words(place[1], splits=False))
            return os.path.normpath(there) if there.startswith("/") and EDGE not in there else self.untold(written)
        if written in ("$PWD", "${PWD}", "$(pwd)"):
            return joined(os.getcwd(), self.directory)
        variable = re.fullmatch(_VARIABLE, written[2:-1] if written[1] == "{" else written.strip("$@%"))
        name = self.name(variable[1]) if variable else ""
        value = self.values.get(name)
        if variable is None or written.startswith("%%") or (name.isdigit() and self.depth):
            return self.untold(written)
        if self.changed and value is None and name != "HOME":
            return self.untold(written)
        if value is None and (self.signs is not POWERSHELL or name.startswith("ENV:")):
            value = os.environ.get(name.removeprefix("ENV:"))
        if not value and variable[2] is not None:
            return " ".join(self.words(variable[2], splits=False))
        return value if isinstance(value, str) else self.untold(written)

    def untold(self, written: str) -> str:
        """Stands for a part of the present line that only a run can tell."""
        return unknown(written, f"Line {self.line} has {' '.join(written.split())}, which only a run can tell")

    def doubt(self, *names: str) -> None:
        """Make variables unknown that the present line may set."""
        for written in names:
            if (name := self.name(written)) not in self.doubtful:
                self.doubtful.add(name)
                self.values[name] = unknown("…", f"Line {self.line} sets {written} where only a run can tell")


def _not_plain(line: int) -> ScriptError:
    return ScriptError(f"Line {line} is cut off, or more than a plain script has: {RUN_IT}.")
