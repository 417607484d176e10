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
_EMPTY = re.compile(r"new-object [\w.]*List(\[\w+\])?(\(\))?|\[[\w.]*List(\[[\w.]+\])?\]::new\(\)", re.I)
"""A list that is made to be added to."""


class _Reader(PowerShellWords):
    def __init__(self, text: str, file: Path | None) -> None:
        super().__init__(text, file)
        self._depth = 0
        self._piped = False
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
        added = re.compile(r"(?:\[void\]\s*)?\$(\w+)\.(?:Add|AddRange)(?=\()", re.I).match(self.text, self.at)
        if added:
            self.at = added.end()
            values = self.inner_list()
            self._assign(added[1].lower(), values if values is not None else [unknown(added[0])], add=True)
            self._end()
            return
        changed = re.compile(r"\$(\w+)(?:\+\+|--|(?:\.\w+|\[[^]\n]*\])+\s*[-+*/]?=(?!=))").match(self.text, self.at)
        if changed:
            self.values[changed[1].lower()] = [unknown(f"${changed[1]}")]
            self._end()
            return
        assigned = re.compile(r"(?:\[[\w.\[\]]+\]\s*)*\$((?:\w+:)?\w+)\s*(\+?=)(?!=)[ \t]*", re.I).match(
            self.text, self.at
        )
        if assigned:
            self.at = assigned.end()
            if assigned[1].lower() == "null":  # what it says is thrown away
                return
            if re.compile(r"&\s|start-process\s", re.I).match(self.text, self.at):
                self._command()  # what it starts, and not what it says, matters
                return
            start = self.at
            values = self.list()
            if self.text[self.at : self.at + 1] not in ("\n", ";", "}", ""):
                values = None
            self._end()
            written = " ".join(self.text[start : self.at].split())
            values = [] if _EMPTY.fullmatch(written) else values
            self._assign(assigned[1].lower(), values if values is not None else [unknown(written)], assigned[2] == "+=")
            if values is None and "{" in written and re.compile(r"[a-z]\w*[\w-]*\b", re.I).match(self.text, start):
                self.at, self._piped = start, True  # what its blocks start
                self._command()
            return
        self._command()

    def _end(self) -> None:
        """Go to the end of a statement, over its blocks."""
        while True:
            self.space()
            sign = self.text[self.at : self.at + 1]
            if sign == "{":
                self.inside(1)
            elif sign == "\n" and re.search(r"([|,]|(?<!\+)\+)[ \t]*$", self.text[: self.at]):
                self.at += 1
            elif sign in ("\n", ";", "}", "") or self.token() is None:
                return

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
        reader = PowerShellWords(self.inside(1), self.file)
        reader.values = self.values
        while reader.at < len(reader.text):
            reader.space(lines=True)
            reader.cast()
            if given := re.compile(r"\$(\w+)\s*=\s*").match(reader.text, reader.at):
                reader.at, start = given.end(), given.end()
                token = reader.token()
                reader.space(lines=True)
                whole = reader.text[reader.at : reader.at + 1] in (",", "") and token is not None and not token.sign
                while reader.text[reader.at : reader.at + 1] not in (",", "") and reader.token(lines=True) is not None:
                    reader.space(lines=True)
                values = token.values if token is not None and whole else [unknown(reader.text[start : reader.at])]
                self.values[given[1].lower()] = values
            elif reader.text[reader.at : reader.at + 1] in ("[", "(") or reader.token(lines=True) is None:
                reader.at += 1

    def _command(self) -> None:
        start = self.at
        expression = self.text[start : start + 1] in ("$", "@", "(", "[")
        piped, self._piped = self._piped, False
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
        if token is not None and token.sign == "|":
            end = self.at
            while (following := self.token()) and following.sign not in ("{", "}"):
                pass
            tail = f"{tail} |{self.text[end : self.at].rstrip(' }{')}".strip()
            self.at, self._piped = end, True
            self.space(lines=True)
        if words and not expression:
            listed = (
                "" if piped else self.text[start : self.at]
            )  # what another command gives its lines is a part of that
            self._start([word.replace("\1", ",") for word in words], words, listed, tail)

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
        if not found and not _INERT.match(words[0]) and re.match(r"\s*[a-z.\\&]", written, re.I):
            self._others.append(shown(written.split("\n")[0].rstrip(" }").strip()))

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
