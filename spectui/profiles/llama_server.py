"""llama-server's command line: read from a file or a script, and written from a profile."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence

from spectui.errors import UsageError
from spectui.profiles.exported import Exported
from spectui.profiles.imported import ImportedFile, LeftOut, arguments_of, imported

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_OPERATOR = re.compile(r"[();<>|&]+")

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_LITERAL = "\0"
"""Stands for a $ that a shell would leave alone, until variables are replaced."""

NOT_SET = "These variables are not set"
OTHER_LINES = "Other lines of the file"
SHELL = "What the shell does with it"


def read(text: str) -> ImportedFile:
    """The profile of the one command of llama.cpp in a text: a line, or a shell script around it.

    Raises UsageError if there is none, or more than one, or if quotes are not closed.
    """
    lines, comments = _logical_lines(text)
    commands: list[list[str]] = []
    local: dict[str, str] = {}
    environment: dict[str, str] = {}
    left_out: list[LeftOut] = []
    reason = "there is no command in it."
    for line in lines:
        words, tail = _words(line)
        missing: list[str] = []
        words = [_replaced(word, {**os.environ, **environment, **local}, missing) for word in words]
        assignments = [found for word in words if (found := _ASSIGNMENT.fullmatch(word))]
        if words and len(assignments) == len(words) - (words[0] == "export"):
            (environment if words[0] == "export" else local).update((found[1], found[2]) for found in assignments)
            continue
        try:
            arguments_of(words)
        except UsageError as error:
            reason = str(error)
            left_out.append(LeftOut(OTHER_LINES, line.strip()))
            continue
        commands.append(words)
        left_out += [LeftOut(NOT_SET, name) for name in missing]
        left_out += [LeftOut(SHELL, tail)] if tail else []
    if not commands:
        raise UsageError(f"There is no llama-server command: {reason}")
    if len(commands) > 1:
        raise UsageError(f"There are {len(commands)} commands of llama.cpp: leave one in the file.")
    profile = imported(commands[0], comments=comments, variables=environment)
    return ImportedFile((profile,), tuple(left_out))


def write(profiles: Sequence[tuple[str, Exported]]) -> str:
    """A command line for each profile, over several lines, with comments."""
    blocks = []
    for name, exported in profiles:
        # An alias with a comma would be two.
        alias = [] if "," in name else [("--alias", name)]
        flags = [" ".join(map(shlex.quote, each)) for each in (*alias, *exported.arguments)]
        blocks.append(
            "".join(f"# {line}\n" for line in exported.comments()) + " \\\n  ".join(["llama-server", *flags]) + "\n"
        )
    return "\n".join(blocks)


def _words(line: str) -> tuple[list[str], str]:
    """(the words of a command, what a shell would do with it after them)."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        raise UsageError("Quotes are not closed, or a line ends in the middle of a word.") from None
    end = next((index for index, word in enumerate(words) if _OPERATOR.fullmatch(word)), len(words))
    return words[:end], " ".join(words[end:])


def _replaced(word: str, variables: Mapping[str, str], missing: list[str]) -> str:
    """A word with its variables replaced. The names of those that are not set are added to `missing`."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in variables:
            missing.append(name)
        return variables.get(name, found[0])

    return _VARIABLE.sub(value, word).replace(_LITERAL, "$")


def _logical_lines(text: str) -> tuple[list[str], str]:
    """(lines as a shell takes them, comments). A line that begins with a flag goes on the line before it."""
    lines, comments, current = [""], [], ""
    rest = re.sub(r"\\[ \t]*\r?\n", " ", text).replace("\r\n", "\n")
    quote, index = "", 0
    while index < len(rest):
        sign = rest[index]
        if sign == "\\" and quote != "'":
            current += rest[index : index + 2] if rest[index + 1 : index + 2] != "$" else _LITERAL
            index += 2
            continue
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign == "#" and (not current or current[-1].isspace()):
            end = rest.find("\n", index)
            end = len(rest) if end < 0 else end
            comments.append(rest[index:end])
            index = end
            continue
        elif sign == "\n":
            lines.append(current)
            current, index = "", index + 1
            continue
        current += _LITERAL if sign == "$" and quote == "'" else sign
        index += 1
    joined: list[str] = []
    for line in filter(str.strip, [*lines, current]):
        if joined and line.lstrip().startswith("-"):
            joined[-1] += " " + line
        else:
            joined.append(line)
    return joined, "\n".join(comments)
