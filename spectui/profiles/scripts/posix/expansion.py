"""The words of a shell: quotes, variables, and what is put in their place. What only a run can tell stays unknown."""

from __future__ import annotations

import ast
import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from spectui.profiles.scripts.posix.scope import Scope, first
from spectui.profiles.scripts.posix.values import (
    WHITE,
    changed,
    computed,
    decoded,
    parsed,
    sliced,
    split,
    trimmed,
    unescaped,
)
from spectui.profiles.scripts.started import EDGE, unknown

if TYPE_CHECKING:
    from tree_sitter import Node


_INSERTED = re.compile(r"(\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}|`[^`]*`|\\[$`\\\n])|\\?\"")


class Words:
    """Reads words of one script in a scope."""

    def __init__(self, source: bytes, scope: Scope) -> None:
        self.source = source
        self.scope = scope

    def text(self, node: Node) -> str:
        """A node as it is written."""
        return decoded(self.source[node.start_byte : node.end_byte])

    def value(self, node: Node) -> str:
        """A node as a variable's value: there, a ~ behind a colon is a home directory, too."""
        if node.type == "concatenation":
            return " ".join(self._joined(node.children, quoted=True, colons=True))
        return self._bare(node, colons=True) if node.type == "word" else self.word(node)

    def word(self, node: Node) -> str:
        """A node as one word."""
        return " ".join(self.fields(node, quoted=True))

    def words(self, nodes: Iterable[Node]) -> list[str]:
        """The words of nodes one behind the other: the grammar takes apart some that are one, and takes `\\ ` for a blank."""
        words: list[str] = []
        end = -1
        for node in nodes:
            gap = decoded(self.source[end : node.start_byte]) if words else " "
            behind, between, before = re.findall(r"(?s)\A((?:\\[ \t])*)(.*?)((?:\\[ \t])*)\Z", gap)[0]
            fields = self.fields(node)
            if words:
                words[-1] += behind.replace("\\", "")
            if (before or not between) and not fields:
                fields = [""]
            if not between and words:
                words[-1] += fields.pop(0)
            elif before:
                fields[0] = before.replace("\\", "") + fields[0]
            words += fields
            end = node.end_byte
        return words

    def fields(self, node: Node, quoted: bool = False) -> list[str]:
        """The words that a node becomes: an array in quotes becomes several, an empty variable none."""
        match node.type:
            case "word" | "variable_name":
                return self._globbed(node) if node.type == "word" and not quoted else [self._bare(node)]
            case "string":
                words = self._joined(self._pieces(node), quoted=True)
                # An array without elements is no word.
                alone = (len(node.children) == 3 and "[@]" in self.text(node)) or self.text(node) == '"$@"'
                return [] if words == [""] and alone and len(self.text(node)) > 2 else words
            case "raw_string":
                return [self.text(node)[1:-1]]
            case "ansi_c_string":
                return [unescaped(self.text(node)[2:-1])]
            case "brace_expression":
                return [unknown(self.text(node))]
            case "concatenation" if not quoted and _braced(node, self.text(node)):
                return [unknown(self.text(node))]
            case "concatenation" if self.scope.zsh and re.match(r"\$\w+\[", self.text(node)):
                return [unknown(self.text(node))]
            case "concatenation":
                joined = self._joined(node.children, quoted)
                return self._expanded(joined) if not quoted and len(joined) == 1 else joined
            case "simple_expansion" | "expansion":
                return self._expansion(node, quoted)
            case "command_substitution":
                value = self._substituted(node)
                return [value] if quoted else self._split(value)
            case "arithmetic_expansion":
                return [self._arithmetic(node)]
            case "process_substitution":
                return [unknown(self.text(node))]
        return [self._bare(node)]

    def _bare(self, node: Node, begins: bool = True, colons: bool = False) -> str:
        """A word without quotes. `begins`: nothing of its word is before it. `colons`: a ~ may stand behind each."""
        written = self.text(node)
        name = re.match(r"[A-Za-z_]\w*=|", written)[0] if begins else ""  # type: ignore[index]
        parts = written[len(name) :].split(":") if colons or name else [written]
        parts = [_at_home(part) if index or begins else part for index, part in enumerate(parts)]
        return re.sub(r"\\(?:\r?\n|(.))", lambda found: found[1] or "", name + ":".join(parts), flags=re.DOTALL)

    def _split(self, text: str) -> list[str]:
        return split(text, first(self.scope.lookup("IFS") or ""))

    def _globbed(self, node: Node) -> list[str]:
        return self._expanded([self._bare(node)]) if re.search(r"(?<!\\)[*?[]", self.text(node)) else [self._bare(node)]

    def _expanded(self, words: list[str]) -> list[str]:
        """Files of this machine for a pattern, as the shell has them."""
        (word,) = words
        if self.scope.directory is None or EDGE in word or not re.search(r"[*?[]", word):
            return words
        found = sorted(glob.glob(word, root_dir=self.scope.directory or None))
        return found or ([unknown(word)] if "/" in word else words)  # a shell elsewhere may find some

    def _pieces(self, node: Node) -> Iterator[Node | str]:
        """The children of a text in quotes, and the characters between them, which the grammar leaves out."""
        end = node.start_byte + 1
        for child in node.children[1:-1]:
            if child.type == "string_content":
                continue
            yield self._literal(self.source[end : self._begin(child)])
            yield child
            end = child.end_byte
        yield self._literal(self.source[end : node.end_byte - 1])

    def _begin(self, node: Node) -> int:
        """Where a node begins: the grammar takes blanks before a `$` in quotes for a part of it."""
        text = self.source[node.start_byte : node.end_byte]
        return node.start_byte + (
            len(text) - len(text.lstrip()) if re.search("expansion|substitution", node.type) else 0
        )

    @staticmethod
    def _literal(source: bytes) -> str:
        return re.sub(r"\\(?:\r?\n|([$`\"\\]))", lambda found: found[1] or "", decoded(source))

    def body(self, node: Node) -> str:
        """The text of a heredoc: as in quotes, where they are signs as any other, or as it is written."""
        delimiter = (
            next(child for child in node.parent.children if child.type == "heredoc_start") if node.parent else node
        )
        begin = self.source.find(b"\n", delimiter.end_byte) + 1  # the grammar leaves out a beginning with a backslash
        text = self.source[begin : node.end_byte].decode(errors="replace")
        if b"<<-" in self.source[:begin].rsplit(b"\n", 2)[-2]:
            text = re.sub(r"(?m)^\t+", "", text)
        if re.search(r"['\"\\]", self.text(delimiter)):
            return decoded(text.encode())
        text = _INSERTED.sub(lambda found: found[1] or found[0].replace("\\", "\\\\").replace('"', '\\"'), text)
        outer, self.source = self.source, f'x "{text}"\n'.encode()
        try:
            command = parsed(self.source).children[0]
            return " ".join(self.words(command.children[1:])) if not command.has_error else unknown(text)
        finally:
            self.source = outer

    def _joined(self, pieces: Iterable[Node | str], quoted: bool, colons: bool = False) -> list[str]:
        result, apart = [""], False
        for index, piece in enumerate(pieces):
            splits = not quoted and not isinstance(piece, str) and re.search("expansion|substitution", piece.type)
            whole = self.word(piece) if splits and not isinstance(piece, str) else ""
            if isinstance(piece, str):
                fields = [piece]
            elif piece.type == "word":  # what stands behind a ~ as far as a slash is a person's name
                begins = not index and ("/" in self.text(piece) or not self.text(piece).startswith("~"))
                fields = [self._bare(piece, begins, colons)]
            else:
                fields = self.fields(piece, quoted)
            # Blanks at the ends of a value take it apart from what stands beside it.
            apart = apart or (result != [""] and self._is_blank(whole[:1]))
            if fields and apart:
                result += fields
            elif fields:
                result[-1] += fields[0]
                result += fields[1:]
            apart = self._is_blank(whole[-1:]) or (apart and not fields)
        return result

    def _is_blank(self, sign: str) -> bool:
        return bool(sign) and sign in WHITE and sign in first(self.scope.lookup("IFS") or "")

    def _expansion(self, node: Node, quoted: bool) -> list[str]:
        named = [
            child for child in node.children if child.type in ("variable_name", "special_variable_name", "subscript")
        ]
        signs = [self.text(child).strip() for child in node.children if not child.is_named]
        marks = [sign for sign in signs if sign not in ("$", "${", "}")]
        if not named or marks[:1] == ["!"]:
            return [unknown(self.text(node))]
        value, every = self._value(named[0])
        if marks[:1] == ["#"] and node.children.index(named[0]) == 2 and len(node.children) == 4:
            known = value is not None and not any(EDGE in each for each in value)
            return [str(len(value or "")) if known else unknown(self.text(node))]
        if marks:
            operands = node.children[node.children.index(named[0]) + 2 : -1]
            sign = marks[0].removeprefix(":")
            missing = value is None or (marks[0] != sign and first(value) == "")
            if sign in ("-", "=") and missing:
                if sign == "=":
                    self.scope.set(self.text(named[0]), " ".join(self._operand(operands, quoted=True)))
                return self._operand(operands, quoted)
            if sign == "+" and (value is None or EDGE not in first(value)):
                return self._operand(() if missing else operands, quoted)
            value = (
                value
                if value is not None and sign in ("-", "=", "?") and not missing
                else self._operated(node, value, marks[0], operands)
            )
        elif value is None:
            value = unknown(self.text(node))
        if self.scope.zsh and not quoted and not marks:
            return [each for each in ([value] if isinstance(value, str) else value) if each]
        if isinstance(value, list) and (every or not quoted):
            if every == "*" and quoted:
                return [first(self.scope.lookup("IFS") or "")[:1].join(value)]
            return value if quoted else [field for each in value for field in self._split(each)]
        return [first(value)] if quoted else self._split(first(value))

    def _value(self, node: Node) -> tuple[str | list[str] | None, str]:
        """(a variable's value, @ or * if all elements are meant)."""
        if node.type != "subscript":
            name = self.text(node)
            value = self.scope.lookup(name)
            whole = name in ("@", "*") or self.scope.zsh
            return (value, name if name in ("@", "*") else "") if whole else (value and first(value), "")
        name, index = self.text(node.children[0]), self.word(node.children[2])
        value = self.scope.lookup(name)
        if index in ("@", "*"):
            return ([value] if isinstance(value, str) else value), index
        elements = [value] if isinstance(value, str) else value or []
        if self.scope.zsh and index.isdecimal():
            index = str(int(index) - 1)
        if re.fullmatch(r"\d+|-1", index) and int(index) < len(elements):
            before = elements if index == "-1" else elements[: int(index)]
            known = elements and not any(EDGE in each for each in before)
            return (elements[int(index)] if known else None), ""
        keyed = self.scope.lookup(f"{name}[{index}]")
        return (None if keyed is None else first(keyed)), ""

    def _operand(self, operands: Sequence[Node], quoted: bool) -> list[str]:
        """The words that stand in a variable's place: blanks between them are those of quotes, or take words apart."""
        fields, apart = [""], True
        for operand in operands:
            end = operand.start_byte
            for child in operand.children if operand.type == "concatenation" else [operand]:
                gap = decoded(self.source[end : self._begin(child)])
                end = child.end_byte
                if quoted:  # where single quotes are signs as any other
                    text = self.text(child) if child.type == "raw_string" else ""
                    words = self._joined([gap, text or child], quoted=True)
                    fields[-1] += words[0]
                    fields += words[1:]
                    continue
                text = "" if child.type in ("string", "raw_string", "ansi_c_string") else self._plain(child)
                words = split(text) if text else self.fields(child)
                apart = apart or bool(gap) or text[:1].isspace()
                if words and not apart:
                    fields[-1] += words.pop(0)
                fields += words
                apart = text[-1:].isspace() or (apart and not words)
        return fields if quoted else fields[1:]

    def _plain(self, node: Node) -> str:
        return self._bare(node) if node.type in ("word", "number") else " ".join(self.fields(node, quoted=True))

    def _operated(
        self, node: Node, value: str | list[str] | None, sign: str, operands: Sequence[Node]
    ) -> str | list[str]:
        operand = "".join(self.word(each) for each in operands)
        match sign:
            case ":" if value is not None and not any(
                EDGE in each for each in ([value] if isinstance(value, str) else value)
            ):
                numbers = [self.text(each) for each in operands if each.type != ":"]
                if all(each.isdecimal() for each in numbers):
                    return sliced(value, self.text(node), *map(int, numbers))
            case "%" | "%%" | "#" | "##" if isinstance(value, str) and EDGE not in value + operand:
                return trimmed(value, operand, sign)
            case "/" | "//" if isinstance(value, str) and EDGE not in value + operand:
                old = self.word(operands[0]) if operands else ""
                new = self.word(operands[2]) if len(operands) > 2 else ""
                if "\\" in (written := self.text(node)):  # the grammar ends the pattern at a slash behind a backslash
                    if re.search(r"[$\"'`]", written[2:]):
                        return unknown(written)
                    parts = re.split(r"(?<!\\)/", written[written.index(sign) + len(sign) : -1], maxsplit=1)
                    old, new = (re.sub(r"\\(.)", r"\1", part) for part in (*parts, "")[:2])
                found = re.compile(fnmatch.translate(old)[:-2].removesuffix(r"\Z").removesuffix(r"\z"))
                return found.sub(lambda _: new, value, count=0 if sign == "//" else 1) if old else value
        return unknown(self.text(node))

    def _substituted(self, node: Node) -> str:
        """What a command in the place of a word prints, where it needs no run."""
        commands = _commands_in(node)
        directory = self.scope.directory
        printed: list[str] = []
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
                    printed.append(os.path.abspath(directory))
                case ["dirname", *_, path]:
                    printed.append(os.path.dirname(path) or ".")
                case ["basename", path, *suffix] if len(suffix) < 2 and path != "-s":
                    name = os.path.basename(path)
                    printed.append(name.removesuffix("".join(suffix)) or name)
                case ["realpath", *_, path] | ["readlink", _, path]:
                    printed.append(os.path.abspath(os.path.join(directory, path)))
                case ["echo", *words] if words[:1] not in (["-e"], ["-n"]):
                    printed.append(" ".join(words))
                case ["printf", text] if len(commands) == 1 and "%" not in text:
                    printed.append(text)
                case ["cat"] if len(bodies := _heredocs(node)) == 1:
                    printed.append(self.body(bodies[0]))
                case _:
                    return unknown(self.text(node))
        return "\n".join(printed).rstrip("\n")

    def forget(self, names: Iterable[str]) -> None:
        """These variables are unknown from here on: only a run can tell their values."""
        for name in names:
            self.scope.set(name, unknown(f"${name}"))

    def _arithmetic(self, node: Node) -> str:
        text = (
            self.text(node).strip().removeprefix("$((").removeprefix("$[").removesuffix("))").removesuffix("]").strip()
        )
        text = text if "#" not in text else "?"  # a number of another base, which would be a comment here
        self.forget(changed(text))

        def value(found: re.Match[str]) -> str:
            known = self.scope.lookup(found[2])
            # What a variable holds is computed by itself, unless a $ puts it there as it is written.
            return "?" if known is None else first(known) if found[1] else f"({first(known)})"

        def given(found: re.Match[str]) -> str:
            return first(self.scope.lookup(found[1]) or "") or found[2]

        try:
            text = re.sub(r"\$\{([A-Za-z_]\w*):-(\d+)\}", given, text)
            text = re.sub(r"(\$\{?)?\b([A-Za-z_]\w*)\b(?(1)\}?)", value, text)
            return str(computed(ast.parse(text, mode="eval").body))
        except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
            return unknown(self.text(node))


def _at_home(text: str) -> str:
    if re.match(r"~[-+\d]", text):  # a directory of before
        return unknown(text)
    return os.path.expanduser(text) if text.startswith("~") else text


def _commands_in(node: Node) -> list[Node]:
    """The commands of a substitution, one behind the other."""
    found: list[Node] = []
    for child in node.children:
        if child.type in ("list", "redirected_statement"):
            found += _commands_in(child)
        elif child.is_named and "redirect" not in child.type:
            found.append(child)
    return found


def _heredocs(node: Node) -> list[Node]:
    if node.type == "heredoc_body":
        return [node]
    return [body for child in node.children for body in _heredocs(child)]


def _braced(node: Node, text: str) -> bool:
    """Does a word have braces that the shell writes out, as {a,b}?"""
    return any(child.type == "word" and child.text == b"{" for child in node.children) and bool(
        re.search(r"\{[^{}]*(,|\.\.)[^{}]*\}", text)
    )
