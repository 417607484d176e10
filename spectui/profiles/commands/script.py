"""A script around llama-server in its plain case: `NAME=value` and its use, a list that is added to, then the one command.

Nothing is run and nothing is guessed. A variable that a branch, a loop, a function or another program may change is unknown; a
command that needs it is refused by a sentence with the line's number. `Shell` reads sh and bash, `windows` the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from spectui.errors import UsageError
from spectui.profiles.commands.llama_server import command
from spectui.profiles.imported import (
    EDGE,
    RUN_IT,
    ImportedFile,
    ScriptError,
    Started,
    imported,
    joined,
    shown,
    split,
    unknown,
)

LONGEST = 100_000
"""Characters or words of a variable. Variables of variables could grow without end."""


def cut_off(line: int) -> ScriptError:
    """What is raised for a script that ends too soon; `line` is near the mistake."""
    return ScriptError(f"A line is cut off, or quotes or brackets are not closed (line {line}): give the whole script.")


class Script:
    """A script that is read statement by statement; the subclasses know a language's signs.

    `values` and `lists`: its variables. `exported`: those that programs get, by their name there. `doubtful`: those whose
    value no line tells any more. `directory`: where the next command starts. `started`: (line, words as they are written, is it
    in a block, command) of each program of llama.cpp.
    """

    TOKEN: ClassVar[re.Pattern[str]]
    """Matches at each place what is `skipped`, a `word` with its quotes, a `redirect` or an `operator`."""

    PIECE: ClassVar[re.Pattern[str]]
    """Matches a piece of a word: in `single` or `double` quotes, a `value`, an `escape`, a `pattern`, or any text."""

    INNER: ClassVar[re.Pattern[str]]
    """Matches in double quotes a sign that is escaped, as its first group, or a value."""

    LISTED: ClassVar[re.Pattern[str]]
    """Matches a piece that stands for all values of a list."""

    BRACKETS: ClassVar[str] = "()"
    ASIDE: ClassVar[tuple[str, ...]] = ("|",)
    """Operators after a statement that changes nothing for the next."""

    WINDOWS = True

    def __init__(self, file: Path | None) -> None:
        self.here = str(file.absolute().parent) if file else unknown("its directory", "Pasted text has no directory")
        self.values: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        self.exported: dict[str, str] = {}
        self.directory = ""
        self.depth = self.brackets = self.line = 0
        self.sure = True
        self.after = ""
        self.doubtful: set[str] = set()
        self.started: list[tuple[int, list[str], bool, Started]] = []

    def profile(self, text: str) -> ImportedFile:
        """The profile of the one command of llama.cpp in a text. Raises UsageError if there is none, or more than one."""
        text = text.replace(EDGE, " ")
        self.follow(f"llama-server {' '.join(text.split(chr(10)))}" if re.match(r"\s*-", text) else text)
        if not self.started:
            return self._variables_alone(text)
        self.line, raw, in_block, started = self.started[0]
        if any(other != started for *_, other in self.started):
            lines = ", ".join(str(line) for line, *_ in self.started)
            raise UsageError(
                f"There are {len(self.started)} commands of llama.cpp (lines {lines}): leave one in the file."
            )
        again = self.command(raw)
        if in_block and (again is None or (again.arguments, again.variables) != (started.arguments, started.variables)):
            raise ScriptError(f"Line {self.line} is in a block, and other lines change what it uses: {RUN_IT}.")
        return ImportedFile((imported(started, comments=text),))

    def _variables_alone(self, text: str) -> ImportedFile:
        settings = {name: value for name, value in self.values.items() if name.startswith("LLAMA_ARG_")}
        if not settings:
            named = re.search(r"llama-server\S* +-", text)
            where = f", and line {text.count(chr(10), 0, named.start()) + 1} only names it" if named else ""
            raise UsageError(f"There is no llama-server command in it{where}: {RUN_IT}.")
        return ImportedFile((imported(Started([], variables=settings), comments=text),))

    def follow(self, text: str) -> None:
        """Follow the statements of a text. Raises ScriptError if a quote or a bracket is not closed."""
        text += "\n\n"
        at, line = 0, 1
        words: list[str] = []
        before = redirect = end = ""
        while at < len(text):
            token = self.TOKEN.match(text, at)
            if token is None:
                raise cut_off(line)
            if token.lastgroup == "word" and redirect:
                end = token[0].strip("'\"\\") if redirect in ("<<", "<<-") else end
                redirect = ""
            elif token.lastgroup == "word":
                self.line = self.line if words else line
                words.append(token[0])
            elif token.lastgroup == "redirect":
                redirect = token[0]
            elif token.lastgroup == "operator":
                self.after = token[0]
                self.sure = before not in ("&&", "||", "|") and self.after not in self.ASIDE
                if words:
                    self.statement(words)
                words, before = [], token[0]
                self.brackets = max(0, self.brackets + (token[0] == self.BRACKETS[0]) - (token[0] == self.BRACKETS[1]))
            at = token.end()
            if end and token[0] == "\n":  # what a here-document holds is no command
                closing = re.compile(rf"^\t*{re.escape(end)}[ \t]*$", re.MULTILINE).search(text, at)
                at, end = closing.end() if closing else len(text), ""
            line += text.count("\n", token.start(), at)
        if self.depth > 0 or self.brackets:
            raise cut_off(line - 2)

    def statement(self, raw: list[str]) -> None:
        """Follow a statement: its words as they are written."""
        raise NotImplementedError

    def run(self, raw: list[str]) -> bool:
        """Keep a statement if it starts a program of llama.cpp, and say whether it does."""
        started = self.command(raw) if raw else None
        if started is not None:
            in_block = bool(self.depth or self.brackets)
            self.started.append((self.line, raw, in_block, replace(started, windows=self.WINDOWS)))
        return started is not None

    def command(self, raw: Sequence[str]) -> Started | None:
        """The program of llama.cpp that a statement starts."""
        environment = {name: self.values[inside] for name, inside in self.exported.items() if inside in self.values}
        return command(self.all_words(raw), environment, self.directory)

    def all_words(self, raw: Sequence[str]) -> list[str]:
        """What the words of a statement become."""
        return [value for word in raw for value in self.words(word)]

    def words(self, raw: str, splits: bool = True) -> list[str]:
        """What a word becomes: several, or none, where it has a list, or a variable that a shell `splits`."""
        words = list[str]()
        for piece in self.PIECE.finditer(raw):
            listed = self.LISTED.fullmatch(piece[0])
            name = listed[1] or ("" if self.depth else "@") if listed else ""  # a function has arguments of its own
            values = self.lists.get(self.name(name))
            if values is None:
                values = self.values_of(piece.lastgroup or "", piece[0], splits)
            if values:
                words[-1:] = ["".join(words[-1:]) + values[0], *values[1:]]
        return words

    def values_of(self, kind: str, text: str, splits: bool) -> list[str]:
        """What a piece of a word becomes."""
        match kind:
            case "single":
                return [text[1:-1]]
            case "double":
                return [self.INNER.sub(lambda part: part[1] or self.value(part[0]), text[1:-1])]
            case "value":
                value = self.value(text)
                if self.WINDOWS or not splits:
                    return [value]
                return [self.untold(text)] if re.search(r"[*?\[]", shown(value)) else split(value)
            case "pattern":
                return [self.untold(text)]
        return [text[1:].strip("\n") if kind == "escape" else text]

    def value(self, written: str) -> str:
        """The value of a variable as it is written; unknown if only a run can tell it."""
        raise NotImplementedError

    def untold(self, written: str) -> str:
        """Stands for a part of the present line that only a run can tell."""
        return unknown(written, f"Line {self.line} has {' '.join(written.split())}, which only a run can tell")

    def name(self, written: str) -> str:
        """A variable's name. Those of Windows are the same in large and small letters."""
        return written.upper() if self.WINDOWS else written

    def is_plain(self) -> bool:
        """Is the present statement run once, whatever the others do?"""
        return self.sure and not self.depth and not self.brackets

    def set(self, name: str, value: str | list[str], adds: bool = False) -> None:
        """Set a variable, or add to it. What may be set elsewhere too is unknown, unless the value is the same."""
        name = self.name(name)
        before = self.values.get(name)
        if not self.is_plain() or name in self.doubtful or (isinstance(value, str) and name in self.lists):
            if adds or before != value:
                self.doubt([name])
        elif isinstance(value, list):
            old = self.lists.get(name, [] if before is None else [before])
            self.lists[name] = [*old, *value] if adds else value
            self.values.pop(name, None)
        else:
            self.values[name] = (before or "") + value if adds else value
        if len(self.values.get(name, "")) + len(self.lists.get(name, "")) > LONGEST:
            raise ScriptError("Its variables grow without end.")

    def doubt(self, names: Iterable[str]) -> None:
        """Make variables unknown that the present line may set."""
        for name in map(self.name, names):
            self.lists.pop(name, None)
            self.values[name] = unknown(name, f"Line {self.line} sets {name} where only a run can tell")
            self.doubtful |= {name} if self.depth or self.brackets else set()

    def enter(self, places: Sequence[str]) -> None:
        """Go to a directory, as seen from the present one."""
        if len(places) == 1 and places[0] != "-" and self.is_plain():
            self.directory = joined(self.directory, os.path.expanduser(places[0]))
        else:
            self.directory = unknown("cd", f"Line {self.line} changes the directory where only a run can tell")


