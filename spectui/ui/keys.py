"""The keys of commands, their names in sentences, and the key map of the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode
from textual.keys import KEY_NAME_REPLACEMENTS, Keys
from textual.keys import format_key as sign_of

from spectui.chat.commands import GROUPS, LAST_LINE, Command

NAMES = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "underscore": "_"}


def binding(command: Command, action: str = "") -> Binding:
    """The command's keys, which act wherever the focus is, also where the prompt's text area would take them."""
    return Binding(
        command.keys, action or f"run('{command.id}')", command.title, id=command.id, tooltip=command.help,
        show=command.id in LAST_LINE, priority=True,
    )  # fmt: skip


def group_of(kind: type[DOMNode], binding: Binding) -> str:
    """Under which title a class's binding stands in the help: that of its command's group, or else of the class."""
    groups = (title for title, commands in GROUPS.items() if binding.id in [command.id for command in commands])
    return next(groups, getattr(kind, "BINDING_GROUP_TITLE", None) or "")


def key_of(app: App[Any], identity: str) -> str:
    """The key of the binding of this id, as `format_key`; where a map gave it to another, the name in the list of commands.

    Raises LookupError where nothing in the window has such a binding.
    """
    nodes = (*app.screen_stack, app, *app.screen_stack[0].walk_children())
    for kind in dict.fromkeys(map(type, nodes)):
        declared = _bindings_of(kind)
        binding = next((binding for _, binding in declared if binding.id == identity), None)
        if binding is not None:
            mapped = declared.copy()
            mapped.apply_keymap(getattr(app, "key_map", {}))
            keys = [key for key, each in mapped if each.id == identity]
            keys.sort(key=lambda key: mapped.key_to_bindings[key][0].id != identity)  # one that is its own, if any is
            return format_key(keys[0]) if keys else f"“{binding.description}” in the list of commands"
    raise LookupError(identity)


@cache
def _bindings_of(kind: type[DOMNode]) -> BindingsMap:
    """The bindings that a class and its bases declare. Textual's `active_bindings` has only those that act now."""
    kinds = reversed(kind.__mro__)
    return BindingsMap(each for kind in kinds for each in kind.__dict__.get("BINDINGS", ()))


def with_keys(app: App[Any], sentence: str) -> str:
    """A sentence with each {id} of a binding replaced by its key. Other braces, such as those of a file's name, stay."""

    def key(part: re.Match[str]) -> str:
        try:
            return key_of(app, part[1])
        except LookupError:
            return part[0]

    return re.sub(r"\{([a-z.-]+)\}", key, sentence)


def format_key(key: str) -> str:
    """A key as a person writes it: Ctrl+L, F5, [."""
    *modifiers, last = key.split("+")
    name = NAMES.get(last) or (last if last.isalnum() and len(last) > 1 else sign_of(last)).capitalize()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), name])


# The key map of the configuration

_IMPORTED_LATE = (
    "dialogs.compare", "dialogs.conversations", "dialogs.lists", "dialogs.models", "dialogs.questions", "screen.replay",
    "screen.serve",
)  # fmt: skip
_WRITTEN = {name.lower(): key for key, name in NAMES.items()}
_MODIFIERS = {"alt", "ctrl", "hyper", "meta", "shift", "super"}
_KEYS = {key.value.rpartition("+")[2] for key in Keys} | {*KEY_NAME_REPLACEMENTS.values()}


def keymap(lines: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Textual's key map from `[ui.keys]`, and a sentence for each line with an error."""
    if lines:  # dialogs are imported when they are opened, but their keys can be mapped too
        for name in _IMPORTED_LATE:
            import_module(f"spectui.ui.{name}")
    known, read, problems = set(_ids(DOMNode)), {}, []
    for name, keys in lines.items():
        pressed = [_pressed(key) for key in keys.split(",")]
        if name not in known:
            problems.append(f"[ui.keys]: there is no action {name!r}. The list of commands shows each one's name.")
        elif "" in pressed:
            problems.append(f"[ui.keys]: {name} cannot be given {keys!r}: write keys such as f5, ctrl+b or alt+pageup.")
        else:
            read[name] = ",".join(pressed)
    return read, problems


def _ids(kind: type[DOMNode]) -> Iterator[str]:
    yield from (each.id for each in kind.__dict__.get("BINDINGS", ()) if isinstance(each, Binding) and each.id)
    for heir in kind.__subclasses__():
        yield from _ids(heir)


def _pressed(key: str) -> str:
    """A key by Textual's name, from that or from how `format_key` has it; "" if it is none."""
    *modifiers, last = key.strip().split("+")
    if modifiers or len(last) > 1:
        modifiers, last = sorted(modifier.lower() for modifier in modifiers), last.lower()
    last = next(iter(BindingsMap([Binding(last, "")]).key_to_bindings)) if len(last) == 1 else _WRITTEN.get(last, last)
    return "+".join([*modifiers, last]) if {*modifiers} <= _MODIFIERS and (last in _KEYS or len(sign_of(last)) == 1) else ""
