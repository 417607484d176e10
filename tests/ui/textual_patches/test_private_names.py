"""Private names of Textual are used only in `textual_patches`."""

import ast
import re
from functools import cache
from pathlib import Path

import spectui.ui

ROOM = Path(spectui.ui.__file__).parent
PRIVATE = re.compile(r"_[A-Za-z]\w*")
NAMEDTUPLE = {"_asdict", "_fields", "_make", "_replace"}


@cache
def nodes(file: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(file.read_text()))]


def own_names() -> set[str]:
    """Private names that the room itself defines or assigns."""
    names = set()
    for node in (node for file in ROOM.rglob("*.py") for node in nodes(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.attr if isinstance(node, ast.Attribute) else node.id)
    return names


def test_only_the_patches_use_private_names() -> None:
    known = own_names() | NAMEDTUPLE
    for file in (file for file in ROOM.rglob("*.py") if file.parent.name != "textual_patches"):
        for node in nodes(file):
            if isinstance(node, ast.ImportFrom):
                assert not re.match(r"textual\b.*\._", node.module or ""), f"{file}:{node.lineno}"
            elif isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
                assert node.attr in known, f"{file}:{node.lineno} uses {node.attr}"
