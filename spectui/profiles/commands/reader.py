"""A script around llama-server in its plain case: `NAME=value` and its use, a list that is added to, then the one command.

Nothing is run and nothing is guessed. A variable is known while each statement that names it assigns it, outside of blocks.
From any other on it is unknown, and a command that needs it is refused by a sentence with the line's number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from spectui.errors import UsageError
from spectui.profiles.commands.llama_server import command, windows_words
from spectui.profiles.imported import EDGE, RUN_IT, ImportedFile, ScriptError, Started, imported, joined, shown, split, unknown

LONGEST = 100_000
"""Characters or words of a variable. Variables of variables could grow without end."""

_MOVES = {"cd", "chdir", "pushd", "popd", "set-location", "push-location", "pop-location"}
"""Commands that change the directory."""

_PRINTS = {"echo", "write-host", "write-output"}
"""Commands that change nothing."""

_CHANGES = {
    "eval", "source", ".", "let", "trap", "shopt", "call", "endlocal", "set-variable", "sv", "new-variable", "nv",
    "invoke-expression", "iex",
}  # fmt: skip
"""Commands that may change any variable."""

_NAMES = re.compile(r"(?:(?<!\S)-[a-z])?((?:env:)?[a-z_]\w*)", re.IGNORECASE)
"""Matches words that may be variables, also behind a flag (`printf -vNAME`)."""

_SETS = re.compile(r"\$\(\(.*?\)\)|\$\{\w+:?=")
"""Matches what may set a variable within any word."""

_OPTIONS = re.compile(r"[-+][a-z]+|[a-z]+")
"""Matches words of a shell's `set` that change no arguments."""

_HERE = re.compile(
    r"\$\(dirname (?:-- )?\"?\$(?:0|BASH_SOURCE|\{0\}|\{BASH_SOURCE(?:\[0\])?\})\"?\)|%~dp0\\?|\$(?i:PSScriptRoot)"
)
_PLACE = re.compile(r"\$\(cd (?:-- )?(\S.*?) ?(?:> ?/dev/null )?(?:2>&1 )?&& pwd(?: -P)?\)")
"""The usual ways to the script's own directory."""

_VARIABLE = re.compile(r"((?:\w+:)?\w+)(?:(:?[-?])(.*))?", re.DOTALL)
"""Matches the name of a variable, and what a shell takes if it has none."""


class Signs(NamedTuple):
    """A language's signs.

    `piece` matches at each place what is `skipped`, an `operator`, or a piece of a word: a `list`, a text in `single` or
    `double` quotes, a `value`, an `escape`, a `pattern` of files, or plain text; `inner`, in quotes, a value or a sign that is
    escaped, as its group; `listed` a piece that stands for a list; `reads` what names a variable and leaves it as it is; `item`
    a word that is a value. After the operators `aside` a statement has changed nothing.
    """

    piece: re.Pattern[str]
    inner: re.Pattern[str]
    listed: re.Pattern[str]
    reads: re.Pattern[str]
    assignment: re.Pattern[str]
    item: re.Pattern[str] = re.compile(".*", re.DOTALL)
    brackets: tuple[str, str] = ("(", ")")
    aside: tuple[str, ...] = ("|",)
    keywords: Mapping[str, int] = {}
    """Words before a command, and how many blocks they open."""


