"""The words of a shell: quotes, variables, and what is put in their place. What only a run can tell stays unknown."""

from __future__ import annotations

import ast
import fnmatch
import glob
import operator
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.profiles.scripts.started import EDGE, LONGEST, ScriptError, unknown

if TYPE_CHECKING:
    from tree_sitter import Node

_SPACE = re.compile(rf"({EDGE}[^{EDGE}]*{EDGE})|\s+")
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "e": "\x1b"}


@dataclass
class Scope:
    """What a script has set so far. A list is an array. `directory`: as in `Started`. `ended`: `exit` was met."""

    file: Path | None = None
    directory: str | None = ""
    values: dict[str, str | list[str]] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    functions: dict[str, Node] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    ended: bool = False
    exports_all: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def copy(self) -> Scope:
        """The same, to be changed apart."""
        values = {name: value if isinstance(value, str) else [*value] for name, value in self.values.items()}
        return replace(
            self, values=values, exported={*self.exported}, functions={**self.functions}, arguments=[*self.arguments]
        )

    def lookup(self, name: str) -> str | list[str] | None:
        """A variable's value; None if nothing sets it."""
        if name in ("@", "*"):
            return self.arguments or [unknown(f"${name}")]
        if name == "#":
            return str(len(self.arguments))
        if name.isdecimal():
            if name == "0":
                return None if self.file is None else str(self.file)
            return self.arguments[int(name) - 1] if int(name) <= len(self.arguments) else None
        if name in self.values:
            return self.values[name]
        if name in ("BASH_SOURCE", "0") and self.file is not None:
            return str(self.file)
        if name == "PWD":
            return os.path.abspath(self.directory) if self.directory is not None else None
        return self.environ.get(name)

    def set(self, name: str, value: str | list[str], add: bool = False) -> None:
        """Set a variable, or add to it."""
        if add:
            old = self.values.get(name, self.environ.get(name, ""))
            if isinstance(value, list):
                value = [*([old] if isinstance(old, str) and old else old), *value]
            elif isinstance(old, list):
                value = [first(old) + value, *old[1:]]
            else:
                value = old + value
        if len(value) > LONGEST or sum(map(len, value)) > LONGEST:
            raise ScriptError("Its variables grow without end.")
        self.values[name] = value


def first(value: str | Sequence[str]) -> str:
    """An array without an index is its first element."""
    return value if isinstance(value, str) else value[0] if value else ""


def split(text: str) -> list[str]:
    """The fields of a text that is not in quotes."""
    fields, current, end = [], "", 0
    for found in _SPACE.finditer(text):
        current += text[end : found.start()]
        end = found.end()
        if found[1]:
            current += found[1]
        elif current:
            fields.append(current)
            current = ""
    current += text[end:]
    return [*fields, current] if current else fields


