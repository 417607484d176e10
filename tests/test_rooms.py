"""The rooms keep to themselves (the contracts in pyproject.toml say the rest; `make test` runs lint-imports)."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("room", "unwanted"),
    [
        ("spectui.speculation.decoder", ["llama_cpp", "textual", "spectui.llama"]),
        ("spectui.engine.worker", ["llama_cpp", "textual"]),
        ("spectui.engine.events", ["llama_cpp", "textual"]),
        ("spectui.store.journal", ["llama_cpp", "textual"]),
        ("spectui.cli", ["llama_cpp", "textual", "numpy"]),
    ],
)
def test_importing_a_room_loads_no_heavy_one(room, unwanted):
    program = f"import sys, {room}; print([name for name in {unwanted!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
