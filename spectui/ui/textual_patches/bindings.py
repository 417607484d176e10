"""The key bindings of any widget, with a person's key map applied.

Textual's `active_bindings` has only those of the focused widget and its ancestors.
"""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.binding import BindingsMap
from textual.dom import DOMNode


def bindings_of(node: DOMNode) -> BindingsMap:
    """The bindings that a node declares, with their default keys. A copy."""
    return node._bindings.copy()


def mapped_bindings_of(node: DOMNode, app: App[Any]) -> BindingsMap:
    """The bindings that a node declares, with the keys of the app's key map."""
    bindings = bindings_of(node)
    bindings.apply_keymap(app._keymap)
    return bindings