class Words:
    """Reads words of one script in a scope."""

    def __init__(self, source: bytes, scope: Scope) -> None:
        self.source = source
        self.scope = scope

    def text(self, node: Node) -> str:
        """A node as it is written."""
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def word(self, node: Node) -> str:
        """A node as one word."""
        return " ".join(self.fields(node, quoted=True))

    def fields(self, node: Node, quoted: bool = False) -> list[str]:
        """The words that a node becomes: an array in quotes becomes several, an empty variable none."""
        match node.type:
            case "word" | "variable_name":
                return self._globbed(node) if node.type == "word" and not quoted else [self._bare(node)]
            case "string":
                return self._joined(self._pieces(node), quoted=True)
            case "raw_string":
                return [self.text(node)[1:-1]]
            case "ansi_c_string":
                return [
                    re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), self.text(node)[2:-1], flags=re.S)
                ]
            case "concatenation":
                joined = self._joined(node.children, quoted)
                return self._expanded(joined) if not quoted and len(joined) == 1 else joined
            case "simple_expansion" | "expansion":
                return self._expansion(node, quoted)
            case "command_substitution":
                value = self._substituted(node)
                return [value] if quoted else split(value)
            case "arithmetic_expansion":
                return [self._arithmetic(node)]
            case "process_substitution":
                return [unknown(self.text(node))]
        return [self._bare(node)]

    def _bare(self, node: Node) -> str:
        text = re.sub(r"\\(?:\r?\n|(.))", lambda found: found[1] or "", self.text(node), flags=re.DOTALL)
        return os.path.expanduser(text) if text.startswith("~") else text

    def _globbed(self, node: Node) -> list[str]:
        return self._expanded([self._bare(node)]) if re.search(r"(?<!\\)[*?[]", self.text(node)) else [self._bare(node)]

    def _expanded(self, words: list[str]) -> list[str]:
        """Files of this machine for a pattern, as the shell has them; the pattern if there are none."""
        (word,) = words
        if self.scope.directory is None or EDGE in word or not re.search(r"[*?[]", word) or "/" not in word:
            return words
        return sorted(glob.glob(os.path.join(self.scope.directory, word))) or words

    def _pieces(self, node: Node) -> Iterator[Node | str]:
        """The children of a text in quotes, and the characters between them, which the grammar leaves out."""
        end = node.start_byte + 1
        for child in node.children[1:-1] if node.type == "string" else node.children:
            if child.type == "string_content":
                continue
            yield self._literal(self.source[end : child.start_byte])
            yield child
            end = child.end_byte
        last = node.end_byte - 1 if node.type == "string" else node.end_byte
        yield self._literal(self.source[end:last])

    @staticmethod
    def _literal(source: bytes) -> str:
        text = source.decode(errors="replace")
        return re.sub(r"\\(?:\r?\n|([$`\"\\]))", lambda found: found[1] or "", text)

    def body(self, node: Node) -> str:
        """The text of a heredoc."""
        parts, end = [], node.start_byte
        for child in node.children:
            if child.type in ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"):
                parts += [self.source[end : child.start_byte].decode(errors="replace"), self.word(child)]
                end = child.end_byte
        return "".join([*parts, self.source[end : node.end_byte].decode(errors="replace")])

    def _joined(self, pieces: Sequence[Node | str] | Iterator[Node | str], quoted: bool) -> list[str]:
        result = [""]
        for piece in pieces:
            fields = [piece] if isinstance(piece, str) else self.fields(piece, quoted)
            if fields:
                result[-1] += fields[0]
                result += fields[1:]
        return result

    def _expansion(self, node: Node, quoted: bool) -> list[str]:
        named = [
            child for child in node.children if child.type in ("variable_name", "special_variable_name", "subscript")
        ]
        signs = [self.text(child) for child in node.children if not child.is_named]
        marks = [sign for sign in signs if sign not in ("$", "${", "}")]
        if not named or marks[:1] == ["!"]:
            return [unknown(self.text(node))]
        value, every = self._value(named[0])
        if marks[:1] == ["#"] and node.children.index(named[0]) == 2 and len(node.children) == 4:
            return [str(len(value)) if value is not None and EDGE not in value else unknown(self.text(node))]
        if marks:
            operands = node.children[node.children.index(named[0]) + 2 : -1]
            value = self._operated(node, value, marks[0], operands)
        elif value is None:
            value = unknown(self.text(node))
        if isinstance(value, list) and (every or not quoted):
            if every == "*" and quoted:
                return [" ".join(value)]
            return value if quoted else [field for each in value for field in split(each)]
        return [first(value)] if quoted else split(first(value))

    def _value(self, node: Node) -> tuple[str | list[str] | None, str]:
        """(a variable's value, @ or * if all elements are meant)."""
        if node.type != "subscript":
            name = self.text(node)
            value = self.scope.lookup(name)
            return (value, name) if name in ("@", "*") else (None if value is None else first(value), "")
        name, index = self.text(node.children[0]), self.text(node.children[2])
        value = self.scope.lookup(name)
        if index in ("@", "*"):
            return ([value] if isinstance(value, str) else value), index
        elements = [value] if isinstance(value, str) else value or []
        known = (
            index.isdecimal()
            and int(index) < len(elements)
            and not any(EDGE in each for each in elements[: int(index)])
        )
        return (elements[int(index)] if known else None), ""

    def _operated(
        self, node: Node, value: str | list[str] | None, sign: str, operands: Sequence[Node]
    ) -> str | list[str]:
        operand = "".join(self.word(each) for each in operands)
        missing = value is None or (sign.startswith(":") and first(value) == "")
        match sign.removeprefix(":"):
            case "-" | "=":
                if missing and sign.endswith("="):
                    self.scope.set(self.text(node.children[1]), operand)
                if missing and len(operands) == 1 and operands[0].type == "string":
                    return operand
                return operand if missing or value is None else value
            case "+":
                return "" if missing else operand
            case "?" if value is not None and not missing:
                return value
            case "%" | "%%" | "#" | "##" if isinstance(value, str) and EDGE not in value + operand:
                return _trimmed(value, operand, sign)
            case "/" | "//" if isinstance(value, str) and EDGE not in value + operand:
                old = self.word(operands[0]) if operands else ""
                new = self.word(operands[2]) if len(operands) > 2 else ""
                found = re.compile(fnmatch.translate(old)[:-2].removesuffix(r"\Z").removesuffix(r"\z"))
                return found.sub(lambda _: new, value, count=0 if sign == "//" else 1) if old else value
        return unknown(self.text(node))

    def _substituted(self, node: Node) -> str:
        """What a command in the place of a word prints, where it needs no run."""
        commands = _commands_in(node)
        directory = self.scope.directory
        printed = ""
        for command in commands:
            words = (
                [word for child in command.children for word in self.fields(child)] if command.type == "command" else []
            )
            match words:
                case _ if not words or directory is None or any(EDGE in word for word in words):
                    return unknown(self.text(node))
                case ["cd", *_, there]:
                    directory = os.path.join(directory, there)
                case ["pwd", *_]:
                    printed = os.path.abspath(directory)
                case ["dirname", *_, path]:
                    printed = os.path.dirname(path) or "."
                case ["basename", path]:
                    printed = os.path.basename(path)
                case ["realpath", *_, path] | ["readlink", _, path]:
                    printed = os.path.abspath(os.path.join(directory, path))
                case ["echo" | "printf", text]:
                    printed = text
                case _:
                    return unknown(self.text(node))
        return printed

    def _arithmetic(self, node: Node) -> str:
        text = self.text(node).strip("$() \t\n")
        names = {name: self.scope.lookup(name) for name in re.findall(r"[A-Za-z_]\w*", text)}
        for name, value in names.items():
            text = re.sub(rf"\$?\{{?\b{name}\b\}}?", first(value or ""), text)
        try:
            return str(_computed(ast.parse(text, mode="eval").body))
        except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
            return unknown(self.text(node))


def _commands_in(node: Node) -> list[Node]:
    """The commands of a substitution, one behind the other."""
    found: list[Node] = []
    for child in node.children:
        if child.type in ("list", "redirected_statement"):
            found += _commands_in(child)
        elif child.is_named and "redirect" not in child.type:
            found.append(child)
    return found


def _trimmed(value: str, pattern: str, sign: str) -> str:
    """`${value%pattern}` and its like."""
    lengths = range(len(value) + 1)
    for length in lengths if len(sign) == 1 else reversed(lengths):
        part = value[len(value) - length :] if sign[0] == "%" else value[:length]
        if fnmatch.fnmatchcase(part, pattern):
            return value[: len(value) - length] if sign[0] == "%" else value[length:]
    return value


def _computed(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_computed(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        result = _OPERATORS[type(node.op)](_computed(node.left), _computed(node.right))
        if abs(result) < 1 << 60:
            return int(result)
    raise ValueError
