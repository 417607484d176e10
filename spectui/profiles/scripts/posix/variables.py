"""What a shell's script sets: assignments, arrays, `declare` and its like."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spectui.profiles.scripts.posix.scope import first
from spectui.profiles.scripts.posix.ways import Ways
from spectui.profiles.scripts.started import EDGE, unknown

if TYPE_CHECKING:
    from tree_sitter import Node


class Variables(Ways):
    """Follows what sets variables."""

    def assign(self, node: Node) -> None:
        name_node, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        name = self.text(name_node) if name_node is not None else ""
        add = any(child.type == "+=" for child in node.children)
        if name_node is not None and name_node.type == "subscript":
            parts = [name_node.children[0], name_node.children[2]]
            text = self.value(value) if value is not None else ""
            self.scope.set_element(self.text(parts[0]), self.word(parts[1]), text, add)
        elif value is not None and value.type == "array":
            self._assign_array(name, [child for child in value.children if child.is_named], add)
        else:
            self.scope.set(name, self.value(value) if value is not None else "", add)

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
            self.scope.forget(name)
        for index, text in placed.items():
            self.scope.set_element(name, index, text)
        return None

    def declare(self, node: Node) -> None:
        words = [self.text(child) for child in node.children]
        exported = words[0] == "export" or "-x" in words
        for child in node.children[1:]:
            if words[0] in ("local", "declare", "typeset") and "-g" not in words:
                self.scope.own(self.text(child.child_by_field_name("name") or child))
            if child.type == "variable_assignment":
                self.assign(child)
                name = child.child_by_field_name("name")
                if exported and name is not None:
                    self.scope.exported.add(self.text(name))
                changes = any(re.match(r"-\w*[inlu]", word) for word in words)  # -i computes, -n is another name
                value = "" if name is None else first(self.scope.lookup(self.text(name)) or "")
                if changes and name is not None and not value.isdecimal():
                    self.forget([self.text(name), *([value] if value.isidentifier() else [])])
            elif child.type == "variable_name" and exported:
                self.scope.exported.add(self.text(child))
