"""The rooms keep to themselves (the contracts in pyproject.toml say the rest; `make test` runs lint-imports), and the tests to
what is public."""

import ast
import subprocess
import sys
import tokenize
from collections import Counter
from io import StringIO
from pathlib import Path

import grimp
import pytest

import spectui

PACKAGE = Path(spectui.__file__).parent
TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    ("room", "unwanted"),
    [
        ("spectui.speculation.decoder", ["llama_cpp", "textual", "spectui.llama"]),
        ("spectui.engine.worker", ["llama_cpp", "textual"]),
        ("spectui.engine.events", ["llama_cpp", "textual"]),
        ("spectui.store.journal", ["llama_cpp", "textual"]),
        ("spectui.chat.session", ["llama_cpp", "textual", "spectui.ui", "spectui.measure", "spectui.cli"]),
        ("spectui.attach.session", ["llama_cpp", "textual", "httpx2", "spectui.llama.library", "spectui.engine.session"]),
        ("spectui.cli", ["llama_cpp", "textual", "numpy"]),
    ],
)
def test_importing_a_room_loads_no_heavy_one(room, unwanted):
    program = f"import sys, {room}; print([name for name in {unwanted!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def code_lines(file: Path) -> int:
    """Lines of code: without comments, docstrings and empty lines."""
    source = file.read_text()
    strings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [each for each in tokenize.generate_tokens(StringIO(source).readline) if each.type not in layout]
    return len({line for each in tokens for line in range(each.start[0], each.end[0] + 1)} - strings)


def test_what_decides_a_drafts_length_is_short_enough_to_be_read():
    """All policies, and who drafts."""
    assert sum(map(code_lines, (PACKAGE / "speculation" / "policies").glob("*.py"))) <= 430


def test_no_folder_holds_more_than_twelve_files():
    files = Counter(path.parent for folder in (PACKAGE, TESTS) for path in folder.rglob("*.py"))
    del files[TESTS / "benchmarks"]  # a command each: the pages in docs/ name them
    assert {str(folder): number for folder, number in files.items() if number > 12} == {}


def test_modules_import_each_other_in_no_circle():
    """Imports for types and within functions count too: what stands in a circle is read as one."""
    graph = grimp.build_graph("spectui", cache_dir=None)
    reached = {module: graph.find_downstream_modules(module) | {module} for module in graph.modules}
    circles = {frozenset(other for other in reached[module] if module in reached[other]) for module in reached}
    assert {each for each in circles if len(each) > 1} == set()


def test_no_file_is_longer_than_400_lines():
    sources = [path for kind in ("py", "cpp", "h") for path in PACKAGE.rglob(f"*.{kind}")]
    assert {path.name: n for path in sources if (n := len(path.read_text().splitlines())) > 400} == {}


MOST_PRIVATE = 49
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
    assert sum(uses.values()) <= MOST_PRIVATE, [f"{path.relative_to(TESTS)}: {uses[path]}" for path in worst]
