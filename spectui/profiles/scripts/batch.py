"""A batch file of Windows (.bat, .cmd): `^` at the end of a line, `set`, `%NAME%`, `rem`, `if`, `start`.

It is followed without being run, and taken as started without arguments. A block whose condition only a run can tell makes the
variables that it sets unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath

from spectui.profiles.scripts.started import (
    EDGE,
    LONGEST,
    STEPS,
    Script,
    ScriptError,
    Started,
    cut_off,
    shown,
    split_windows,
    starts,
    unknown,
    windows_environment,
)

_VARIABLE = re.compile(r"%%(?:~[a-z]*)?([A-Za-z])\b|%%|%~?([a-z]*)([0-9*])|%([^%\s=:]+)(:[^%]*)?%", re.IGNORECASE)
_LATE = re.compile(r"!([^!\s=:]+)!")
_SET = re.compile(r'set\s+(?:(/[ap])\s+)?(?:"([^=]+?)=([^"]*)"?|([^="]+?)=(.*))', re.IGNORECASE)
_IF = re.compile(
    r"(else\s+)?if\s+(?:/i\s+)?(not\s+)?"
    r"(?:(defined)\s+(\w+)|(exist|errorlevel|cmdextversion)\s+(\"[^\"]*\"|\S+)|(\"[^\"]*\"|[^\s=]+)\s*(==|\s[a-z]{3}\s)\s*(\"[^\"]*\"|\S+))\s*",
    re.IGNORECASE,
)
_LEAVE = re.compile(r"(exit\b|goto\b|call(?=\s*:))(?:(?<!exit)\s*:?([^\s:]+))?", re.IGNORECASE)
_FOR = re.compile(r"for\s.*?\)\s*do\s*", re.IGNORECASE)
_INERT = re.compile(
    r"@?(echo|pause|title|setlocal|endlocal|exit|goto|timeout|cls|color|chcp|ping|mode|shift|popd|md|mkdir)\b|:",
    re.IGNORECASE,
)
_MATTERS = re.compile("(LLAMA_ARG|GGML|CUDA|HIP|HSA|ROCR|HF|OMP|KMP|GPU|AMD|VK|SYCL|ONEAPI)_", re.IGNORECASE)
"""Every variable of a batch file is in the environment of what it starts. These are read there."""

_REDIRECT = re.compile(r'"[^"]*"|((?:(?<=\s)[012])?>{1,2}\s*(?:&\d|"[^"]*"|[^\s"]+)|<\s*\S+)')


@dataclass
class _Batch:
    """`jumps`: for each label, the variables and the directory at each `goto` and `call` that leads there. `gone`: the file has
    jumped or ended, so nothing runs before the next label that a jump leads to."""

    file: Path | None
    values: dict[str, str] = field(default_factory=dict)
    directory: str | None = ""
    blocks: list[bool | None] = field(default_factory=list)
    last: bool | None = None
    found: list[Started] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    steps: int = 0
    jumps: dict[str, list[tuple[dict[str, str], str | None]]] = field(default_factory=dict)
    gone: bool = False


def read(text: str, file: Path | None = None) -> Script:
    """What a batch file starts. Raises ScriptError if it is no whole script."""
    batch = _Batch(file)
    for number, line in _lines(text):
        if re.match(r"\s*@?(rem\b|::)", line, re.IGNORECASE):
            continue
        if label := re.match(r"\s*:\s*([^\s:&|<>]+)", line):
            _arrive(batch, label[1].lower())
            continue
        _statement(batch, _expanded(batch, line.strip().removeprefix("@")), number)
    if batch.blocks:
        raise cut_off(len(text.splitlines()))
    return Script(batch.found, batch.others)


def _lines(text: str) -> list[tuple[int, str]]:
    """(number, line) of each line as a whole. A line that begins with a flag goes on the line before it."""
    lines: list[tuple[int, str]] = []
    current, first, goes_on = "", 1, False
    for number, line in enumerate(text.replace(EDGE, "").splitlines(), 1):
        comment = re.match(r"\s*@?(rem\b|::)", line, re.IGNORECASE)
        if goes_on and comment:
            continue  # a flag that is left out for now
        if not goes_on:
            current, first = "", number
        stripped = line.rstrip()
        goes_on = stripped.endswith("^") and not stripped.endswith("^^") and not comment
        current += stripped.removesuffix("^") if goes_on else line
        if goes_on:
            current += " " if stripped[-2:-1].isspace() else ""
        elif lines and re.match(r"\s*-[\w-]", current):
            lines[-1] = lines[-1][0], f"{lines[-1][1]} {current.strip()}"
        else:
            lines.append((first, current))
    if goes_on:
        raise cut_off(first)
    return lines


def _expanded(batch: _Batch, line: str) -> str:
    def value(found: re.Match[str]) -> str:
        loop, modifiers, digit, name, change = found.groups()
        if found[0] == "%%":
            return "%"
        if digit == "0" and batch.file is not None:
            return f"{batch.file.parent}/" if "d" in modifiers.lower() else str(batch.file)
        if name is None or change:
            return unknown(found[0]) if digit or name or loop else found[0]
        return _value(batch, name, found[0])

    expanded = _VARIABLE.sub(value, line)
    if len(expanded) > LONGEST:
        raise ScriptError("Its variables grow without end.")
    return expanded


def _value(batch: _Batch, name: str, written: str) -> str:
    name = name.upper()
    if name in ("CD", "__CD__") and batch.directory:
        return batch.directory
    return batch.values.get(name, windows_environment().get(name, unknown(written)))


def _statement(batch: _Batch, line: str, number: int) -> None:
    """Follow a line: its commands, and the brackets that open and close blocks."""
    for segment in _segments(line, number):
        batch.steps += 1
        if batch.steps > STEPS:
            raise ScriptError("Its commands are nested too deeply.")
        text = segment.strip()
        if text == "(":
            batch.blocks.append(batch.last)
            batch.last = True
        elif text == ")":
            batch.last = batch.blocks.pop() if batch.blocks else True
        elif text in ("&", "&&", "||", "|"):
            batch.last = True if text == "&" else batch.last
        elif text:
            _conditional(batch, text)


def _segments(line: str, number: int) -> list[str]:
    """A line at its operators, which are segments too. A bracket is one where a command may stand."""
    segments, current, quoted, index = [], "", False, 0
    while index < len(line):
        sign = line[index]
        if sign == "^" and not quoted:
            current += line[index + 1 : index + 2]
            index += 2
            continue
        if sign == '"':
            quoted = not quoted
        operator = re.match(r"&&|\|\||[&|]", line[index:]) if not quoted else None
        redirected = line[index - 1 : index] == ">"
        if operator and not redirected:
            segments += [current, operator[0]]
            current = ""
            index += len(operator[0])
            continue
        opens = sign == "(" and re.fullmatch(r"\s*|.*\b(else|do)\s*|(.*\b)?if\s.*\S\s+", current, re.IGNORECASE)
        if not quoted and (opens or (sign == ")" and current.count("(") <= current.count(")"))):
            segments += [current, sign]
            current = ""
        else:
            current += sign
        index += 1
    if quoted:
        raise cut_off(number)
    return [*segments, current]


def _conditional(batch: _Batch, text: str) -> None:
    """Follow a command behind its conditions."""
    holds: bool | None = True
    if re.match(r"else\b", text, re.IGNORECASE):
        holds = None if batch.last is None else not batch.last
        text = text[4:].strip()
    while found := _IF.match(text):
        outcome = _holds(batch, found)
        holds = False if False in (holds, outcome) else None if None in (holds, outcome) else True
        text = text[found.end() :]
    if found := _FOR.match(text + " "):
        holds, text = (None if holds else holds), text[found.end() :].strip()
    batch.last = holds
    state = [*batch.blocks, holds]
    if text and False not in state and not batch.gone:
        if found := _LEAVE.match(text):
            _leave(batch, found, None not in state)
        else:
            _command(batch, text, None not in state)


def _leave(batch: _Batch, found: re.Match[str], certain: bool) -> None:
    """Follow `goto`, `exit`, and `call` of a label."""
    how, label = (part.lower() for part in found.groups(default=""))
    if label not in ("", "eof"):
        label = "*" if EDGE in label else label  # which one, only a run can tell
        batch.jumps.setdefault(label, []).append(({**batch.values}, batch.directory))
    batch.gone = certain and how != "call"


def _arrive(batch: _Batch, label: str) -> None:
    """At a label, all that leads there counts: what they do not agree on is unknown."""
    ways = (
        batch.jumps.pop(label, [])
        + batch.jumps.get("*", [])
        + ([] if batch.gone else [(batch.values, batch.directory)])
    )
    if not ways:
        return
    batch.gone = False
    names = dict.fromkeys(name for values, _ in ways for name in values)
    every = {name: {values.get(name, "") for values, _ in ways} for name in names}
    batch.values = {name: each.pop() if len(each) == 1 else unknown(f"%{name}%") for name, each in every.items()}
    batch.directory = ways[0][1] if len({directory for _, directory in ways}) == 1 else None


def _holds(batch: _Batch, found: re.Match[str]) -> bool | None:
    if found[3]:
        holds = found[4].upper() in batch.values or found[4].upper() in windows_environment()
    elif found[8] and found[8].strip() == "==":
        left, right = (re.sub(rf"{EDGE}%~?\d{EDGE}|{EDGE}%\w+%{EDGE}", "", side) for side in (found[7], found[9]))
        if EDGE in left + right:
            return None
        holds = left.lower() == right.lower()
    else:
        return None
    return not holds if found[2] else holds


def _command(batch: _Batch, text: str, certain: bool) -> None:
    text = _LATE.sub(lambda found: _value(batch, found[1], found[0]), text)
    if found := _SET.fullmatch(text):
        name, value = (found[2] or found[4]).strip().upper(), found[3] if found[2] else found[5]
        if found[1]:
            value = value if found[1].lower() == "/a" and value.strip().isdecimal() else unknown(f"%{name}%")
        if not certain and batch.values.get(name) != value:
            value = unknown(f"%{name}%")
        batch.values[name] = value.rstrip() if found[1] else value
        return
    text, tail = _redirects(text)
    words = split_windows(text)
    if not words or re.match(r"set\b", text, re.IGNORECASE):
        return
    match [words[0].lower(), *words[1:]]:
        case ["cd" | "chdir" | "pushd", *rest]:
            _go(batch, next((word for word in rest if not re.fullmatch(r"/d", word, re.IGNORECASE)), ""))
            return
        case ["start", *_]:
            words = _started_by_start(batch, text)
        case ["call", *rest]:
            words = rest
        case [drive, *_] if re.fullmatch(r"[a-z]:", drive):
            if PureWindowsPath(batch.directory or "").drive.lower() != drive:
                _go(batch, f"{words[0]}\\")
            return
    own = {name: value for name, value in batch.values.items() if _MATTERS.match(name)}
    started = starts(words, variables=own, directory=batch.directory, nested=lambda text: _nested(batch, text))
    for each in started:
        each.windows = True
        each.tail = tail
    batch.found += started
    if not started and not _INERT.match(text):
        batch.others.append(shown(text))


def _nested(batch: _Batch, text: str) -> list[Started]:
    return read(shown(text), batch.file).started


def _redirects(text: str) -> tuple[str, str]:
    """(a command without where its output goes, where it goes)."""
    tails = [found[1] for found in _REDIRECT.finditer(text) if found[1]]
    return _REDIRECT.sub(lambda found: " " if found[1] else found[0], text), " ".join(tails)


def _started_by_start(batch: _Batch, text: str) -> list[str]:
    """The words of the command behind `start`. Its title and its flags go."""
    text = re.sub(r'start\s+(?:"[^"]*"\s*)?', "", text, count=1, flags=re.IGNORECASE)
    while found := re.match(r'/(d\s*(?:"([^"]*)"|(\S+))|\w+(?:\s+0x\w+|\s+[0-9A-F]+(?=\s))?)\s*', text, re.IGNORECASE):
        if there := found[2] or found[3]:
            _go(batch, there)
        text = text[found.end() :]
    return split_windows(text)


def _go(batch: _Batch, there: str) -> None:
    if EDGE in there:
        batch.directory = None
    elif there and batch.directory is not None:
        batch.directory = str(PureWindowsPath(batch.directory, there)) if not there.startswith("/") else there