_SINGLE = r"'[^']*'"
_SUBSTITUTION = r"\$\((?:[^()]|\((?:[^()]|\([^()]*\))*+\))*+\)|`[^`]*`"
_BRACES = r"\$\{(?:[^{}]|\{[^{}]*\})*+\}"
_DOUBLE = rf'"(?:\\.|{_SUBSTITUTION}|{_BRACES}|[^"\\])*+"'
_VALUE = rf"{_SUBSTITUTION}|{_BRACES}|\$\w+|\$[@*#?!$-]|\$'(?:\\.|[^'\\])*+'"
_TEXT = r"[^\s'\"\\`$;&|()<>]|\$(?![({'])"
_LIST = rf"(?<==)\((?:{_SINGLE}|{_DOUBLE}|(?<=\s)#[^\n]*|{_SUBSTITUTION}|[^()'\"])*+\)"
_HERE = re.compile(r"\$\(dirname (?:-- )?\"?\$(?:0|BASH_SOURCE|\{0\}|\{BASH_SOURCE(?:\[0\])?\})\"?\)")
_PLACE = re.compile(r"\$\(cd (?:-- )?(\S.*?) ?(?:> ?/dev/null )?(?:2>&1 )?&& pwd(?: -P)?\)")
"""The usual ways to the script's own directory."""

