"""A script of PowerShell (.ps1): backquotes, `& "PROGRAM"`, variables, arrays, `param`, `Start-Process`.

It is followed without being run, and taken as started without arguments. A variable that is set in a block is unknown behind
it, unless it had that value before.
"""

from __future__ import annotations

import re
from pathlib import Path, PureWindowsPath

from spectui.profiles.scripts.powershell_words import PowerShellWords
from spectui.profiles.scripts.started import (
    EDGE,
    LONGEST,
    STEPS,
    Script,
    ScriptError,
    Started,
    base_name,
    shown,
    split_windows,
    starts,
    unknown,
)

_INERT = re.compile(
    r"(write-\w+|start-sleep|clear-host|cls|read-host|exit|return|pause|echo|out-null|new-item|import-module|set-\w+)$",
    re.I,
)
_BLOCK = re.compile(
    r"(if|elseif|else|foreach|for|while|do|until|switch|try|catch|finally|function|filter|begin|process|end)$", re.I
)


class _Reader(PowerShellWords):
    def __init__(self, text: str, file: Path | None) -> None:
        super().__init__(text, file)
        self._depth = 0
        self._steps = 0
        self._found: list[Started] = []
        self._others: list[str] = []

    def whole(self) -> Script:
        while self.at < len(self.text):
            self._steps += 1
            if self._steps > STEPS:
                raise ScriptError("Its commands are nested too deeply.")
            self._statement()
        if self._depth:
            raise self.cut_off()
        return Script(self._found, self._others)

    def _statement(self) -> None:
        self.space(lines=True)
        if self.at < len(self.text) and self.text[self.at] in ";\n":
            self.at += 1
            return
        if re.compile(r"param\s*\(", re.I).match(self.text, self.at):
            self._parameters()
            return
        assigned = re.compile(r"(?:\[[\w.\[\]]+\]\s*)*\$((?:\w+:)?\w+)\s*(\+?=)(?!=)[ \t]*", re.I).match(
            self.text, self.at
        )
        if assigned:
            self.at = assigned.end()
            if re.compile(r"&\s|start-process\s", re.I).match(self.text, self.at):
                self._command()  # what it starts, and not what it says, matters
                return
            start = self.at
            values = self.list()
            self.space()
            end = self._end()
            written = " ".join(self.text[start:end].split())
            self._assign(assigned[1].lower(), values if values is not None else [unknown(written)], assigned[2] == "+=")
            return
        self._command()

    def _end(self) -> int:
        """Go to the end of a statement."""
        while self.text[self.at : self.at + 1] not in ("\n", ";", "}", "") and self.token() is not None:
            self.space()
        return self.at

    def _assign(self, name: str, values: list[str], add: bool) -> None:
        name = re.sub("^(global|script|local):", "", name)
        if name.startswith("env:"):
            self.environment[name[4:].upper()] = " ".join(values)
            return
        values = [*self.values.get(name, []), *values] if add else values
        if self._depth and self.values.get(name) != values:
            old = self.values.get(name, [])
            rest = values[len(old) :] if values[: len(old)] == old else []
            values = [*old, unknown(shown(" ".join(rest)))] if add and rest else [unknown(f"${name}")]
        if sum(map(len, values)) > LONGEST:
            raise ScriptError("Its variables grow without end.")
        self.values[name] = values

    def _parameters(self) -> None:
        self.at = self.text.index("(", self.at)
        inner = self.inside(1)
        for found in re.finditer(r"\$(\w+)\s*=\s*((?:\"[^\"]*\"|'[^']*'|[^,\n])+)", inner):
            reader = PowerShellWords(found[2], self.file)
            reader.values = self.values
            values = reader.list()
            if values is not None:
                self.values[found[1].lower()] = values

    def _command(self) -> None:
        start = self.at
        words: list[str] = []
        while token := self.token():
            if token.sign in ("{", "}"):
                self._depth = max(0, self._depth + (1 if token.sign == "{" else -1))
                break
            if token.sign in ("|", "&&", "||"):
                break
            if token.sign == "," and words:
                self.space(lines=True)
                following = self.token()
                if following is not None and not following.sign:
                    words[-1:] = [words[-1] + "\1" + "\1".join(following.values)]
                continue
            if not words and (token.sign == "&" or token.written == "."):
                continue
            if not words and _BLOCK.match(token.written):
                if token.written.lower() in ("function", "filter"):
                    self.token()
                self.space()
                if self.text[self.at : self.at + 1] == "(":
                    self.inside(1)
                continue
            if not token.sign:
                words += token.values or [""]
        tail = ""
        if words:
            redirect = next(
                (index for index, word in enumerate(words) if re.match(r"[*\d]?>{1,2}(&\d)?|<", word)), len(words)
            )
            words, tail = words[:redirect], shown(" ".join(words[redirect:]))
        if self.text[self.at - 1 : self.at] == "|":
            end = self.text.find("\n", self.at)
            tail = f"{tail} |{self.text[self.at : end if end >= 0 else len(self.text)].rstrip()}".strip()
            self.at = end if end >= 0 else len(self.text)
        if words:
            self._start([word.replace("\1", ",") for word in words], words, self.text[start : self.at], tail)

    def _start(self, words: list[str], lists: list[str], written: str, tail: str) -> None:
        name = base_name(words[0]).lower()
        if name in ("set-location", "cd", "push-location", "sl", "pushd"):
            there = next((word for word in words[1:] if not word.lower().startswith("-")), "")
            if EDGE in there or self.directory is None:
                self.directory = None
            elif there:
                self.directory = there if there.startswith("/") else str(PureWindowsPath(self.directory, there))
            return
        directory = self.directory
        if name in ("start-process", "saps", "start"):
            words, directory = self._process(lists)
        if words[0].startswith("-") and self._found:
            self._found[-1].arguments += words
            return
        found = starts(
            words, variables=self.environment, directory=directory, nested=lambda text: read(shown(text), self.file).started
        ) if words and words[0] else []  # fmt: skip
        for each in found:
            each.windows = True
            each.tail = tail
        self._found += found
        if not found and not _INERT.match(words[0]):
            self._others.append(shown(written.split("\n")[0].strip()))

    def _process(self, lists: list[str]) -> tuple[list[str], str | None]:
        """(the words of what Start-Process starts, its directory)."""
        program, given, directory = "", "", self.directory
        rest = list(lists[1:])
        while rest:
            word = rest.pop(0)
            flag = word.lower()
            if "-filepath".startswith(flag) and len(flag) > 1 and rest:
                program = rest.pop(0)
            elif ("-argumentlist".startswith(flag) and len(flag) > 1) or flag == "-args":
                listed: list[str] = []
                while rest and (not listed or not re.match(r"-[A-Z]\w+$", rest[0])):
                    listed.append(rest.pop(0))
                given = " ".join(listed).replace("\1", " ")
            elif "-workingdirectory".startswith(flag) and len(flag) > 2 and rest:
                directory = rest.pop(0)
            elif not word.startswith("-") and not program:
                program = word
            elif not word.startswith("-") and not given:
                given = word.replace("\1", " ")
            elif flag.startswith(("-redirect", "-windowstyle", "-verb", "-credential")) and rest:
                rest.pop(0)
        try:
            return [program, *split_windows(given)], directory
        except ValueError:
            raise self.cut_off() from None


def read(text: str, file: Path | None = None) -> Script:
    """What a script of PowerShell starts. Raises ScriptError if it is no whole script."""
    try:
        return _Reader(text, file).whole()
    except RecursionError:
        raise ScriptError("Its commands are nested too deeply.") from None
