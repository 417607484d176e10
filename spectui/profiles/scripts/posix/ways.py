"""The statements of a shell that choose: conditions, cases, loops, and what both ways agree on."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from spectui.profiles.scripts.posix.expansion import Words
from spectui.profiles.scripts.posix.values import changed
from spectui.profiles.scripts.started import EDGE, is_program, shown, unknown

if TYPE_CHECKING:
    from tree_sitter import Node


_ASSIGNING = ("variable_assignment", "variable_assignments", "declaration_command")
_SUCCEEDING = ("cd", "pushd", "mkdir", "source", ".", "echo", "printf", "shift", "set")


class Ways(Words):
    """Follows statements where a condition decides which ones run."""

    def run(self, node: Node) -> None:
        """Follow one statement."""
        raise NotImplementedError

    def run_all(self, nodes: Iterable[Node]) -> None:
        """Follow statements one behind the other."""
        for node in nodes:
            if node.next_sibling is not None and node.next_sibling.type == "&":
                self.run_apart(node)
            elif node.is_named and node.type != "comment":
                self.run(node)

    def run_apart(self, *nodes: Node) -> None:
        """Follow statements in a shell of their own: what they set, this one does not see."""
        before = self.scope
        self.scope = before.copy()
        for node in nodes:
            if node.is_named and node.type != "comment":
                self.run(node)
        self.scope = before

    def choose(self, node: Node) -> None:
        """Follow a statement that chooses."""
        match node.type:
            case "if_statement":
                self._if(node)
            case "case_statement":
                self._case(node)
            case "for_statement":
                self._for(node)
            case "list":
                self._list(node)
            case _:
                self._while(node)

    def _list(self, node: Node) -> None:
        left, right = (child for child in (node.children[0], node.children[-1]))
        sign = next((child.type for child in node.children if child.type in ("&&", "||")), "&&")
        holds = self._holds(left)
        if left.type not in ("test_command",):
            self.run(left)
        # What a program is started behind is taken to succeed, as in `cd /m && llama-server`.
        sure = left.type != "test_command" and (self._is_program(right) or self._changes(left))
        if sign == "&&" and (holds is True or (holds is None and sure)):
            self.run(right)
        elif holds is None:
            self._either([lambda: self.run(right)])
        elif (sign == "||") == (holds is False):
            self._either([lambda: self.run(right)], known=True)

    def _is_program(self, node: Node) -> bool:
        """Is it a command that sets nothing here?"""
        while node.type == "redirected_statement":
            node = node.children[0]
        named = node.child_by_field_name("name")
        return node.type == "pipeline" or (
            node.type == "command" and named is not None and self.text(named) not in self.scope.functions
        )

    def _changes(self, node: Node) -> bool:
        """Is it a command that a person expects to succeed, rather than one that is asked something?"""
        if node.type in ("list", "redirected_statement"):
            return self._changes(
                next(child for child in reversed(node.children) if child.is_named and "redirect" not in child.type)
            )
        named = node.child_by_field_name("name")
        return node.type in _ASSIGNING or (named is not None and self.text(named) in _SUCCEEDING)

    def _if(self, node: Node) -> None:
        ways: list[Callable[[], None]] = []
        clauses = [node, *(child for child in node.children if child.type in ("elif_clause", "else_clause"))]
        for clause in clauses:
            then = next((index for index, child in enumerate(clause.children) if child.type in ("then", "else")), 0)
            condition = next((child for child in clause.children[1:then] if child.is_named), None)
            holds = True if clause.type == "else_clause" else self._holds(condition) if condition is not None else None
            if condition is not None and self._starts(condition):
                self.run(condition)
            if holds is False:
                continue
            body = [child for child in clause.children[then + 1 :] if child.type not in ("elif_clause", "else_clause")]
            ways.append(partial(self.run_all, body))
            if holds:
                return self._either(ways, known=True)
        return self._either(ways)

    def _case(self, node: Node) -> None:
        value = node.child_by_field_name("value")
        text = self.word(value) if value is not None else EDGE
        ways: list[Callable[[], None]] = []
        bodies: list[Node] = []
        falls = ""  # how the item before ends
        for item in (child for child in node.children if child.type == "case_item"):
            end = next(index for index, child in enumerate(item.children) if child.type == ")")
            patterns = [self._pattern(child) for child in item.children[:end] if child.is_named]
            if falls != ";&" and EDGE not in text and not any(fnmatch.fnmatchcase(text, each) for each in patterns):
                continue
            bodies = [*(bodies if falls else []), *item.children[end + 1 :]]
            falls = item.children[-1].type if item.children[-1].type in (";&", ";;&") else ""
            if falls:
                continue
            ways.append(partial(self.run_all, bodies))
            if EDGE not in text or "*" in patterns:
                return self._either(ways, known=True)
        if falls:
            ways.append(partial(self.run_all, bodies))
        return self._either(ways, known=bool(ways) and EDGE not in text)

    def _for(self, node: Node) -> None:
        name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        words = self.words(node.children_by_field_name("value"))
        if not any(child.type == "in" for child in node.children):
            words = [*self.scope.arguments]
        if name is None or body is None:
            return None
        if any(EDGE in word for word in words) or node.children[0].type == "select":
            self.forget([self.text(name)])
            return self._either([lambda: self._goes_on(body)])
        for word in words:
            self.scope.set(self.text(name), word)
            if not self._goes_on(body):
                break
        return None

    def _goes_on(self, body: Node) -> bool:
        """Follow a loop's body once. False if that leaves the loop."""
        self.run(body)
        leaving, self.scope.leaving = self.scope.leaving, ""
        self.scope.loops -= 1
        if leaving and self.scope.loops > 0:
            self.scope.leaving, leaving = leaving, "break"
        return leaving != "break"

    def _starts(self, condition: Node) -> bool:
        """Is a condition a command that may start a server, rather than one that looks for it?"""
        words = self.text(condition).lstrip("! ").split()
        if condition.type == "test_command" or not words:
            return False
        return words[0] in self.scope.functions or is_program(words[0])

    def _while(self, node: Node) -> None:
        body, condition = node.child_by_field_name("body"), node.child_by_field_name("condition")
        if condition is not None and condition.type in ("command", "redirected_statement"):
            self.run(condition)
        while body is not None and condition is not None and self.scope.arguments and self._holds(condition):
            given = len(self.scope.arguments)
            if not self._goes_on(body) or len(self.scope.arguments) >= given:
                return  # it ends for another reason than that it has seen all arguments
        until = any(child.type == "until" for child in node.children)
        if body is not None and not (condition is not None and self._holds(condition) is until):
            self.forget(_counted(self.text(node)))
            self._either([lambda: self._goes_on(body)])

    def _either(self, ways: Sequence[Callable[[], object]], known: bool = False) -> None:
        """Follow each way from here; if not `known`, perhaps none. A way that ends the script counts for nothing. A way that
        leaves a loop counts only if it is sure to be taken."""
        before, ends = self.scope, []
        for way in ways:
            self.scope = before.copy()
            way()
            if not self.scope.ended and not (self.scope.leaving and (not known or len(ways) > 1)):
                ends.append(self.scope)
        if not known or not ends:
            ends.append(before)
        self.scope = ends[0]
        for other in ends[1:]:
            self.scope.exported |= other.exported
            self.scope.local = {**other.local, **self.scope.local}
            if other.arguments != self.scope.arguments:
                self.scope.arguments = [unknown("$@")]
            if other.directory != self.scope.directory:
                self.scope.directory = None
            for name in {**self.scope.values, **other.values}:
                self.scope.values[name] = _either_of(name, self.scope.lookup(name), other.lookup(name))

    def _holds(self, node: Node) -> bool | None:
        """Does a condition hold? None where only a run can tell."""
        children = [child for child in node.children if child.is_named]
        if node.type == "negated_command":
            inner = self._holds(children[0])
            return None if inner is None else not inner
        if node.type == "command":
            words = [word for child in node.children for word in self.fields(child)]
            named = node.child_by_field_name("name")
            if named is not None and self.text(named) in ("true", ":"):
                return True
            if words == ["false"]:
                return False
            if words[:1] == ["test"]:
                return self._tested(words[1:])
            return False if words[:1] == ["getopts"] and not self.scope.arguments else None
        if node.type == "list":
            left = self._holds(node.children[0])
            ends = left is None or left == any(child.type == "||" for child in node.children)
            return left if ends else self._holds(node.children[-1])
        if node.type == "variable_assignment":
            return True
        if node.type != "test_command" or len(children) != 1:
            return None
        parts: list[str] = []
        for child in [children[0], *children[0].children]:
            if child.type in ("unary_expression", "binary_expression"):
                continue
            if child.type in ("test_command", "parenthesized_expression"):
                return None
            pattern = parts[1:] and self.text(node).startswith("[[")
            parts.append(self._pattern(child) if pattern else self.word(child) if child.is_named else self.text(child))
        return self._tested(parts, patterns=self.text(node).startswith("[["))

    def _pattern(self, node: Node) -> str:
        """A word as a pattern: what is in quotes stands for itself."""
        return glob.escape(self.word(node)) if node.type.endswith("string") else self.word(node)

    def _tested(self, words: list[str], patterns: bool = False) -> bool | None:
        if words[:1] == ["!"]:
            inner = self._tested(words[1:], patterns)
            return None if inner is None else not inner
        if len(words) == 2 and words[0] in ("-f", "-e", "-d", "-r", "-s", "-x") and EDGE not in words[1]:
            here = self.scope.directory is not None and os.path.exists(os.path.join(self.scope.directory, words[1]))
            return True if here and words[1] else None  # what is not here may be where the script runs
        if len(words) == 3 and not patterns:
            words = [*words[:2], glob.escape(words[2])]
        unset = [found[1] for word in words if (found := re.fullmatch(rf"{EDGE}\$\{{?(\w+)\}}?{EDGE}", word))]
        return None if any(name in self.scope.values for name in unset) else _tested(words)


