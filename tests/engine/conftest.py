"""Sessions are closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spectui.engine.session import Session


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test opens in its own thread, at its end."""
    opened: list[Session] = []
    begin = Session.__init__

    def noted(self: Session, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        if threading.current_thread() is threading.main_thread():
            opened.append(self)

    monkeypatch.setattr(Session, "__init__", noted)
    yield
    for session in opened:
        session.close()
