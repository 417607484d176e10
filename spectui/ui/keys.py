"""Which key does what, as a person has mapped them: for sentences that name a key."""

from __future__ import annotations

import re
from typing import Any

from textual.app import App
from textual.keys import format_key

_NAMES = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn"}


def key_of(app: App[Any], identity: str) -> str:
    """The key of the binding of this id, as `written`; where a map gave it to another, the name in the palette.

    Raises LookupError where nothing in the window has such a binding.
    """
    for node in (*app.screen_stack, app, *app.screen_stack[0].query("*")):
        binding = next((binding for _, binding in node._bindings if binding.id == identity), None)
        if binding is not None:
            mapped = node._bindings.copy()
            mapped.apply_keymap(app._keymap)
            keys = [key for key, each in mapped if each.id == identity]
            keys.sort(key=lambda key: mapped.key_to_bindings[key][0].id != identity)  # one that is its own, if any is
            return written(keys[0]) if keys else f"“{binding.description}” in the palette"
    raise LookupError(identity)


def spoken(app: App[Any], sentence: str) -> str:
    """A sentence with the key of each binding that it names as {id}."""
    return re.sub(r"\{([a-z.-]+)\}", lambda found: key_of(app, found[1]), sentence)


def written(key: str) -> str:
    """A key as a person writes it: Ctrl+L, F5, [."""
    *modifiers, last = key.split("+")
    name = _NAMES.get(last) or (last if last.isalnum() and len(last) > 1 else format_key(last)).capitalize()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), name])