def _counted(loop: str) -> list[str]:
    """The variables that a loop computes anew each time."""
    computed = re.findall(r"\(\((.*?)\)\)|\blet\s+([^\n;&|]*)", loop, re.DOTALL)
    return re.findall(r"(\w+)=\$(?:\(\(|\[)", loop) + [name for each in computed for name in changed(" ".join(each))]


def _tested(words: list[str]) -> bool | None:
    words = [re.sub(rf"{EDGE}\$\{{?\d\}}?{EDGE}", "", word) for word in words]  # the script has no arguments
    match words:
        case ["-z" | "-n" as sign, value]:
            empty = value == "" or bool(re.fullmatch(rf"{EDGE}\$\{{?\w+\}}?{EDGE}", value))
            return empty == (sign == "-z") if empty or EDGE not in value else None
        case [left, "=" | "==" | "!=" as sign, right] if EDGE not in left + right:
            return fnmatch.fnmatchcase(left, right) == (sign != "!=")
        case [left, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" as sign, right] if (
            left.isdecimal() and right.isdecimal()
        ):
            a, b = int(left), int(right)
            return {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}[sign]
    return None


def _either_of(name: str, one: str | list[str] | None, other: str | list[str] | None) -> str | list[str]:
    """A variable's value where one of two ways was gone: what both agree on, and an unknown rest."""
    if isinstance(one, str) and isinstance(other, str) and is_program(one) and is_program(other):
        return one
    if one == other:
        return one if one is not None else ""
    if isinstance(one, list) or isinstance(other, list):
        longer, shorter = sorted(
            [x if isinstance(x, list) else [x] if x else [] for x in (one, other)], key=len, reverse=True
        )
        if longer[: len(shorter)] == shorter:
            return [*shorter, unknown(shown(" ".join(longer[len(shorter) :])))]
        return [unknown(f"${name}")]
    longer_text, shorter_text = sorted((one or "", other or ""), key=len, reverse=True)
    if shorter_text and longer_text.startswith(shorter_text + " "):
        return shorter_text + " " + unknown(shown(longer_text[len(shorter_text) :]))
    return unknown(f"${name}")
