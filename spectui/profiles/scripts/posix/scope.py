"""What a shell's script has set so far: variables, arrays, functions, its directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.profiles.scripts.started import EDGE, LONGEST, ScriptError, unknown

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass
class Scope:
    """What a script has set so far. A list is an array; an element with a name is a value of its own, `ARRAY[NAME]`.

    `directory`: as in `Started`. `left`: the directory before it. `pushed`: those of `pushd`. `sourced`: the file that is read
    into the script now. `computed`: variables that change what they are set to, as those of `declare -i`. `local`: what a
    function's own variables hide. `functions`: each with the source that it is in. `zsh`: words of variables stay whole, an
    array is all its elements, and the first of them is 1. `ended`: `exit` or `return` was met. `leaving`: `break` or
    `continue`, until `loops` of them have seen it.
    """

    file: Path | None = None
    directory: str | None = ""
    left: str | None = None
    pushed: list[str | None] = field(default_factory=list)
    sourced: Path | None = None
    local: dict[str, str | list[str] | None] = field(default_factory=dict)
    values: dict[str, str | list[str]] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    computed: set[str] = field(default_factory=set)
    functions: dict[str, tuple[bytes, Node]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    ended: str = ""
    leaving: str = ""
    loops: int = 0
    exports_all: bool = False
    zsh: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def copy(self) -> Scope:
        """The same, to be changed apart."""
        values = {name: value if isinstance(value, str) else [*value] for name, value in self.values.items()}
        return replace(
            self,
            values=values,
            local={**self.local},
            exported={*self.exported},
            computed={*self.computed},
            functions={**self.functions},
            aliases={**self.aliases},
            arguments=[*self.arguments],
            pushed=[*self.pushed],
        )

    def child(self, more: Mapping[str, str]) -> Scope:
        """What a shell that this one starts has: the exported variables, and `more` of the command's own."""
        values = {**self.environment(), **more}
        return Scope(directory=self.directory, values={**values}, exported={*values}, environ=self.environ)

    def environment(self) -> dict[str, str]:
        """The exported variables."""
        return {name: first(value) for name, value in self.values.items() if name in self.exported or self.exports_all}

    def lookup(self, name: str) -> str | list[str] | None:
        """A variable's value; None if nothing sets it."""
        if name in ("@", "*"):
            return self.arguments or [unknown(f"${name}")]
        if name == "#":
            return unknown("$#") if any(EDGE in each for each in self.arguments) else str(len(self.arguments))
        if name.isdecimal():
            if name == "0":
                return None if self.file is None else str(self.file)
            return self.arguments[int(name) - 1] if int(name) <= len(self.arguments) else None
        if name in self.values:
            return self.values[name]
        if name == "IFS":
            return " \t\n"
        if name == "BASH_SOURCE" and (file := self.sourced or self.file) is not None:
            return str(file)
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
        if name in self.computed and (add or not first(value).isdecimal()):
            value = unknown(f"${name}")
        if isinstance(value, list) and not add:
            self.unset(name)
        self.values[name] = value

    def set_element(self, name: str, index: str, value: str, add: bool = False) -> None:
        """Set one element of an array, or add to it."""
        old = self.values.get(name, [])
        elements = [old] if isinstance(old, str) else [*old]
        place = int(index) if index.isdecimal() else -1
        if EDGE in index or place > len(elements):
            self.set(name, [*elements, unknown(f"{name}[{index}]")])
        elif place >= 0:
            elements[place : place + 1] = [elements[place] + value if add and place < len(elements) else value]
            self.values[name] = elements
        else:
            self.set(f"{name}[{index}]", value, add)

    def unset(self, name: str) -> None:
        """Unset a variable with its elements."""
        for each in [each for each in self.values if each == name or each.startswith(f"{name}[")]:
            del self.values[each]

    def go(self, command: str, words: Sequence[str]) -> None:
        """Follow `cd`, `pushd` or `popd`."""
        where = next((word for word in words if word == "-" or not word.startswith("-")), "~")
        if command == "popd":
            there = self.pushed.pop() if self.pushed else None
        elif where == "-":
            there = self.left
        elif EDGE in where:
            there = None
        elif self.directory is None:
            there = where if os.path.isabs(where) else None
        else:
            there = os.path.join(self.directory, os.path.expanduser(where))
        if command == "pushd":
            self.pushed.append(self.directory)
        self.left, self.directory = self.directory, there

    def hide(self, more: Mapping[str, str]) -> dict[str, str | list[str] | None]:
        """Set exported variables for a while. Returns what they hide, for `restore`."""
        hidden = {name: self.values.get(name) for name in more}
        self.values |= more
        self.exported |= {*more}
        return hidden

    def restore(self, hidden: Mapping[str, str | list[str] | None]) -> None:
        """Give variables the values that they had; None if they had none."""
        for name, value in hidden.items():
            self.unset(name)
            if value is not None:
                self.set(name, value)

    def own(self, name: str) -> None:
        """Make a variable a function's own."""
        self.local.setdefault(name, self.values.get(name))


def first(value: str | Sequence[str]) -> str:
    """An array without an index is its first element."""
    return value if isinstance(value, str) else value[0] if value else ""
