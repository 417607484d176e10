"""The key map of the configuration."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import KEY_NAME_REPLACEMENTS, Keys

from spectui.ui.keys import NAMES

_WRITTEN = {name.lower(): key for key, name in NAMES.items()}
_MODIFIERS = {"alt", "ctrl", "hyper", "meta", "shift", "super"}
_EARLIER = {
    "preset": "profile", "save-preset": "save-profile", "switch.previous": "choice.previous", "switch.next": "choice.next",
    "switch.default": "choice.default", "system.keep": "system.use", "page.positions": "page.rounds",
    "page.time": "page.details", "page.knobs": "page.settings", "page.ab": "measure-reply",
    "compare": "measure-reply", "measure": "best-settings", "ghosts": "rejected", "go-on": "last-chat", "safe-way": "safe-mode",
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
            messages,  # noqa: F401
            models,  # noqa: F401
            placement,  # noqa: F401
            questions,  # noqa: F401
            system_prompt,  # noqa: F401
        )
        from spectui.ui.measuring import screen  # noqa: F401
        from spectui.ui.screen import replay  # noqa: F401
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