_SINGLE = r"'[^']*'"
_SUBSTITUTION = r"\$\((?:[^()]|\((?:[^()]|\([^()]*\))*+\))*+\)|`[^`]*`"
_BRACES = r"\$\{(?:[^{}]|\{[^{}]*\})*+\}"
_DOUBLE = rf'"(?:\\.|{_SUBSTITUTION}|{_BRACES}|[^"\\])*+"'
_VALUE = rf"{_SUBSTITUTION}|{_BRACES}|\$\w+|\$[@*#?!$-]|\$'(?:\\.|[^'\\])*+'"
_LIST = rf"\((?:{_SINGLE}|{_DOUBLE}|(?<=\s)#[^\n]*|{_SUBSTITUTION}|[^()'\"])*+\)"
_HERE_DOCUMENT = r"<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[^\n;&|]*\n(?:[^\n]*\n)*?\t*(?P=end)(?=\n)"
_REDIRECT = rf"(?:&>>?|\d?(?:<<<|>>|>\||[<>]))\s*(?:{_SINGLE}|{_DOUBLE}|{_VALUE}|[^\s'\"`$;&|()<>])+|\d?[<>]&[\d-]"
SHELL = Signs(
    piece=re.compile(
        rf"(?P<skipped>[ \t\r]+|\\\n|(?<![^\s;&|()])\#[^\n]*|{_HERE_DOCUMENT}|{_REDIRECT})"
        rf"|(?P<list>(?<==){_LIST})|(?P<operator>\n|&&|\|\||;;&?|;&|[;&|()])|(?P<single>{_SINGLE})|(?P<double>{_DOUBLE})"
        rf"|(?P<escape>\\.)|(?P<value>{_VALUE})|(?P<pattern>[*?\[]|\{{[^{{}}\s]*[,.][^{{}}\s]*\}})"
        r"|(?P<text>[^\s'\"\\`$;&|()<>*?\[{#]+|\{|\#|\$(?![({']))",
        re.DOTALL,
    ),
    inner=re.compile(rf"\\(?P<sign>[\\\"$`])|\\\n|{_VALUE}", re.DOTALL),
    listed=re.compile(r"\"\$(?:\{(\w+)\[@\]\}|@)\""),
    reads=re.compile(r"\$\{?[#!]?\w+(?!\w|:?=)|(?<=\s)\"[^\"=]*\s[^\"=]*\"|(?<=\s)'[^'=]*\s[^'=]*'"),
    assignment=re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<adds>\+?)=(?:\((?P<items>(?<=\().*)\)|(?P<value>(?!\().*))", re.DOTALL),
    aside=("|", "&"),
    keywords={
        **dict.fromkeys(("if", "case", "for", "while", "until", "select", "{"), 1),
        **dict.fromkeys(("fi", "esac", "done", "}"), -1),
        **dict.fromkeys(("then", "do", "else", "elif", "!", "function", "time"), 0),
    },
)
"""sh and bash, and a command line as one types it there."""

_QUOTED = r'"(?:\\"|[^"\n])*+"'
BATCH = Signs(
    piece=re.compile(
        r"(?P<skipped>[ \t\r]+|\^\n|\d?>&\d|(?:(?<=\n)|\A)[ \t]*@?(?i:rem\b|::)[^\n]*|\d?(?:>>?|<)[ \t]*"
        rf"(?:{_QUOTED}|[^\s&|<>()])+)|(?P<operator>\n|&&|\|\||[&|()])|(?P<double>{_QUOTED})|(?P<escape>\^.)"
        r"|(?P<text>[^\s\"&|<>()^]+)"
    ),
    inner=re.compile(r"%~dp0\\?|%(\w+)%|!(\w+)!|%[^%\s]+:[^%\n]*%|%%~?\w|%(?:~\w*)?[*\d]"),
    listed=re.compile("(?!)"),
    reads=re.compile(r"%\w+%|!\w+!"),
    assignment=re.compile(r"(?i:set) (?P<quote>\"?)(?P<name>\w+)=(?P<value>.*)(?P=quote)"),
)
"""Batch files, and a command line as one types it at the prompt of Windows."""

_PS_SINGLE = r"'(?:''|[^'])*+'"
_PS_DOUBLE = r'"(?:`.|""|\$\((?:[^()]|\([^()]*\))*+\)|[^"`])*+"'
_PS_VALUE = r"\$?\((?:[^()]|\((?:[^()]|\([^()]*\))*+\))*+\)|\$\{\w+\}|[$@](?:\w+:)?\w+(?:\.\w+|\[[^\]]*\])*"
_PS_LIST = rf"@\((?:{_PS_SINGLE}|{_PS_DOUBLE}|(?<=\s)#[^\n]*|[^()'\"])*+\)"
POWERSHELL = Signs(
    piece=re.compile(
        r"(?P<skipped>[ \t\r]+|`[ \t]*\n|<\#.*?\#>|(?<!\S)\#[^\n]*|\d?>&\d"
        rf"|[\d*]?(?:>>?|<)\s*(?:{_PS_SINGLE}|{_PS_DOUBLE}|[^\s'\";|(){{}}<>])+)|(?P<operator>\n|&&|\|\||[;|{{}}])"
        rf"|(?P<list>{_PS_LIST})|(?P<single>{_PS_SINGLE})|(?P<double>{_PS_DOUBLE})|(?P<value>{_PS_VALUE})|(?P<escape>`.)"
        r"|(?P<pattern>,)|(?P<text>[^\s'\"`;|(){}<>])",
        re.DOTALL,
    ),
    inner=re.compile(r'`(?P<sign>["`$])|`.|""|\$(?:\((?:[^()]|\([^()]*\))*\)|\{\w+\}|(?:\w+:)?\w+)', re.DOTALL),
    listed=re.compile(r"[@$](\w+)"),
    reads=re.compile(r"(?<=[\s(,!])[$@]\{?(?:\w+:)?\w+\}?(?![\w:.\[]|\s+in\b|\s?[-+*/]?=|\+\+|--)"),
    assignment=re.compile(
        r"(?:\[[\w.\[\]]+\] ?)*\$(?P<name>(?:\w+:)?\w+) ?(?P<adds>\+?)= ?(?:@\((?P<items>.*)\)|(?P<value>(?!@\().*))", re.DOTALL
    ),
    item=re.compile(rf"{_PS_SINGLE}|{_PS_DOUBLE}|-?[\d.]+|\$(?:\w+:)?\w+", re.DOTALL),
    brackets=("{", "}"),
)


class Script:
    """A script that is read statement by statement.

    `values`: texts and lists by name. `doubtful`: names of those that stay unknown. `exported`: those that programs get, by
    their name there. `directory`: where the next command starts. `started`: (line, words as they are written, is it in a block,
    command) of each program of llama.cpp.
    """

    def __init__(self, signs: Signs, file: Path | None) -> None:
        self.signs, self.windows = signs, signs is not SHELL
        self.here = str(file.absolute().parent) if file else unknown("its directory", "Pasted text has no directory")
        self.values: dict[str, str | list[str]] = {"@": []}  # it is started without arguments
        self.doubtful: set[str] = set()
        self.exported: dict[str, str] = {}
        self.directory = ""
        self.depth = self.brackets = self.line = 0
        self.after, self.is_plain, self.jumps, self.exports_all = "", True, False, False
        self.started: list[tuple[int, list[str], bool, Started]] = []

    def profile(self, text: str) -> ImportedFile:
        """The profile of the one command of llama.cpp in a text. Raises UsageError if there is none, or more than one."""
        text = text.replace(EDGE, " ")
        self.follow(f"llama-server {' '.join(text.split(chr(10)))}\n" if re.match(r"\s*-", text) else f"{text}\n")
        if not self.started:
            named = re.search(r"llama-server\S* +-", text)
            where = f", and line {text.count(chr(10), 0, named.start()) + 1} only names it" if named else ""
            raise UsageError(f"There is no llama-server command in it{where}: {RUN_IT}.")
        line, raw, in_block, started = self.started[0]
        if any(other != started for *_, other in self.started):
            lines = ", ".join(str(line) for line, *_ in self.started)
            raise UsageError(f"There are {len(self.started)} commands of llama.cpp (lines {lines}): leave one in the file.")
        self.line = line
        again = self.command(raw)
        if in_block and (again is None or (again.arguments, again.variables) != (started.arguments, started.variables)):
            raise ScriptError(f"Line {line} is in a block, and other lines change what it uses: {RUN_IT}.")
        return ImportedFile((imported(started, comments=text),))

    def follow(self, text: str) -> None:
        """Follow the statements of a text. Raises ScriptError if one is not plain, or not whole."""
        before, (opening, closing) = "", self.signs.brackets
        for self.line, raw, self.after in self.statements(text):  # noqa: B020
            joins = before in ("&&", "||", "|") or self.after in self.signs.aside
            self.is_plain = not (joins or self.depth or self.brackets)
            if raw:
                self.statement(raw)
            before = self.after
            self.brackets = max(0, self.brackets + (before == opening) - (before == closing))
        if self.depth > 0 or self.brackets:
            raise _not_plain(self.line)

    def statements(self, text: str, comma: str = "") -> Iterator[tuple[int, list[str], str]]:
        """(line, words as they are written, operator after them) of each statement. A `comma` is between words, too."""
        raw: list[str] = []
        first, line, at, in_word = 1, 1, 0, False
        while at < len(text):
            piece = self.signs.piece.match(text, at)
            if piece is None:
                raise _not_plain(line)
            kind = "skipped" if piece[0] == comma else piece.lastgroup
            if kind == "operator":
                yield first, raw, piece[0]
                raw = []
            elif kind != "skipped":
                first = first if raw else line
                raw[len(raw) - in_word :] = [raw[-1] + piece[0] if in_word else piece[0]]
            in_word = kind not in ("skipped", "operator")
            at = piece.end()
            line += piece[0].count("\n")

    def statement(self, raw: list[str]) -> None:
        """Follow a statement, as it is written: an assignment, a directory, a program. Others may set what they name."""
        while raw and raw[0] in self.signs.keywords:
            self.depth += self.signs.keywords[raw[0]]
            raw = raw[1:]
        self.depth += raw[1:] != [] and raw[-1] == "{"
        if not raw:
            return
        raw = [raw[0].lstrip("@"), *raw[1:]]  # as batch files have it
        text, first = " ".join(raw), raw[0].lower()
        # What follows a label or a goto is not sure to be run.
        self.jumps |= self.signs is BATCH and re.search(r"(?i)^:|\bgoto\b(?! :eof)", text) is not None
        self.is_plain &= not self.depth and not self.jumps
        self.doubt(name for part in _SETS.finditer(text) for name in _NAMES.findall(part[0]))
        if first in ("set", "shift") and self.signs is SHELL:
            self.exports_all |= "a" in text.partition(" ")[2]  # -a, allexport
            self.doubt("" if raw[1:] and all(map(_OPTIONS.fullmatch, raw[1:])) else "@123456789")
        elif self._assigns(raw):
            return
        elif not _MOVES.isdisjoint(map(str.lower, raw)):
            self._move(raw)
        elif started := self.command(raw):
            in_block = bool(self.depth or self.brackets)
            self.started.append((self.line, raw, in_block, replace(started, windows=self.windows)))
        elif first not in _PRINTS:
            self.doubt(list(self.values) if first in _CHANGES else _NAMES.findall(self.signs.reads.sub(" ", text)))

    def _assigns(self, raw: list[str]) -> bool:
        """Follow a statement that assigns variables and does nothing else, and say whether it does."""
        exports = raw[0] == "export"
        words = raw[raw[0] in ("export", "readonly", "declare") :]
        words = [f"{word}=${word}" if exports and word.isidentifier() else word for word in words if word != "-a"]
        texts = [" ".join(raw)] if self.windows else words
        parts = [part.groupdict() for part in map(self.signs.assignment.fullmatch, texts) if part]
        is_used_before = self.signs is BATCH and self.after in ("&", "&&")  # cmd replaces the variables of a whole line
        if len(parts) < len(texts) or is_used_before:
            return False
        for part in parts:
            name, adds = part["name"], bool(part.get("adds"))
            value = self._assigned(name, part.get("items"), part["value"])
            if value is None or (adds and self.windows and isinstance(value, str)):  # PowerShell sums numbers
                self.doubt([name])
            else:
                self.set(name, value, adds)
            if exports or self.exports_all or self.signs is BATCH or name.lower().startswith("env:"):
                self.exported[re.sub("(?i)^env:", "", name)] = self.name(name)
            self.doubt(list(self.values) if name == "IFS" else ())  # it splits values
        return True

    def _assigned(self, name: str, items: str | None, written: str) -> str | list[str] | None:
        """The text or the list of an assignment; None where that is not plain."""
        if items is None and self.signs is not POWERSHELL:
            return self.expanded(written) if self.windows else " ".join(self.words(written, False))
        comma = "," if self.windows else ""
        raw = [word for _, words, _ in self.statements(f"{items or written}\n", comma) for word in words]
        values = self.all_words(raw)
        if not all(map(self.signs.item.fullmatch, raw)) or not (raw or items is not None):
            return None
        is_list = items is not None or len(values) != 1 or isinstance(self.values.get(self.name(name)), list)
        return values if is_list else values[0]

    def command(self, raw: Sequence[str]) -> Started | None:
        """The program of llama.cpp that a statement starts."""
        values = {name: self.values.get(inside) for name, inside in self.exported.items()}
        environment = {name: value for name, value in values.items() if isinstance(value, str)}
        is_titled = self.signs is BATCH and " ".join(raw).lower().startswith('start "')
        rest = ["start", *raw[2:]] if is_titled else raw[raw[0] == "&" :]
        return command(self.all_words(rest), environment, self.directory)

    def all_words(self, raw: Sequence[str]) -> list[str]:
        """What the words of a statement become. In a batch file variables are replaced before quotes are read."""
        if self.signs is BATCH:
            text = re.sub(rf"({_QUOTED})|\^(.)", lambda sign: sign[1] or sign[2], " ".join(raw))
            return windows_words(self.expanded(text))
        return [value for word in raw for value in self.words(word)]

    def words(self, raw: str, splits: bool = True) -> list[str]:
        """What a word becomes: several, or none, where it has a list, or a variable that a shell `splits`."""
        words = list[str]()
        splits &= not self.windows
        for piece in self.signs.piece.finditer(raw):
            listed = self.signs.listed.fullmatch(piece[0])
            values = self._list(listed[1]) if listed else None
            match piece.lastgroup if values is None else "list":
                case "list":
                    pass
                case "single":
                    values = [piece[0][1:-1]]
                case "double":
                    values = [self.expanded(piece[0][1:-1])]
                case "value":
                    value = self.value(piece[0])
                    values = split(value) if splits else [value]
                    if splits and re.search(r"[*?\[]", shown(value)):
                        values = [self.untold(piece[0])]
                case "pattern":
                    values = [self.untold(piece[0])]
                case kind:
                    values = [piece[0][1:].strip("\n") if kind == "escape" else piece[0]]
            if values:
                words[-1:] = ["".join(words[-1:]) + values[0], *values[1:]]
        return words

    def _list(self, name: str | None) -> list[str] | None:
        """The list of this name, or of the script's own arguments. A function has others."""
        values = self.values.get(self.name(name or "@")) if name or not self.depth else None
        return [values] if isinstance(values, str) else values

    def expanded(self, text: str) -> str:
        """A text with its variables replaced."""
        return self.signs.inner.sub(lambda part: part.groupdict().get("sign") or self.value(part[0]), text)

    def value(self, written: str) -> str:
        """The value of `$NAME`, `${NAME:-other}`, `%NAME%` or the script's directory; unknown if only a run can tell it."""
        if written in ("\\\n", '""'):  # a line that goes on, and a quote
            return written[1:].strip("\n")
        if _HERE.fullmatch(written):
            return self.here + "/" * written.startswith("%")
        if place := _PLACE.fullmatch(written):
            there = " ".join(self.words(place[1], False))
            return os.path.normpath(there) if there.startswith("/") and EDGE not in there else self.untold(written)
        if listed := re.fullmatch(r"\$\{(\w+)\[[@*]\]\}|\$[@*]", written):
            values = self._list(listed[1])
            return self.untold(written) if values is None else " ".join(values)
        inner = written[2:-1] if written[1:2] == "{" else written.strip("$@%!")
        variable = None if written.startswith("%%") else _VARIABLE.fullmatch(inner)
        name, sign, other = variable.groups() if variable else ("", "", "")
        if name == "PWD":
            return joined(os.getcwd(), self.directory)
        outside = re.sub("(?i)^env:", "", name)
        is_outside = outside != name or self.signs is not POWERSHELL
        value = self.values.get(self.name(name), os.environ.get(outside) if is_outside else None)
        if isinstance(value, list) or (name.isdigit() and self.depth):  # a function's own argument
            return self.untold(written)
        if sign in ("-", ":-") and (value is None or (not value and sign == ":-")):
            return " ".join(self.words(other, False))
        return self.untold(written) if value is None or (not value and self.windows) else value

    def untold(self, written: str) -> str:
        """Stands for a part of the present line that only a run can tell."""
        return unknown(written, f"Line {self.line} has {' '.join(written.split())}, which only a run can tell")

    def name(self, written: str) -> str:
        """A variable's name. Those of Windows are the same in large and small letters."""
        return re.sub("^(script|global|local):", "", written.lower()) if self.windows else written

    def set(self, written: str, value: str | list[str], adds: bool = False) -> None:
        """Set a variable, or add to it."""
        name = self.name(written)
        before = self.values.get(name, value[:0])
        if not self.is_plain or name in self.doubtful or type(before) is not type(value):
            self.doubt([written])
            return
        self.values[name] = value if not adds else before + value  # type: ignore[operator]  # they are of one type
        if len(self.values[name]) > LONGEST:
            raise ScriptError("Its variables grow without end.")

    def doubt(self, names: Iterable[str]) -> None:
        """Make variables unknown that the present line may set."""
        for written in names:
            if (name := self.name(written)) not in self.doubtful:
                self.values[name] = unknown(written, f"Line {self.line} sets {written} where only a run can tell")
                self.doubtful.add(name)

    def _move(self, raw: Sequence[str]) -> None:
        """Go to a directory, as seen from the present one."""
        places = self.all_words([word for word in raw[1:] if word.lower() != "/d"])
        if raw[0].lower() in _MOVES and len(places) == 1 and places[0] != "-" and self.is_plain:
            self.directory = joined(self.directory, os.path.expanduser(places[0]))
        else:
            self.directory = unknown("cd", f"Line {self.line} changes the directory where only a run can tell")


def _not_plain(line: int) -> ScriptError:
    return ScriptError(f"Line {line} is cut off, or more than a plain script has: {RUN_IT}.")
