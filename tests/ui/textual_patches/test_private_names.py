"""Private names of Textual: used only in `textual_patches`, listed there, and each still exists."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import spectui.ui

ROOM = Path(spectui.ui.__file__).parent
PRIVATE = re.compile(r"_[A-Za-z]\w*")
NAMEDTUPLE = {"_asdict", "_fields", "_make", "_replace"}

PRIVATE_NAMES: dict[str, tuple[str, ...]] = {
    "textual._ansi_sequences.ANSI_SEQUENCES_KEYS": (),
    "textual._compositor.Compositor": ("_dirty_regions",),
    "textual._compositor.CompositorUpdate": (),
    "textual._xterm_parser.BRACKETED_PASTE_END": (),
    "textual._xterm_parser.BRACKETED_PASTE_START": (),
    "textual._parser.Parser": ("_awaiting", "_gen", "_timeout_time", "_tokens"),
    "textual._xterm_parser.XTermParser": ("_sequence_to_key_events",),
    "textual.timer.Timer": ("_skip",),
    "textual.app.App": (
        "_clipboard",
        "_display",
        "_driver",
        "_exit",
        "_handle_exception",
    ),
    "textual.content._strip_control_codes": (),
    "textual.document._history.EditHistory": ("_undo_stack",),
    "textual.driver.Driver": ("_app", "_auto_restart", "_debug", "_loop"),
    "textual.drivers._writer_thread.MAX_QUEUED_WRITES": (),
    "textual.drivers._writer_thread.WriterThread": ("_queue",),
    "textual.drivers.linux_driver.LinuxDriver": (
        "_disable_line_wrap",
        "_enable_bracketed_paste",
        "_enable_in_band_window_resize",
        "_enable_mouse_pixels",
        "_enable_mouse_support",
        "_file",
        "_in_band_window_resize",
        "_key_thread",
        "_mouse_pixels",
        "_must_signal_resume",
        "_sigcont_application",
        "_sigtstp_application",
        "_writer_thread",
    ),
    "textual.message_pump.MessagePump": ("_closing", "_is_mounted"),
    "textual.screen.Screen": ("_compositor", "_dirty_widgets", "_on_timer_update"),
    "textual.widget.Widget": ("_scroll_update", "_set_dirty"),
}
"""Textual's classes and functions, each with its private names in use."""


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@cache
def names_made_in(kind: type) -> frozenset[str]:
    """Private names that a class defines, or assigns to `self`."""
    source = inspect.getsource(kind)
    assigned = re.findall(r"\bself\.(_[A-Za-z]\w*)\s*(?::[^=\n]+)?=[^=]", source)
    return frozenset(assigned) | {name for name in vars(kind) if PRIVATE.fullmatch(name)}


def own_names() -> set[str]:
    """Private names that the room itself defines or assigns."""
    names = set()
    for file in ROOM.rglob("*.py"):
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.attr if isinstance(node, ast.Attribute) else node.id)
    return names


def imported_from_private_modules(file: Path) -> Iterator[str]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom) and re.match(r"textual\b.*\._", node.module or ""):
            yield from (f"{node.module}.{each.name}" for each in node.names)


@pytest.mark.parametrize("path", PRIVATE_NAMES)
def test_every_private_name_in_use_exists(path: str) -> None:
    module, _, name = path.rpartition(".")
    owner = importlib.import_module(module)
    found = getattr(owner, name)
    missing = set(PRIVATE_NAMES[path]) - names_made_in(found) if PRIVATE_NAMES[path] else set()
    assert missing == set(), f"Textual's {name} has no longer {missing}: look at what spectui does with it"


def test_only_the_patches_use_private_names_and_each_is_listed() -> None:
    own = own_names()
    listed = {name for names in PRIVATE_NAMES.values() for name in names}
    for file in sorted(ROOM.rglob("*.py")):
        is_patch = file.parent.name == "textual_patches"
        imports = set(imported_from_private_modules(file))
        assert imports <= (set(PRIVATE_NAMES) if is_patch else set()), file
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr) and node.attr not in NAMEDTUPLE:
                foreign = node.attr not in own
                assert not foreign or (is_patch and node.attr in listed), f"{file}:{node.lineno} uses {node.attr}"
