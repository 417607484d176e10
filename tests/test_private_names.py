"""Tests read what is public: what they take of private names is counted, and may only become less."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent

MOST = 51
"""Uses at present. Who removes some lowers it; a new test needs a public property instead."""


PUBLIC = ("_asdict", "_exit", "_fields", "_make", "_replace")
"""Names that Python documents, of named tuples and of `os`, in spite of their underscore."""


def private_uses(tree: ast.AST) -> int:
    """Uses of `other._name`, except a test's own `self._name`."""
    return sum(
        isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in PUBLIC
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        for node in ast.walk(tree)
    )


def test_private_names_are_used_less_and_less() -> None:
    assert private_uses(ast.parse("a._b + self._c + d.__e__ + f(a)._g._h + i._replace(j=1)")) == 3
    uses = {path: private_uses(ast.parse(path.read_text(encoding="utf-8"))) for path in TESTS.rglob("*.py")}
    worst = sorted(uses, key=lambda path: uses[path])[-5:]
    assert sum(uses.values()) <= MOST, [f"{path.relative_to(TESTS)}: {uses[path]}" for path in worst]
