"""What a shell's script sets: assignments, arrays, `declare` and its like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spectui.profiles.scripts.posix.scope import first
from spectui.profiles.scripts.posix.ways import Ways
from spectui.profiles.scripts.started import EDGE, unknown

if TYPE_CHECKING:
    from tree_sitter import Node


class Variables(Ways):
    """Follows what sets variables."""

    def assign(self, node: Node, text: str | None = None) -> None:
        """Follow an assignment. `text`: its value, where that was read before."""
        name_node, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        name = self.text(name_node) if name_node is not None else ""
        add = any(child.type == "+=" for child in node.children)
        if name_node is not None and name_node.type == "subscript":
            parts = [name_node.children[0], name_node.children[2]]
            text = self._assigned(node) if text is None else text
            self.scope.set_element(self.text(parts[0]), self.word(parts[1]), text, add)
        elif value is not None and value.type == "array":
            self._assign_array(name, [child for child in value.children if child.is_named], add)
        else:
            self.scope.set(name, self._assigned(node) if text is None else text, add)

    def _assigned(self, node: Node) -> str:
        value = node.child_by_field_name("value")
        return self.value(value) if value is not None and value.type != "array" else ""

    def _assign_array(self, name: str, elements: list[Node], add: bool) -> None:
        elements = [each for each in elements if each.type != "comment"]
        if not any(self.text(each).startswith("[") for each in elements):
            return self.scope.set(name, self.words(elements), add)
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
            self.scope.unset(name)
        for index, text in placed.items():
            self.scope.set_element(name, index, text)
        return None

    def declare(self, nodes: Sequence[Node]) -> None:
        """Follow `export`, `local` and their like, of which `nodes` are the words."""
        words = self.words(nodes)
        flags = [word for word in words if word.startswith("-")]
        changes = any(re.match(r"-\w*[inlu]", flag) for flag in flags)  # -i computes, -n is another name
        given = [self._assigned(child) if child.type == "variable_assignment" else None for child in nodes[1:]]
        for child, assigned in zip(nodes[1:], given, strict=True):
            named = child.child_by_field_name("name") if child.type == "variable_assignment" else None
            name, equals, text = self.word(child).partition("=") if named is None else (self.text(named), "", "")
            if name.startswith(("-", EDGE)):
                continue
            if words[0] in ("local", "declare", "typeset") and "-g" not in flags:
                self.scope.own(name)
            if named is not None:
                self.assign(child, assigned)
            elif equals:
                self.scope.set(name, text)
            if words[0] == "export" or "-x" in flags:
                self.scope.exported.add(name)
            value = first(self.scope.lookup(name) or "")
            if changes and (named is not None or equals) and not value.isdecimal():
                self.forget([name, *([value] if value.isidentifier() else [])])
            self.scope.computed |= {name} if changes else set()
