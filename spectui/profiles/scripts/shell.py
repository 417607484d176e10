"""A script of a shell (sh, bash, zsh), by the grammar of tree-sitter-bash.

Its statements are followed as far as that needs no run: variables, arrays, `cd`, functions, conditions whose outcome is known.
The script is taken as started without arguments. Where a condition is not known, both ways are followed, and a variable that
they set to different values is unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.profiles.scripts.scope import Scope, first
from spectui.profiles.scripts.started import (
    EDGE,
    STEPS,
    Script,
    ScriptError,
    Started,
    base_name,
    cut_off,
    shown,
    starts,
    unknown,
)
from spectui.profiles.scripts.ways import Ways

if TYPE_CHECKING:
    from tree_sitter import Node

SHELLS = ("sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "ssh")

_INERT = {
    ":", "[", "break", "continue", "disown", "echo", "false", "kill", "mkdir", "printf", "pwd", "read", "set", "shopt", "sleep",
    "test", "trap", "true", "ulimit", "umask", "wait",
}  # fmt: skip
"""Commands that change nothing about what is started: not listed."""


def read(text: str, file: Path | None = None) -> Script:
    """What a script starts. Raises ScriptError if it is no whole script."""
    _refuse_other_languages(text)
    try:
        return _Reader(text, Scope(file)).whole()
    except RecursionError:
        raise ScriptError("Its commands are nested too deeply.") from None


def _refuse_other_languages(text: str) -> None:
    found = re.match(r"#![ \t]*(?:\S*/env[ \t]+(?:-\S+[ \t]+)*)?(\S+)", text)
    if found and base_name(found[1]) not in SHELLS:
        raise ScriptError(f"It is a script for {base_name(found[1])}: give the command that it starts.")


class _Reader(Ways):
    def __init__(self, text: str, scope: Scope, steps: list[int] | None = None) -> None:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        text = text.replace(EDGE, "\ufffd")
        # A comment between the flags of a command; what a page of documentation has around it.
        text = re.sub(r"`#[^`\n]*`|(?m:^[ \t]*(?:\$[ \t]+|```\w*[ \t]*$))", lambda found: " " * len(found[0]), text)
        # The grammar does not know the base of a variable; without it, a number that begins with 0 is not computed.
        text = re.sub(r"\(\((?:(?!\)\)).)*", lambda found: re.sub(r"\b10#(?=[$\w])", "", found[0]), text)
        # The grammar wants the last line's end; a backslash there would hide that the text is cut off.
        super().__init__((text + ("" if text.endswith("\\") else "\n")).encode(errors="replace"), scope)
        parser = Parser(Language(tree_sitter_bash.language()))
        self._root = parser.parse(self.source).root_node
        if ends := self._joined_lines(self._root):
            for end in reversed(ends):
                self.source = self.source[:end] + b";" + self.source[end:]
            self._root = parser.parse(self.source).root_node
        self._found: list[Started] = []
        self._others: dict[str, None] = {}
        self._called: set[str] = set()
        self._steps = steps if steps is not None else [0]
        self._flags_may_follow = False

    def whole(self) -> Script:
        if (line := self._broken()) is not None:
            raise cut_off(line)
        self.run(self._root)
        for name, body in [*self.scope.functions.items()] if not self._found else []:
            if name not in self._called:  # a file of functions, such as .bashrc
                self.scope.ended = False
                self.run(body)
        return Script(self._found, [*self._others])

    def _joined_lines(self, root: Node) -> list[int]:
        """Where assignments end that the grammar takes for a part of the command on the next line."""
        ends, nodes = [], [root]
        while nodes:
            node = nodes.pop()
            nodes += node.children
            named = node.child_by_field_name("name") if node.type == "command" else None
            given = (
                [child for child in node.children if child.type == "variable_assignment"] if named is not None else []
            )
            if (
                named is not None
                and given
                and re.search(rb"(?<!\\)\n", self.source[given[-1].end_byte : named.start_byte])
            ):
                ends.append(given[-1].end_byte)
        return sorted(ends)

    def _broken(self) -> int | None:
        """The line of the first mistake."""
        if not self._root.has_error:
            return None
        node = self._root
        while True:
            if node.is_missing or node.type == "ERROR":
                return node.start_point.row + 1
            node = next(child for child in node.children if child.has_error or child.is_missing)

    def run(self, node: Node) -> None:
        self._steps[0] += 1
        if self._steps[0] > STEPS:
            raise ScriptError("Its functions call one another without end.")
        if self.scope.ended or self.scope.leaving:
            return
        match node.type:
            case "variable_assignment":
                self._assign(node)
            case "declaration_command":
                self._declare(node)
            case "unset_command":
                for child in node.children[1:]:
                    variable, element, _ = self.word(child).partition("[")
                    if element:
                        self._forget([variable])
                    else:
                        self.scope.forget(variable)
            case "command":
                self._command(node, [])
            case "redirected_statement":
                self._redirected(node)
            case "function_definition":
                body = node.child_by_field_name("body")
                name = node.child_by_field_name("name")
                if name is not None and body is not None:
                    self.scope.functions[self.text(name)] = body
            case (
                "if_statement"
                | "case_statement"
                | "for_statement"
                | "while_statement"
                | "c_style_for_statement"
                | "list"
            ):
                self.choose(node)
            case "subshell":
                before = self.scope
                self.scope = before.copy()
                self.run_all(node.children)
                self.scope = before
            case "compound_statement" if node.children[0].type == "((":
                self._forget(re.findall(r"(\w+)\s*(?:[-+*/%]?=(?!=)|\+\+|--)", self.text(node)))
            case (
                "program"
                | "compound_statement"
                | "do_group"
                | "else_clause"
                | "pipeline"
                | "variable_assignments"
                | "negated_command"
            ):
                self.run_all(node.children)

    def _assign(self, node: Node) -> None:
        name_node, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        name = self.text(name_node) if name_node is not None else ""
        if name.startswith("-"):  # a flag on a line of its own, as --temp=0
            return self._start([f"{name}={self.word(value) if value is not None else ''}"], node)
        add = any(child.type == "+=" for child in node.children)
        if name_node is not None and name_node.type == "subscript":
            parts = [name_node.children[0], name_node.children[2]]
            text = self.word(value) if value is not None else ""
            self.scope.set_element(self.text(parts[0]), self.word(parts[1]), text, add)
        elif value is not None and value.type == "array":
            self._assign_array(name, [child for child in value.children if child.is_named], add)
        else:
            self.scope.set(name, self.word(value) if value is not None else "", add)
        return None

    def _assign_array(self, name: str, elements: list[Node], add: bool) -> None:
        elements = [each for each in elements if each.type != "comment"]
        if not any(self.text(each).startswith("[") for each in elements):
            return self.scope.set(name, [word for each in elements for word in self.fields(each)], add)
        placed: dict[str, str] = {}
        for each in elements:
            found = re.fullmatch(r"\[(.*?)\]=(.*)", self.word(each), re.DOTALL)
            index, text = found.groups() if found else (unknown(self.text(each)), "")
            placed[index.strip("'\"")] = text
        if {*placed} == {*map(str, range(len(placed)))} and not add:
            return self.scope.set(name, [placed[str(index)] for index in range(len(placed))])
        if any(index.isdecimal() or EDGE in index for index in placed):  # it has gaps
            return self.scope.set(name, [unknown(f"${{{name}[@]}}")])
        if not add:
            self.scope.forget(name)
        for index, text in placed.items():
            self.scope.set_element(name, index, text)
        return None

    def _forget(self, names: Iterable[str]) -> None:
        """These variables are unknown from here on: only a run can tell their values."""
        for name in names:
            self.scope.set(name, unknown(f"${name}"))

    def _declare(self, node: Node) -> None:
        words = [self.text(child) for child in node.children]
        exported = words[0] == "export" or "-x" in words
        for child in node.children[1:]:
            if words[0] in ("local", "declare", "typeset") and "-g" not in words:
                self.scope.own(self.text(child.child_by_field_name("name") or child))
            if child.type == "variable_assignment":
                self._assign(child)
                name = child.child_by_field_name("name")
                if exported and name is not None:
                    self.scope.exported.add(self.text(name))
                changes = any(re.match(r"-\w*[inlu]", word) for word in words)  # -i computes, -n is another name
                value = "" if name is None else first(self.scope.lookup(self.text(name)) or "")
                if changes and name is not None and not value.isdecimal():
                    self._forget([self.text(name), *([value] if value.isidentifier() else [])])
            elif child.type == "variable_name" and exported:
                self.scope.exported.add(self.text(child))

    def _command(self, node: Node, more: list[str]) -> None:
        named = node.child_by_field_name("name")
        assignments = [child for child in node.children if child.type == "variable_assignment"]
        variables = {}
        for each in assignments:
            name, value = each.child_by_field_name("name"), each.child_by_field_name("value")
            if name is not None:
                variables[self.text(name)] = self.word(value) if value is not None else ""
        words = [] if named is None else [word for child in named.children for word in self.fields(child)]
        for child in node.children:
            if (
                child.is_named
                and child.type not in ("command_name", "variable_assignment", "comment")
                and "redirect" not in child.type
            ):
                words += self.fields(child)
        words += more
        if not words:
            return
        match words:
            case ["export" | "declare" | "readonly" | "local", *given]:
                for word in given:
                    name_, equals, value_ = word.partition("=")
                    if equals:
                        self.scope.set(name_, value_)
                    if words[0] == "export":
                        self.scope.exported.add(name_)
            case ["cd" | "pushd", *rest]:
                where = next((word for word in rest if not word.startswith("-")), "~")
                self._go(where)
            case ["break" | "continue" as how, *_]:
                self.scope.leaving = how
            case ["exit" | "return", *_]:
                self.scope.ended = True
            case ["set", "-a" | "-o", *mode] if not mode or mode == ["allexport"]:
                self.scope.exports_all = True
            case ["set", "--", *given]:
                self.scope.arguments = given
            case ["shift", count] if not count.isdecimal():
                self.scope.arguments = self.scope.arguments and [unknown("$@")]
            case ["shift", *count]:
                places = int(count[0]) if count else 1
                self.scope.arguments = self.scope.arguments[places if places <= len(self.scope.arguments) else 0 :]
            case ["alias", *given]:
                for word in given:
                    name_, equals, value_ = word.partition("=")
                    if equals and "llama" in value_:
                        self._found += self._nested(value_, self.scope.copy())
            case ["eval", *given]:
                self._found += self._nested(" ".join(given), self.scope)
            case ["read" | "mapfile" | "readarray" | "getopts" | "let" | "printf", *given] if (
                words[0] != "printf" or "-v" in given
            ):
                self._forget(found[0] for word in given if (found := re.match(r"[A-Za-z_]\w*(?=$|[-+*/%]?=)", word)))
            case [name_, *given] if name_ in self.scope.functions:
                # Those of the script are none.
                self._call(name_, [each for each in given if each != unknown("$@")])
            case _:
                self._start(words, node, variables)

    def _start(self, words: list[str], node: Node, variables: dict[str, str] | None = None) -> None:
        if words[0].startswith("-") and self._flags_may_follow:
            self._found[-1].arguments += words  # a line that begins with a flag, without a backslash before it
            self._found[-1].tail = self._found[-1].tail or self._tail(node)
            return
        names = self.scope.values if self.scope.exports_all else self.scope.exported & {*self.scope.values}
        exported = {name: first(self.scope.values[name]) for name in names}
        found = [] if words[0].startswith("-") and self._found else starts(
            words, variables={**exported, **(variables or {})}, directory=self.scope.directory,
            nested=lambda text: self._nested(text, self.scope.child(variables or {})),
        )  # fmt: skip
        if words[0] == "exec" and len(words) > 1 and words[1][0] != "{":  # in place of the script
            self.scope.ended = True
        self._flags_may_follow = bool(found)
        for each in found:
            each.tail = each.tail or self._tail(node)
        self._found += found
        piped = node.parent is not None and node.parent.type == "pipeline" and node.prev_sibling is not None
        if not found and not piped and base_name(words[0]) not in _INERT:
            self._others[self.text(node).split("\n")[0].strip()] = None

    def _nested(self, text: str, scope: Scope) -> list[Started]:
        """What a text starts that is taken as a script in that scope, which may be this script's own."""
        here = scope is self.scope
        inner = _Reader(shown(text), scope, self._steps)
        if (inner._broken()) is not None:
            raise ScriptError(f"{shown(text)[:60]!r} is no whole script: its quotes or brackets are not closed.")
        inner.run(inner._root)
        if here:
            self.scope = inner.scope
        return inner._found

    def _tail(self, node: Node) -> str:
        """What the shell does with a command: where its output goes, and whether it waits."""
        end = last = node.end_byte
        while node.parent is not None and node.parent.type in (
            "redirected_statement",
            "pipeline",
            "list",
            "negated_command",
        ):
            sign = node.next_sibling
            if node.parent.type == "list" and (sign is None or sign.type in ("&&", "||")):
                break
            node = node.parent
            last = node.end_byte
        redirects = " ".join(
            self.text(child) for child in node.children if "redirect" in child.type and child.end_byte <= end
        )
        waits = " &" if node.next_sibling is not None and node.next_sibling.type == "&" else ""
        return " ".join(f"{redirects} {self.source[end:last].decode(errors='replace')}{waits}".split())

    def _redirected(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        more: list[str] = []
        text = ""
        for redirect in node.children:
            if redirect.type == "file_redirect":
                targets = [child for child in redirect.children if child.is_named and child.type != "file_descriptor"]
                more += [word for child in targets[1:] for word in self.fields(child)]
            elif redirect.type == "heredoc_redirect":
                text += "".join(self.body(child) for child in redirect.children if child.type == "heredoc_body")
        if body is None:
            return
        if body.type != "command":
            self.run(body)
            return
        name = body.child_by_field_name("name")
        if text and name is not None and base_name(self.text(name)) in SHELLS:
            self._found += self._nested(text, self.scope.child({}))
            return
        self._command(body, more)
        words = self.text(body).split()
        if text and EDGE not in text and words[0] in ("mapfile", "readarray"):
            self.scope.set(words[-1], text.splitlines())
        elif text and words[0] == "read" and "-d" in words:
            self.scope.set(words[-1], text.strip())

    def _go(self, where: str) -> None:
        if EDGE in where or where == "-" or self.scope.directory is None:
            self.scope.directory = where if EDGE not in where and os.path.isabs(where) else None
        else:
            self.scope.directory = os.path.join(self.scope.directory, os.path.expanduser(where))

    def _call(self, name: str, arguments: list[str]) -> None:
        self._called.add(name)
        outer, self.scope.arguments = self.scope.arguments, arguments
        hidden, self.scope.local = self.scope.local, {}
        self.run(self.scope.functions[name])
        for each, value in self.scope.local.items():
            self.scope.forget(each)
            if value is not None:
                self.scope.set(each, value)
        self.scope.arguments, self.scope.local = outer, hidden
        self.scope.ended = False