_KEYWORDS = {
    **dict.fromkeys(("if", "case", "for", "while", "until", "select", "{"), 1),
    **dict.fromkeys(("fi", "esac", "done", "}"), -1),
    **dict.fromkeys(("then", "do", "else", "elif", "!", "function", "time"), 0),
}
"""Words before a command, and how many blocks they open."""

_CHANGING = (":", "let", "unset", "printf", "mapfile", "readarray", "getopts", "read")


class Shell(Script):
    """A script of sh or bash, or a command line as one types it there."""

    TOKEN = re.compile(
        r"(?P<skipped>[ \t\r]+|\\\n|\#[^\n]*|\d?[<>]&[\d-])|(?P<redirect>&>>?|\d?(?:<<<|<<-?|>>|>\||[<>]))"
        rf"|(?P<operator>\n|&&|\|\||;;&?|;&|[;&|()])|(?P<word>(?:{_LIST}|{_SINGLE}|{_DOUBLE}|\\.|{_VALUE}|{_TEXT})+)",
        re.DOTALL,
    )
    PIECE = re.compile(
        rf"(?P<single>{_SINGLE})|(?P<double>{_DOUBLE})|(?P<escape>\\.)|(?P<value>{_VALUE})"
        rf"|(?P<pattern>[*?\[]|\{{[^{{}}]*[,.][^{{}}]*\}})|(?P<text>{_TEXT})",
        re.DOTALL,
    )
    INNER = re.compile(rf"\\([\\\"$`])|\\\n|{_VALUE}", re.DOTALL)
    LISTED = re.compile(r"\"\$(?:\{(\w+)\[@\]\}|@)\"")
    ASIDE = ("|", "&")
    WINDOWS = False
    _assignment: ClassVar[re.Pattern[str]] = re.compile(rf"([A-Za-z_]\w*)(\+?)=(?:({_LIST})|(.*))", re.DOTALL)
    _variable: ClassVar[re.Pattern[str]] = re.compile(r"(\w+)(?:(:?[-?])(.*))?", re.DOTALL)

    def __init__(self, file: Path | None) -> None:
        super().__init__(file)
        self.lists["@"] = []  # it is started without arguments

    def statement(self, raw: list[str]) -> None:
        """Follow a statement: an assignment, a directory, a program; or the beginning or end of a block."""
        while raw and raw[0] in _KEYWORDS:
            keyword, *raw = raw
            self.depth += _KEYWORDS[keyword]
            if keyword in ("for", "select", "case"):
                self.doubt(raw[:1])
                return
        if raw[1:] and raw[-1] == "{":
            self.depth += 1
            return
        declares = raw[:1] and raw[0] in ("export", "local", "readonly", "declare", "typeset")
        rest = raw[1:] if declares else [word for word in raw if not self._assignment.fullmatch(word)]
        first = re.match(r"[-+]*(\w+|:$)", rest[0]) if rest else None
        flagged = declares and any(re.match("-(?![agr]+$)", word) for word in rest)
        arithmetic = self.brackets > 1  # such as ((C++))
        changes = first and (arithmetic or first[1] in (*_CHANGING, *self.values, *self.lists))
        if raw[:1] == ["local"] or flagged or changes:
            names = re.findall(r"[A-Za-z_]\w*", " ".join(raw))
            self.doubt(names)
            self.doubtful |= set(names) if flagged else set()  # such as sums of integers from now on
        elif declares or (raw and not rest):
            for word in rest or raw:
                self._assign(word, raw[0] == "export")
        elif rest and rest[0] in ("eval", "source", "."):
            self.doubt([*self.values, *self.lists])
        elif rest and rest[0] == "set" and "--" in rest:
            self.doubt("@123456789")
        elif rest and rest[0] in ("cd", "pushd", "popd"):
            self.enter(self.all_words(rest[1:]))
        else:
            self.run(raw)

    def _assign(self, word: str, exports: bool) -> None:
        parts = self._assignment.fullmatch(word)
        name, adds, items, value = parts.groups() if parts else (word, "", None, None)
        if items:
            tokens = [token[0] for token in self.TOKEN.finditer(items[1:-1]) if token.lastgroup == "word"]
            self.set(name, self.all_words(tokens), bool(adds))
        elif value is not None:
            self.set(name, " ".join(self.words(value, False)), bool(adds))
        if exports:
            self.exported[name] = name

    def value(self, written: str) -> str:
        """The value of `$NAME`, `${NAME:-other}` or the script's directory; unknown if only a run can tell it."""
        if written == "\\\n":
            return ""
        if _HERE.fullmatch(written):
            return self.here
        if place := _PLACE.fullmatch(written):
            there = " ".join(self.words(place[1], False))
            return os.path.normpath(there) if there.startswith("/") and EDGE not in there else self.untold(written)
        if listed := re.fullmatch(r"\$\{(\w+)\[[@*]\]\}|\$[@*]", written):
            values = None if self.depth and not listed[1] else self.lists.get(listed[1] or "@")
            return self.values.get(listed[1] or "@", self.untold(written)) if values is None else " ".join(values)
        variable = self._variable.fullmatch(written[2:-1] if written.startswith("${") else written[1:])
        name, sign, other = variable.groups() if variable else ("", "", "")
        if name == "PWD":
            return joined(os.getcwd(), self.directory)
        known = self.values.get(name, os.environ.get(name))
        if known is None and name.isdigit() and self.depth:  # a function's own argument
            return self.untold(written)
        if sign in ("-", ":-") and (known is None or (not known and sign == ":-")):
            return " ".join(self.words(other, False))
        return self.untold(written) if known is None else known
