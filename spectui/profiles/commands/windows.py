"""Batch files and PowerShell scripts, in their plain case."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import ClassVar

from spectui.profiles.commands.script import Script
from spectui.profiles.commands.started import EDGE, arguments_of, base_name, joined, unknown, windows_words

_QUOTED = r'"(?:\\"|[^"\n])*+"'


class Batch(Script):
    """A batch file, or a command line as one types it at the prompt of Windows."""

    TOKEN = re.compile(
        r"(?P<skipped>[ \t\r]+|\^\n|\d?>&\d|(?:(?<=\n)|\A)[ \t]*@?(?i:rem\b|::)[^\n]*)|(?P<redirect>\d?>>?|<)"
        rf"|(?P<operator>\n|&&|\|\||[&|()])|(?P<word>(?:{_QUOTED}|\^.|[^\s\"&|<>()^])+)"
    )
    OPENS, CLOSES = ("(",), (")",)
    _jumps = False
    _variable: ClassVar[re.Pattern[str]] = re.compile(
        r"%~dp0\\?|%(\w+)%|!(\w+)!|%[^%\s]+:[^%\n]*%|%%~?\w|%(?:~\w*)?[*\d]"
    )

    def statement(self, line: int, before: str, raw: list[str]) -> None:
        """Follow a statement. After a label or a goto it is not sure to be run."""
        raw = [raw[0].lstrip("@"), *raw[1:]]
        first = raw[0].lower()
        self._jumps |= first.startswith(":") or ("goto" in map(str.lower, raw) and ":eof" not in map(str.lower, raw))
        sure = self.depth == 0 and not self._jumps and before not in ("&&", "||")
        if first in ("if", "for", "else"):
            starts = [
                at for at, word in enumerate(raw) if word.lower() in ("set", "call", "start") or arguments_of([word])
            ]
            raw, sure = raw[starts[0] :] if starts else [], False
        if first == "start":
            raw = ["start", *(word for word in raw[1:3] if not word.startswith('"') or "llama" in word), *raw[3:]]
        text = " ".join(raw)
        if assignment := re.fullmatch(r"(?i)set\s+(/\w\s+)?(?:\"(\w+)=(.*)\"|\"?(\w+)=(.*))", text):
            name = (assignment[2] or assignment[4]).upper()
            value = self.value(assignment[3] if assignment[2] else assignment[5])
            self.set(name, unknown(f"%{name}%") if assignment[1] else value, line, sure)
            self.exported[name] = self.values[name].replace('"', "")
            return
        words = windows_words(self.value(re.sub(rf"({_QUOTED})|\^(.)", lambda sign: sign[1] or sign[2], text)))
        if len(words) > 1 and words[0].lower() in ("cd", "pushd", "chdir"):
            self.enter(words[-1], sure)
        elif len(words) == 3 and base_name(words[0]).lower() == "cmd":
            self.run(line, windows_words(words[2]))
        elif words and words[0].lower() != "set":
            self.run(line, words)

    def value(self, text: str) -> str:
        """A text with its variables replaced. What stands for arguments, or is not set, is unknown."""

        def replaced(part: re.Match[str]) -> str:
            if part[0].startswith("%~dp0"):
                return self.here + "/"
            name = (part[1] or part[2] or "").upper()
            return self.values.get(name, os.environ.get(name, unknown(part[0])) if name else unknown(part[0]))

        return self._variable.sub(replaced, text)


_SINGLE = r"'(?:''|[^'])*+'"
_DOUBLE = r'"(?:`.|""|\$\((?:[^()]|\([^()]*\))*+\)|[^"`])*+"'
_ASIDE = r"(?<!(?i:param))(?<!(?i:param) )\((?:[^()]|\((?:[^()]|\([^()]*\))*+\))*+\)"
_VALUE = rf"{_ASIDE}|" r"\$\((?:[^()]|\((?:[^()]|\([^()]*\))*+\))*+\)|\$\{\w+\}|\$(?:\w+:)?\w+(?:\.\w+|\[[^\]]*\])*"
_LIST = rf"@\((?:{_SINGLE}|{_DOUBLE}|(?<=\s)#[^\n]*|[^()'\"])*+\)"
_NEXT = r",(?=\s*\[\w[\w.\[\]]*\]\s*\$)"
"""The comma before another parameter with its type."""

_VARIABLE = re.compile(r"\$\(.*|\$(?:(?:script|global|local|env):)?(\w+)|\$\{(\w+)\}", re.DOTALL | re.IGNORECASE)


class PowerShell(Script):
    """A script of PowerShell."""

    TOKEN = re.compile(
        r"(?P<skipped>[ \t\r]+|`[ \t]*\n|<\#.*?\#>|\#[^\n]*|\d?>&\d)|(?P<redirect>[\d*]?>>?|<)"
        rf"|(?P<operator>\n|&&|\|\||[;|){{}}]|{_NEXT}|(?<=(?i:param))\(|(?<=(?i:param) )\()"
        rf"|(?P<word>(?:@\"\n.*?\n\"@|{_LIST}|{_SINGLE}|{_DOUBLE}|{_VALUE}|`.|(?!{_NEXT})[^\s'\"`;|(){{}}<>#]|(?<!\s)#)+)",
        re.DOTALL,
    )
    OPENS, CLOSES = ("{",), ("}",)
    _pieces: ClassVar[re.Pattern[str]] = re.compile(
        rf"(?P<single>{_SINGLE})|(?P<double>{_DOUBLE})|(?P<value>{_VALUE})|(?P<text>`.|[^'\"])", re.DOTALL
    )
    _item: ClassVar[re.Pattern[str]] = re.compile(
        rf"(?<!\S)#[^\n]*|((?:{_SINGLE}|{_DOUBLE}|{_VALUE}|`.|[^\s,'\"`])+)", re.DOTALL
    )

    def statement(self, line: int, before: str, raw: list[str]) -> None:
        """Follow a statement: an assignment, a directory, Start-Process, or a program with its words."""
        sure = self.depth == 0 and before not in ("&&", "||")
        text = " ".join(raw)
        assignment = re.fullmatch(r"(?i)(?:\[[\w.\[\]]+\] ?)*\$(?:(env|\w+):)?(\w+) ?(\+?)= ?(.*?),?", text, re.DOTALL)
        if assignment and not re.match(r"(?i)&|start-process", assignment[4]):
            scope, name, adds, written = assignment.groups()
            value = self._assigned(written)
            self.set(name.lower(), value, line, sure and value != [], bool(adds))
            if isinstance(value, str) and (scope or "").lower() == "env":
                self.exported[name.upper()] = self.values[name.lower()]
            return
        if assignment:
            raw = [token[0] for token in self.TOKEN.finditer(assignment[4]) if token.lastgroup == "word"]
        if changed := re.match(r"(?:\[\w+\])?\$(\w+)\W", text):  # such as $list.Add(...), $number++
            name = changed[1].lower()
            self.lists.pop(name, None)
            self.values[name] = unknown(f"${name} (line {line})")
        first = raw[0].lower()
        if first in ("&", "."):
            raw = raw[1:]
        if first in ("cd", "set-location", "push-location") and len(raw) > 1:
            self.enter("".join(self.words(raw[-1])), sure)
        elif first == "start-process":
            self._start_process(line, raw[1:])
        elif raw:
            self.run(line, [value for word in raw for value in self.words(word)])

    def _assigned(self, written: str) -> str | list[str]:
        """The value of an assignment: a text, a list, or something unknown."""
        if re.fullmatch(_LIST, written):
            return self._items(written[2:-1])
        tokens = [token[0] for token in self.TOKEN.finditer(written) if token.lastgroup == "word"]
        if len(tokens) > 2 and tokens[0].lower() == "join-path":
            base, *parts = ("".join(self.words(word)) for word in tokens[1:])
            return unknown(written) if EDGE in base else joined(base, os.path.join(*parts).replace("\\", "/"))
        if re.fullmatch(rf"(?:(?:{_SINGLE}|{_DOUBLE}), ?)+(?:{_SINGLE}|{_DOUBLE})", written, re.DOTALL):
            return self._items(written)
        plain = len(tokens) == 1 and re.fullmatch(
            rf"{_SINGLE}|{_DOUBLE}|[\w.:/\\~-]+|\$(?:\w+:)?\w+", tokens[0], re.DOTALL
        )
        return "".join(self.words(tokens[0])) if plain else unknown(written)

    def _items(self, written: str) -> list[str]:
        return [word for item in self._item.finditer(written) if item[1] for word in self.words(item[1])]

    def _start_process(self, line: int, raw: Sequence[str]) -> None:
        """Start-Process has the program and its arguments as parameters, the arguments as a list or as one text."""
        written = " ".join(raw)
        named = r"(?i){0}\w* (@?\(.*?\)|(?:{1}|{2}|[^\s,]+)(?:, ?(?:{1}|{2}|[^\s,]+))*)"
        arguments = re.search(named.format("-arg", _SINGLE, _DOUBLE), written, re.DOTALL)
        program = re.search(named.format("-file", _SINGLE, _DOUBLE), written, re.DOTALL)
        items = self._items(arguments[1].removeprefix("@").strip("()")) if arguments else []
        words = [word for item in items for word in windows_words(item)]
        self.run(line, [*self.words(program[1] if program else raw[0]), *words] if raw else [])

    def words(self, raw: str) -> list[str]:
        """What a word becomes: several where it is a list."""
        listed = re.fullmatch(r"[@$](\w+)", raw)
        if listed and (raw.startswith("@") or listed[1].lower() in self.lists):
            return self.lists.get(listed[1].lower(), [self.values.get(listed[1].lower(), unknown(raw))])
        word = ""
        for piece in self._pieces.finditer(raw):
            text = piece[0]
            if piece.lastgroup == "single":
                word += text[1:-1].replace("''", "'")
            elif piece.lastgroup == "double":
                word += re.sub(r'`(.)|""|\$(?:\((?:[^()]|\([^()]*\))*\)|\{\w+\}|(?:\w+:)?\w+)', self._inner, text[1:-1])
            else:
                word += self.value(text) if piece.lastgroup == "value" else text.removeprefix("`") or text
        return [word] if word or raw else []

    def _inner(self, part: re.Match[str]) -> str:
        return part[1] or ('"' if part[0] == '""' else self.value(part[0]))

    def value(self, written: str) -> str:
        """The value of a variable; unknown if only a run can tell it."""
        variable = _VARIABLE.fullmatch(written)
        name = (variable[1] or variable[2] or "").lower() if variable else ""
        if name == "psscriptroot":
            return self.here
        outside = os.environ.get(name.upper()) if written.lower().startswith("$env:") else None
        return self.values.get(name) or outside or unknown(written)
