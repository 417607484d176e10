"""A shell's text: its tree, what its operators make of a text, and the fields that it is taken apart into."""

from __future__ import annotations

import ast
import fnmatch
import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from spectui.profiles.scripts.started import EDGE, unknown

if TYPE_CHECKING:
    from tree_sitter import Node


def _divided(one: int, other: int) -> int:
    return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)  # towards 0, unlike Python


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _divided,
    ast.Mod: lambda one, other: one - other * _divided(one, other),
    ast.LShift: lambda one, places: one << min(places, 62),
}  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "?": "?", "a": "\a", "b": "\b", "e": "\x1b",
            "E": "\x1b", "f": "\f", "v": "\v"}  # fmt: skip
_ESCAPE = re.compile(r"\\(x[\da-fA-F]{1,2}|[0-7]{1,3}|u[\da-fA-F]{1,4}|U[\da-fA-F]{1,8}|.)", re.DOTALL)
_CHANGED = re.compile(
    r"(?<![\w$])([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)
WHITE = " \t\n"

_LINES = re.compile(
    r"""(?P<kept>\\[^\n]|\$'(?:\\.|[^'\\])*'|'[^']*'|(?<![^\s;&|()`])\#[^\n]*)|(?P<text>"(?:\\.|[^"\\])*")
        |(?<=\S)\\\n(?=(?P<next>\S[^\n]*))""",
    re.DOTALL | re.VERBOSE,
)
"""What keeps its backslashes, a text in which they may end a line, and an end of a line within a word."""

_LITERAL = re.compile(r"""<<-?[ \t]*["'\\](\w+)""")
"""The end of a here-document whose backslashes end no line."""

_MARK = "\ufdd0"
"""Stands for `EDGE` in a source: the grammar ends a text at that."""


def parsed(source: bytes) -> Node:
    """The tree of a script."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language())).parse(source).root_node


def joined(text: str) -> str:
    """A script whose words are not cut by the ends of lines that a backslash continues: the grammar would end a word there."""
    ends = {*_LITERAL.findall(text)}

    def part(found: re.Match[str]) -> str:
        if found["text"]:
            return re.sub(r"\\(.)", lambda sign: "" if sign[1] == "\n" else sign[0], found["text"], flags=re.DOTALL)
        return found["kept"] or (found[0] if found["next"] in ends else "")

    return _LINES.sub(part, text)


def encoded(text: str) -> bytes:
    """A text as the grammar takes it. What is unknown in it stays so."""
    return text.replace(EDGE, _MARK).encode(errors="replace")


def decoded(source: bytes) -> str:
    """What `encoded` made of a text."""
    return source.decode(errors="replace").replace(_MARK, EDGE)


def split(text: str, between: str = WHITE) -> list[str]:
    """The fields of a text that is not in quotes, with the signs of IFS `between` them."""
    if EDGE in between:
        return [unknown(text)] if text else []
    blank = "".join(re.escape(sign) for sign in between if sign in WHITE)
    other = "".join(re.escape(sign) for sign in between if sign not in WHITE)
    ways = [f"[{blank}]*[{other}][{blank}]*" if blank else f"[{other}]"] if other else []
    ends = re.compile("|".join([f"({EDGE}[^{EDGE}]*{EDGE})", *ways, *([f"[{blank}]+"] if blank else [])]))
    fields, current, end = [], "", 0
    for found in ends.finditer(text := text.strip("".join(sign for sign in between if sign in WHITE))):
        current += text[end : found.start()] + (found[1] or "")
        end = found.end()
        if not found[1]:
            fields.append(current)
            current = ""
    current += text[end:]
    return [*fields, current] if current else fields


def unescaped(text: str) -> str:
    """A text of `$'...'`. Its bytes are read as UTF-8."""

    def sign(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] in "uU" and len(code) > 1:
            number = int(code[1:], 16)
            return chr(number) if number < 0x110000 else "\ufffd"
        if code.isdecimal() or (code[0] == "x" and len(code) > 1):
            byte = int(code, 8) & 255 if code.isdecimal() else int(code[1:], 16)
            return bytes([byte]).decode(errors="surrogateescape")
        return _ESCAPES.get(code, found[0])

    return _ESCAPE.sub(sign, text).encode(errors="surrogateescape").decode(errors="replace")


def trimmed(value: str, pattern: str, sign: str) -> str:
    """`${value%pattern}` and its like."""
    lengths = range(len(value) + 1)
    for length in lengths if len(sign) == 1 else reversed(lengths):
        part = value[len(value) - length :] if sign[0] == "%" else value[:length]
        if fnmatch.fnmatchcase(part, pattern):
            return value[: len(value) - length] if sign[0] == "%" else value[length:]
    return value


def sliced(value: str | list[str], written: str, start: int, length: int | None = None) -> str | list[str]:
    """`${value:start:length}`. The arguments of a script are counted from 1."""
    start -= 1 if written[2:3] in ("@", "*") and start else 0
    return value[start : None if length is None else start + length]


def changed(expression: str) -> list[str]:
    """The variables that an arithmetic expression sets."""
    return [name or other for name, other in _CHANGED.findall(expression)]


def computed(node: ast.expr) -> int:
    """The value of an arithmetic expression. Raises ValueError or ArithmeticError where it has none."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -computed(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        result = _OPERATORS[type(node.op)](computed(node.left), computed(node.right))
        if abs(result) < 1 << 60:
            return result
    raise ValueError
