"""The rooms keep to themselves (the contracts in pyproject.toml say the rest; `make test` runs lint-imports)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import tomli

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
        ("spectui.cli", ["llama_cpp", "textual", "numpy"]),
    ],
)
def test_importing_a_room_loads_no_heavy_one(room, unwanted):
    program = f"import sys, {room}; print([name for name in {unwanted!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_contracts_name_every_room():
    rooms = {
        f"spectui.{path.stem}" for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    rooms -= {"spectui.__init__", "spectui.__main__"}
    layers, llama, window, textual = tomli.loads((PACKAGE.parent / "pyproject.toml").read_text())["tool"][
        "importlinter"
    ]["contracts"]
    assert set(layers["layers"]) == rooms
    assert set(llama["source_modules"]) == rooms - {"spectui.llama"}
    assert set(textual["source_modules"]) | set(window["source_modules"]) == rooms - {"spectui.ui"}


def test_no_folder_holds_more_than_twelve_files():
    files = Counter(path.parent for folder in (PACKAGE, TESTS) for path in folder.rglob("*.py"))
    for folder in ("speculation", "benchmarks"):  # not divided yet
        del files[TESTS / folder]
    assert {str(folder): number for folder, number in files.items() if number > 12} == {}
