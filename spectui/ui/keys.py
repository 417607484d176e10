"""The key map of the configuration, and the names of keys in sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import KEY_NAME_REPLACEMENTS, Keys
from textual.keys import format_key as sign_of

from spectui.chat.commands import Command
from spectui.ui.textual_patches.bindings import bindings_of, mapped_bindings_of

_NAMES = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn"}
_WRITTEN = {name.lower(): key for key, name in _NAMES.items()}
_MODIFIERS = {"alt", "ctrl", "hyper", "meta", "shift", "super"}
_EARLIER = {
    "preset": "profile", "save-preset": "save-profile", "switch.previous": "choice.previous", "switch.next": "choice.next",
    "switch.default": "choice.default", "system.keep": "system.use",
}  # fmt: skip
"""Earlier names of actions, which a configuration file may still have."""
_KEYS = {each.value.rpartition("+")[2] for each in Keys} | {*KEY_NAME_REPLACEMENTS.values()}


def keymap(lines: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Textual's key map from `[ui.keys]`, and a sentence for each line with an error."""
    if lines:
        # These are imported when they are opened, but their keys can be mapped too.
        from spectui.ui.dialogs import (
            conversations,  # noqa: F401
            help,  # noqa: F401
            markdown_screen,  # noqa: F401
            messages,  # noqa: F401
            models,  # noqa: F401
            placement,  # noqa: F401
            questions,  # noqa: F401
            system_prompt,  # noqa: F401
        )
        from spectui.ui.measuring import screen  # noqa: F401
        from spectui.ui.screen import replay  # noqa: F401
        from spectui.ui.textual_patches import palette  # noqa: F401
    known, read, problems = set(_ids(DOMNode)), {}, []
    for written, keys in lines.items():
        name = _EARLIER.get(written, written)
        pressed = [_pressed(key) for key in keys.split(",")]
        if name not in known:
            problems.append(f"[ui.keys]: there is no action {name!r}. The list of keys shows each one's name.")
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
        modifiers, last = sorted(each.lower() for each in modifiers), last.lower()
    last = _WRITTEN.get(last, last)
    if not {*modifiers} <= _MODIFIERS or not (len(last) == 1 or last in _KEYS or _is_named(last)):
        return ""
    return "+".join([*modifiers, last])


def _is_named(key: str) -> bool:
    try:
        return bool(unicodedata.lookup(key.replace("_", " ")))
    except KeyError:
        return False


def binding(command: Command, action: str = "") -> Binding:
    """The command's keys, which act wherever the focus is, also where the prompt's text area would take them."""
    return Binding(
        command.keys, action or f"run('{command.id}')", command.title, id=command.id, tooltip=command.help,
        show=command.shown, priority=True,
    )  # fmt: skip


def group_of(kind: type[DOMNode], binding: Binding) -> str:
    """Under which title a class's binding stands in the help: that of its group, or else of all keys of the class."""
    for title, bindings in getattr(kind, "BINDING_GROUPS", {}).items():
        if binding.id in [each.id for each in bindings]:
            return str(title)
    return getattr(kind, "BINDING_GROUP_TITLE", None) or ""


def key_of(app: App[Any], identity: str) -> str:
    """The key of the binding of this id, as `format_key`; where a map gave it to another, the name in the palette.

    Raises LookupError where nothing in the window has such a binding.
    """
    for node in (*app.screen_stack, app, *app.screen_stack[0].query("*")):
        binding = next((binding for _, binding in bindings_of(node) if binding.id == identity), None)
        if binding is not None:
            mapped = mapped_bindings_of(node, app)
            keys = [key for key, each in mapped if each.id == identity]
            keys.sort(key=lambda key: mapped.key_to_bindings[key][0].id != identity)  # one that is its own, if any is
            return format_key(keys[0]) if keys else f"“{binding.description}” in the palette"
    raise LookupError(identity)


def with_keys(app: App[Any], sentence: str) -> str:
    """A sentence with each {id} of a binding replaced by its key."""
    return re.sub(r"\{([a-z.-]+)\}", lambda found: key_of(app, found[1]), sentence)


def format_key(key: str) -> str:
    """A key as a person writes it: Ctrl+L, F5, [."""
    *modifiers, last = key.split("+")
    name = _NAMES.get(last) or (last if last.isalnum() and len(last) > 1 else sign_of(last)).capitalize()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), name])
