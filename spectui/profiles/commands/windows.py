"""Batch files and PowerShell scripts around llama-server, in their plain case."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import ClassVar

from spectui.profiles.commands.llama_server import arguments_of, windows_words
from spectui.profiles.commands.script import Script

_QUOTED = r'"(?:\\"|[^"\n])*+"'


class Batch(Script):
    """A batch file, or a command line as one types it at the prompt of Windows."""

    TOKEN = re.compile(
        r"(?P<skipped>[ \t\r]+|\^\n|\d?>&\d|(?:(?<=\n)|\A)[ \t]*@?(?i:rem\b|::)[^\n]*)|(?P<redirect>\d?>>?|<)"
        rf"|(?P<operator>\n|&&|\|\||[&|()])|(?P<word>(?:{_QUOTED}|\^.|[^\s\"&|<>()^])+)"
    )
    _jumps = False
    _commands = ("set", "start", "call", "cd", "pushd", "popd", "chdir")
    _variable: ClassVar[re.Pattern[str]] = re.compile(
        r"%~dp0\\?|%(\w+)%|!(\w+)!|%[^%\s]+:[^%\n]*%|%%~?\w|%(?:~\w*)?[*\d]"
    )

    def statement(self, raw: list[str]) -> None:
        """Follow a statement. What follows a label or a goto is not sure to be run."""
        raw = [raw[0].lstrip("@"), *raw[1:]]
        self._jumps |= raw[0].startswith(":") or ("goto" in map(str.lower, raw) and ":eof" not in map(str.lower, raw))
        self.sure &= not self._jumps
        if raw[0].lower() in ("if", "for", "else", "do"):
            self.sure = False
            starts = [at for at, word in enumerate(raw) if word.lower() in self._commands or arguments_of([word])]
            raw = raw[starts[0] :] if starts else [""]
        first = raw[0].lower()
        if first == "start" and len(raw) > 1 and raw[1].startswith('"'):
            del raw[1]  # the window's title
        assignment = re.fullmatch(r"(?i)set (/\w )?(?:\"(\w+)=(.*)\"|\"?(\w+)=(.*))", " ".join(raw))
        if assignment:
            _, inside, quoted, bare, value = assignment.groups()
            name = (inside or bare).upper()
            self.exported[name] = name
            if assignment[1] or self.after in ("&", "&&"):  # cmd has replaced the variables of the line before it runs
                self.doubt([name])
            else:
                self.set(name, self.value(quoted if inside else value))
        elif first in ("cd", "pushd", "popd", "chdir"):
            self.enter([word for word in self.all_words(raw[1:]) if word.lower() != "/d"])
        elif not self.run(raw) and first == "call":
            self.doubt(list(self.values))

    def all_words(self, raw: Sequence[str]) -> list[str]:
        """What the words of a statement become: variables are replaced before quotes are read."""
        return windows_words(self.value(re.sub(rf"({_QUOTED})|\^(.)", lambda sign: sign[1] or sign[2], " ".join(raw))))

    def value(self, written: str) -> str:
        """A text with its variables replaced."""

        def replaced(part: re.Match[str]) -> str:
            name = (part[1] or part[2] or "").upper()
            here = self.here + "/" if part[0].startswith("%~dp0") else None
            return here or self.values.get(name, os.environ.get(name, "")) or self.untold(part[0])

        return self._variable.sub(replaced, written)


_PS_SINGLE = r"'(?:''|[^'])*+'"
_PS_DOUBLE = r'"(?:`.|""|\$\((?:[^()]|\([^()]*\))*+\)|[^"`])*+"'
_PS_VALUE = r"\$?\((?:[^()]|\((?:[^()]|\([^()]*\))*+\))*+\)|\$\{\w+\}|[$@](?:\w+:)?\w+(?:\.\w+|\[[^\]]*\])*"
_PS_LIST = rf"@\((?:{_PS_SINGLE}|{_PS_DOUBLE}|(?<=\s)#[^\n]*|[^()'\"])*+\)"
_PS_ITEM = re.compile(rf"({_PS_SINGLE}|{_PS_DOUBLE}|-?[\d.]+|\$(?:\w+:)?\w+)|(?<!\S)#[^\n]*|[\s,]+", re.DOTALL)


class PowerShell(Script):
    """A script of PowerShell."""

    TOKEN = re.compile(
        r"(?P<skipped>[ \t\r]+|`[ \t]*\n|<\#.*?\#>|\#[^\n]*|\d?>&\d)|(?P<redirect>[\d*]?>>?|<)|(?P<operator>\n|&&|\|\||[;|{}])"
        rf"|(?P<word>(?:{_PS_LIST}|{_PS_SINGLE}|{_PS_DOUBLE}|{_PS_VALUE}|`.|[^\s'\"`;|(){{}}<>#]|(?<!\s)#)+)",
        re.DOTALL,
    )
    PIECE = re.compile(
        rf"(?P<single>{_PS_SINGLE})|(?P<double>{_PS_DOUBLE})|(?P<value>{_PS_VALUE})|(?P<escape>`.)|(?P<pattern>,)|(?P<text>.)",
        re.DOTALL,
    )
    INNER = re.compile(r'`(["`$])|`.|""|\$(?:\((?:[^()]|\([^()]*\))*\)|\{\w+\}|(?:\w+:)?\w+)', re.DOTALL)
    LISTED = re.compile(r"[@$](\w+)")
    BRACKETS = "{}"
    _assignment: ClassVar[re.Pattern[str]] = re.compile(
        r"(?:\[[\w.\[\]]+\] ?)*\$((?:\w+:)?\w+) ?(\+?)= ?(.*)", re.DOTALL
    )

    def statement(self, raw: list[str]) -> None:
        """Follow a statement: an assignment, a directory, or a program."""
        text, first = " ".join(raw), raw[0].lower()
        if assignment := self._assignment.fullmatch(text):
            self._assign(*assignment.groups())
        elif text.startswith(("$", "[")):  # such as $list.Add(...), $number++
            self.doubt(re.findall(r"\$((?:\w+:)?\w+)", text))
        elif first in (".", "set-variable", "invoke-expression"):
            self.doubt([*self.values, *self.lists])
        elif first in ("cd", "set-location", "push-location", "pop-location"):
            self.enter(self.all_words(raw[1:]))
        else:
            self.run(raw[1:] if first == "&" else raw)

    def _assign(self, name: str, adds: str, written: str) -> None:
        inner = written[2:-1] if re.fullmatch(_PS_LIST, written) else written
        items = [item[1] for item in _PS_ITEM.finditer(inner) if item[1]]
        values = self.all_words(items)
        is_list = inner != written or len(values) != 1
        if _PS_ITEM.sub("", inner) or not (items or is_list):
            self.doubt([name])
        elif is_list or (adds and self.name(name) in self.lists):
            self.set(name, values, bool(adds))
        elif adds:  # numbers are summed
            self.doubt([name])
        else:
            self.lists.pop(self.name(name) if self.is_plain() else "", None)
            self.set(name, values[0])
        if name.lower().startswith("env:"):
            self.exported[name[4:].upper()] = self.name(name)

    def name(self, written: str) -> str:
        """A variable's name, with its sign: those of the environment are apart."""
        return "$" + re.sub("^(script|global|local):", "", written.lower().removeprefix("$"))

    def value(self, written: str) -> str:
        """The value of a variable; unknown if only a run can tell it."""
        variable = re.fullmatch(r"[$@]\{?((?:\w+:)?\w+)\}?", written)
        name = self.name(variable[1]) if variable else ""
        if name == "$psscriptroot":
            return self.here
        outside = os.environ.get(name[5:].upper()) if name.startswith("$env:") else None
        return '"' if written == '""' else self.values.get(name) or outside or self.untold(written)
