"""The words and the expressions of PowerShell. What only a run can tell stays unknown."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath

from spectui.profiles.scripts.started import EDGE, LONGEST, ScriptError, cut_off, unknown, windows_environment

_QUOTES = ("'", '"')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": ""}
_CAST = re.compile(r"(?:\[[A-Za-z][\w.]*(?:\[[\w.,\s]*\])*\][ \t]*)+")
_NAME = re.compile(r"\$(?:\{([^}]+)\}|((?:env|global|script|local):\w+|\w+))", re.I)


@dataclass
class Token:
    """A word or a sign of the language. `values`: what a word becomes. `written`: the word as it is written."""

    written: str
    values: list[str] = field(default_factory=list)
    sign: str = ""


class PowerShellWords:
    """Reads the words of one script, from `at` on."""

    def __init__(self, text: str, file: Path | None) -> None:
        self.text = re.sub(r"<#.*?#>", "", text.replace(EDGE, ""), flags=re.DOTALL)
        self.at = 0
        self.file = file
        self.values: dict[str, list[str]] = {}
        self.environment: dict[str, str] = {}
        self.directory: str | None = ""

    def cut_off(self) -> ScriptError:
        return cut_off(self.text.count("\n", 0, self.at) + 1)

    def space(self, lines: bool = False) -> None:
        """Go behind spaces and comments, and lines' ends if `lines`."""
        pattern = r"(?:[ \t\f\v]|`\n|#[^\n]*" + (r"|\n)*" if lines else ")*")
        found = re.compile(pattern).match(self.text, self.at)
        if found:
            self.at = found.end()

    def token(self, lines: bool = False) -> Token | None:
        """The next word or sign; None at the end of the line."""
        self.space(lines)
        if (cast := _CAST.match(self.text, self.at)) and self.text[cast.end() : cast.end() + 1] in ("@", "$", "("):
            self.at = cast.end()
        rest = self.text[self.at : self.at + 2]
        if not rest or rest[0] in "\n;":
            return None
        for sign in ("&&", "||", "@(", "@{", "$(", "(", ")", "{", "}", ",", "|", "&"):
            if rest.startswith(sign):
                if sign in ("$(", "(", "@(", "@{"):
                    return self._bracketed(sign)
                self.at += len(sign)
                return Token(sign, sign=sign)
        return self._word()

    def _bracketed(self, sign: str) -> Token:
        """What stands in brackets: a list, or what only a run can tell."""
        start = self.at
        values = None if sign == "@{" else self.inner_list(len(sign))
        if sign == "@{":
            self.inside(2)
        written = self.text[start : self.at]
        return Token(written, [unknown(written)] if values is None else values)

    def inner_list(self, opening: int = 1) -> list[str] | None:
        """Go behind a bracket; the values of the list in it, None if only a run can tell them."""
        reader = PowerShellWords(self.inside(opening), self.file)
        reader.values, reader.environment, reader.directory = self.values, self.environment, self.directory
        return reader.list(lines=True)

    def inside(self, opening: int) -> str:
        """Go behind a bracket; the text in it."""
        start = self.at + opening
        depth, self.at = 1, start
        while depth:
            if self.at >= len(self.text):
                raise self.cut_off()
            sign = self.text[self.at]
            if sign in "'\"":
                self._quoted(sign)
                continue
            if sign == "#":
                self.space()
                continue
            depth += (sign in "({") - (sign in ")}")
            self.at += 2 if sign == "`" else 1
        return self.text[start : self.at - 1]

    def cast(self) -> None:
        """Go behind a type in brackets."""
        if found := _CAST.match(self.text, self.at):
            self.at = found.end()

    def _word(self) -> Token:
        start, values = self.at, [""]
        while self.at < len(self.text):
            sign = self.text[self.at]
            if self.text.startswith(("@'\n", '@"\n'), self.at):
                quote = self.text[self.at + 1]
                end = self.text.find(f"\n{quote}@", self.at)
                if end < 0:
                    raise self.cut_off()
                body, self.at = self.text[self.at + 3 : end], end + 3
                values[-1] += body if quote == "'" else self._inserted(body)
            elif sign in "'\"":
                text = self._quoted(sign)
                values[-1] += text.replace("''", "'") if sign == "'" else self._inserted(text.replace('""', '"'))
            elif sign == "`":
                if self.text[self.at + 1 : self.at + 2] in ("\n", ""):
                    break
                values[-1] += _ESCAPES.get(self.text[self.at + 1], self.text[self.at + 1])
                self.at += 2
            elif sign == "@" and self.at == start and (found := re.compile(r"@(\w+)").match(self.text, self.at)):
                self.at = found.end()
                values = [*self.values.get(found[1].lower(), [unknown(found[0])])]
            elif found := _NAME.match(self.text, self.at):
                self.at = found.end()
                member = re.compile(r"(\.\w+|\[[^\]\n]*\])+").match(self.text, self.at)
                if member and (values == [""] or "[" in member[0] or "." in member[0][1:]):
                    self.at = member.end()
                    values[-1] += unknown(found[0] + member[0])
                    continue
                inserted = self._variable(found)
                values[-1] += inserted[0] if inserted else ""
                values += inserted[1:]
            elif self.text.startswith("$(", self.at):
                before = self.at
                inner = self.inside(2)
                values[-1] += self._evaluated(inner, self.text[before : self.at])
            elif sign.isspace() or sign in ",;|(){}" or (sign == "&" and self.at == start):
                break
            else:
                values[-1] += sign
                self.at += 1
        if self.at == start:
            self.at += 1
        if len(values) > LONGEST or sum(map(len, values)) > LONGEST:
            raise ScriptError("Its variables grow without end.")
        return Token(self.text[start : self.at], values)

    def _quoted(self, quote: str) -> str:
        """Go behind a text in quotes; what is in them, as it is written."""
        self.at += 1
        start = self.at
        while self.at < len(self.text):
            if quote == '"' and self.text.startswith("$(", self.at):
                self.inside(2)
            elif self.text.startswith(quote * 2, self.at) or (quote == '"' and self.text[self.at] == "`"):
                self.at += 2
            elif self.text[self.at] == quote:
                self.at += 1
                return self.text[start : self.at - 1]
            else:
                self.at += 1
        raise self.cut_off()

    def _inserted(self, text: str) -> str:
        """A text in quotes with its variables replaced."""

        inner = PowerShellWords(text, self.file)
        parts: list[str] = []
        while inner.at < len(inner.text):
            start = inner.at
            if inner.text.startswith("$(", start):
                parts.append(self._evaluated(inner.inside(2), inner.text[start : inner.at]))
            elif inner.text[start] == "`":
                parts += [_ESCAPES.get(each, each) for each in inner.text[start + 1 : start + 2]]
                inner.at += 2
            elif name := _NAME.match(inner.text, start):
                parts.append(" ".join(self._variable(name)))
                inner.at = name.end()
            else:
                parts.append(inner.text[start])
                inner.at += 1
        return "".join(parts)

    def _evaluated(self, inner: str, written: str) -> str:
        found = _NAME.fullmatch(inner.strip())
        return " ".join(self._variable(found)) if found else unknown(written)

    def _variable(self, found: re.Match[str]) -> list[str]:
        name = (found[1] or found[2]).lower().removeprefix("global:").removeprefix("script:").removeprefix("local:")
        if name.startswith("env:"):
            known = {key.lower(): value for key, value in {**windows_environment(), **self.environment}.items()}
            return [known.get(name[4:], unknown(found[0]))]
        if name == "psscriptroot" and self.file is not None:
            return [str(self.file.parent)]
        if name == "pwd" and self.directory:
            return [self.directory]
        if name in ("true", "false", "null"):
            return ["" if name == "null" else name.capitalize()]
        return [*self.values.get(name, [unknown(found[0])])]

    def list(self, lines: bool = False) -> list[str] | None:
        """The values of an expression, up to the end of the line or of the text; None if only a run can tell."""
        values: list[str] = []
        last, end = "", self.at
        while True:
            self.space(lines)
            self.cast()
            before = self.at
            token = self.token(lines)
            if token is None:
                break
            if token.sign == ",":
                self.space(lines=True)
                continue
            if token.sign:
                self.at = before
                if token.sign == "}":
                    break
                return None
            if token.written.lower() in ("join-path", "split-path"):
                return [*values, self._path(token.written.lower())]
            if token.written == "+" and values:
                self.space(lines=True)
                other = self.token()
                if last[:1] not in _QUOTES or other is None or other.written[:1] not in _QUOTES:
                    return None
                values[-1:] = [values[-1] + "".join(other.values)]
                continue
            last = token.written
            gap = self.text[end : self.at - len(token.written)]
            if values and not self._comma_before(token) and not (lines and re.search("[\n;]", gap)):
                return None
            values += token.values
            end = self.at
        if lines and self.at < len(self.text):
            self.at += 1
            more = self.list(lines=True)
            return None if more is None else [*values, *more]
        return values

    def _path(self, command: str) -> str:
        """What Join-Path or Split-Path makes of the words behind it."""
        parts: list[str] = []
        start = self.at
        while (token := self.token()) and not token.sign:
            parts += [value for value in token.values if not value.startswith("-")]
        if command == "split-path":
            whole = self.text[start : self.at]
            if token is not None or len(parts) != 1 or EDGE in parts[0] or re.search(r"-(?!p)[a-z]", whole, re.I):
                return unknown(f"Split-Path {whole}")
            return str(PureWindowsPath(parts[0]).parent) if "\\" in parts[0] else os.path.dirname(parts[0])
        return "\\".join([each.rstrip("\\/") for each in parts[:1]] + [each.strip("\\/") for each in parts[1:]])

    def _comma_before(self, token: Token) -> bool:
        return self.text[: self.at - len(token.written)].rstrip(" \t\n`").endswith(",")
