"""No test reads or writes a person's directories, and none of their settings reach a test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DIRECTORIES = tuple(f"SPECTUI_{kind}_DIR" for kind in ("CONFIG", "DATA", "STATE", "CACHE"))


@pytest.fixture(scope="session", autouse=True)
def own_directories(tmp_path_factory: pytest.TempPathFactory) -> None:
    """spectui's directories, in a temporary place, for this process and those it starts."""
    for name in [name for name in os.environ if name.startswith("SPECTUI_")]:
        del os.environ[name]
    root: Path = tmp_path_factory.mktemp("spectui")
    for name in DIRECTORIES:
        os.environ[name] = str(root / name)


@pytest.fixture
def fresh_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories for one test alone, which finds nothing there of what others have said."""
    for name in DIRECTORIES:
        monkeypatch.setenv(name, str(tmp_path / name))
