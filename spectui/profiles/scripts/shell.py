"""A script of a shell (sh, bash, zsh), by the grammar of tree-sitter-bash.

Its statements are followed as far as that needs no run: variables, arrays, `cd`, functions, conditions whose outcome is known.
The script is taken as started without arguments. Where a condition is not known, both ways are followed, and a variable that
they set to different values is unknown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.errors import SpectuiError
from spectui.profiles.scripts.posix.scope import Scope
from spectui.profiles.scripts.posix.values import changed, decoded, encoded, joined, parsed
from spectui.profiles.scripts.posix.variables import Variables
from spectui.profiles.scripts.started import (
    EDGE,
    LONGEST,
    SHELLS,
    STEPS,
    Script,
    ScriptError,
    Started,
    arguments_of,
    base_name,
    contained,
    cut_off,
    shown,
    starts,
    unknown,
)
from spectui.text_file import read_text

if TYPE_CHECKING:
    from tree_sitter import Node

_INERT = {
    ":", "[", "break", "continue", "disown", "echo", "false", "kill", "mkdir", "printf", "pwd", "read", "set", "shopt", "sleep",
    "test", "trap", "true", "ulimit", "umask", "wait",
}  # fmt: skip
"""Commands that change nothing about what is started: not listed."""


def read(text: str, file: Path | None = None) -> Script:
    """What a script starts. Raises ScriptError if it is no whole script."""
    _refuse_other_languages(text)
    try:
        zsh = (file is not None and file.suffix == ".zsh") or bool(re.match("#!.*zsh", text))
        return _Reader(text.replace(EDGE, "\ufffd"), Scope(file, zsh=zsh)).whole()
    except RecursionError:
        raise ScriptError("Its commands are nested too deeply.") from None


def started(
    text: str, variables: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> list[Started]:
    """What a text starts that another program gives to a shell. What is unknown in it stays so. Raises as `read`.

    `variables`: those that the program gives to the shell, beside `environ`; by default, those of here.
    """
    scope = Scope() if variables is None else Scope(values={**variables}, exported={*variables}, environ=environ or {})
    return _Reader(text, scope).whole().started


def in_image(
    image: str,
    words: Sequence[str],
    environment: Mapping[str, str],
    volumes: Sequence[tuple[str, str]],
    directory: str,
) -> Started:
    """The command of llama.cpp that an image runs: `words`, or its own with these flags. Raises as `arguments_of`."""
    nested = partial(started, variables=environment)
    found = Started([*words]) if not words or words[0].startswith(("-", EDGE)) else arguments_of(words, nested)
    return contained(found, image, environment, volumes, directory)


def _refuse_other_languages(text: str) -> None:
    found = re.match(r"#![ \t]*(?:\S*/env[ \t]+(?:-\S+[ \t]+)*)?(\S+)", text)
    if found and base_name(found[1]) not in SHELLS:
        raise ScriptError(f"It is a script for {base_name(found[1])}: give the command that it starts.")


class _Reader(Variables):
    def __init__(self, text: str, scope: Scope, outer: _Reader | None = None) -> None:
        text = joined(text)
        # A comment between the flags of a command; what a page of documentation has around it.
        text = re.sub(r"`#[^`\n]*`|(?m:^[ \t]*(?:\$[ \t]+|```\w*[ \t]*$))", lambda found: " " * len(found[0]), text)
        # The grammar does not know the base of a variable; without it, a number that begins with 0 is not computed.
        text = re.sub(r"\(\((?:(?!\)\)).)*", lambda found: re.sub(r"\b10#(?=[$\w])", "", found[0]), text)
        # The grammar wants the last line's end; a backslash there would hide that the text is cut off.
        super().__init__(encoded(text + ("" if text.endswith("\\") else "\n")), scope)
        self._root = parsed(self.source)
        while missing := self._missing(self._root):
            for at, sign in reversed(missing):
                self.source = self.source[:at] + sign + self.source[at:]
            self._root = parsed(self.source)
        self._found: list[Started] = []
        self._others: dict[str, None] = {}
        self._called: set[str] = outer._called if outer is not None else set()
        self._steps: list[int] = outer._steps if outer is not None else [0]
        self._flags_may_follow = False

    def whole(self) -> Script:
        if (line := self._broken()) is not None:
            if (self.scope.file and self.scope.file.suffix == ".fish") or re.match(b"#!.*fish", self.source):
                raise ScriptError("It is a script for fish: give the command that it starts.")
            raise cut_off(line)
        self.run(self._root)
        for name in [*self.scope.functions] if not self._found else []:
            if name not in self._called:  # a file of functions, such as .bashrc
                self.scope.ended = ""
                self._run_function(name)
        for name, text in [*self.scope.aliases.items()] if not self._found else []:
            if name not in self._called and "llama" in text:
                self._found += self._nested(text, self.scope.copy())
        return Script(self._found, [*self._others])

    def _missing(self, root: Node) -> list[tuple[int, bytes]]:
        """(place, sign) of what the grammar needs, and a shell does not: the end of an assignment before the command on the
        next line, and braces around a variable in the middle of a word, as in `$A/$B.c`."""
        missing: list[tuple[int, bytes]] = []
        nodes = [root]
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
                missing.append((given[-1].end_byte, b";"))
            if node.type != "$" or node.parent is None or node.parent.type == "simple_expansion":
                continue
            if name := re.match(rb"[A-Za-z_]\w*|[\d@*#?]", self.source[node.end_byte : node.end_byte + 1000]):
                missing += [(node.end_byte, b"{"), (node.end_byte + name.end(), b"}")]
        return sorted(missing)

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
        """Follow one statement."""
        self._steps[0] += 1
        if self._steps[0] > STEPS:
            raise ScriptError("Its functions call one another without end.")
        if self.scope.ended or self.scope.leaving:
            return
        match node.type:
            case "variable_assignment":
                if self.text(node).startswith("-"):  # a flag on a line of its own, as --temp=0
                    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
                    words = [self.text(name) if name else "", self.word(value) if value else ""]
                    self._start(["=".join(words)], node)
                else:
                    self.assign(node)
            case "declaration_command":
                self.declare(node.children)
            case "unset_command":
                for child in node.children[1:]:
                    variable, element, _ = self.word(child).partition("[")
                    if element:
                        self.forget([variable])
                    else:
                        self.scope.unset(variable)
            case "command":
                self._command(node, [])
            case "redirected_statement":
                self._redirected(node)
            case "function_definition":
                body = node.child_by_field_name("body")
                name = node.child_by_field_name("name")
                if name is not None and body is not None:
                    self.scope.functions[self.text(name)] = self.source, body
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
                self.run_apart(*node.children)
            case "pipeline":
                for child in node.children:
                    self.run_apart(child)
            case "compound_statement" if node.children[0].type == "((":
                self.forget(changed(self.text(node)))
            case (
                "program"
                | "compound_statement"
                | "do_group"
                | "else_clause"
                | "variable_assignments"
                | "negated_command"
            ):
                self.run_all(node.children)

    def _command(self, node: Node, more: list[str]) -> None:
        named = node.child_by_field_name("name")
        assignments = [child for child in node.children if child.type == "variable_assignment"]
        variables = {}
        for each in assignments:
            name, value = each.child_by_field_name("name"), each.child_by_field_name("value")
            if name is not None:
                variables[self.text(name)] = self.value(value) if value is not None else ""
        nodes = [] if named is None else [*named.children]
        for child in node.children:
            if (
                child.is_named
                and child.type not in ("command_name", "variable_assignment", "comment")
                and "redirect" not in child.type
            ):
                nodes.append(child)
        words = [*self.words(nodes), *more]
        if not words:
            return
        # Variables before a command that this shell itself follows are there as long as it runs.
        here = words[0] in ("eval", "source", ".") or words[0] in {**self.scope.functions, **self.scope.aliases}
        hidden = self.scope.hide(variables) if here else {}
        match words:
            case ["export" | "declare" | "readonly" | "local" | "typeset", *_]:
                self.declare(nodes)
            case ["cd" | "pushd" | "popd" as how, *given]:
                self.scope.go(how, given)
            case ["break" | "continue" as how, *given]:
                self.scope.leaving = how
                self.scope.loops = int(given[0]) if given and given[0].isdecimal() else 1
            case ["exit" | "return" as how, *_]:
                self.scope.ended = how
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
                self.scope.aliases |= {
                    name_: text for name_, equals, text in (w.partition("=") for w in given) if equals
                }
            case [name_, *given] if name_ in self.scope.aliases and name_ not in self._called:
                self._called.add(name_)  # also while it is written out: its own name there is the program
                self._found += self._nested(f"{self.scope.aliases[name_]} {shlex.join(given)}", self.scope)
                self._called.discard(name_)
            case ["source" | ".", path, *_] if (inner := self._sourced(path)) is not None:
                self._source(path, inner)
            case ["eval", *given]:
                self._found += self._nested(" ".join(given), self.scope)
            case ["let", *given]:
                self.forget(changed(" ".join(given)))
            case ["read" | "mapfile" | "readarray" | "getopts", *given]:
                self.forget(word for word in given if word.isidentifier())
            case ["printf", "-v", name_, *_]:
                self.forget([name_])
            case [name_, *given] if name_ in self.scope.functions:
                # Those of the script are none.
                self._call(name_, [each for each in given if each != unknown("$@")])
            case _:
                self._start(words, node, variables)
        self.scope.restore(hidden)

    def _start(self, words: list[str], node: Node, variables: dict[str, str] | None = None) -> None:
        if words[0].startswith("-") and self._flags_may_follow:
            self._found[-1].arguments += words  # a line that begins with a flag, without a backslash before it
            self._found[-1].tail = self._found[-1].tail or self._tail(node)
            return
        found = [] if words[0].startswith("-") and self._found else starts(
            words, variables={**self.scope.environment(), **(variables or {})}, directory=self.scope.directory,
            nested=lambda text: self._nested(text, self.scope.child(variables or {})),
        )  # fmt: skip
        if words[0] == "exec" and len(words) > 1 and words[1][0] != "{":  # in place of the script
            self.scope.ended = "exit"
        self._flags_may_follow = bool(found)
        for each in found:
            each.tail = each.tail or self._tail(node)
        self._found += found
        piped = node.parent is not None and node.parent.type == "pipeline" and node.prev_sibling is not None
        if not found and not piped and base_name(words[0]) not in _INERT:
            self._others[self.text(node).split("\n")[0].strip()] = None

    def _nested(self, text: str, scope: Scope) -> list[Started]:
        """What a text starts that is taken as a script in that scope, which may be this script's own."""
        inner = _Reader(text, scope, self)
        if inner._broken() is not None:
            raise ScriptError(f"{shown(text)[:60]!r} is no whole script: its quotes or brackets are not closed.")
        return self._followed(inner)

    def _followed(self, inner: _Reader) -> list[Started]:
        here = inner.scope is self.scope
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
        return " ".join(f"{redirects} {decoded(self.source[end:last])}{waits}".split())

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

    def _sourced(self, path: str) -> _Reader | None:
        """The reader of a script that is read into this one; None if there is none, or it is no whole script."""
        if EDGE in path or self.scope.directory is None or not (file := Path(self.scope.directory, path)).is_file():
            return None
        try:
            text = read_text(file, path, LONGEST, "no script that is read into another is")
        except SpectuiError:
            return None
        inner = _Reader(text, self.scope, self)
        return inner if inner._broken() is None else None

    def _source(self, path: str, inner: _Reader) -> None:
        before, self.scope.sourced = self.scope.sourced, Path(self.scope.directory or "", path).absolute()
        self._found += self._followed(inner)
        self.scope.sourced = before
        self._returned()

    def _run_function(self, name: str) -> None:
        outer = self.source
        self.source, body = self.scope.functions[name]
        self.run(body)
        self.source = outer

    def _call(self, name: str, arguments: list[str]) -> None:
        self._called.add(name)
        outer, self.scope.arguments = self.scope.arguments, arguments
        hidden, self.scope.local = self.scope.local, {}
        self._run_function(name)
        self.scope.restore(self.scope.local)
        self.scope.arguments, self.scope.local = outer, hidden
        self._returned()

    def _returned(self) -> None:
        if self.scope.ended == "return":
            self.scope.ended = ""
