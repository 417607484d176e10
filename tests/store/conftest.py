"""The file of a test's conversations, and a writer that is quick where the disk fails."""

from pathlib import Path

import pytest

from spectui.store import writer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations.db"


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.02)
