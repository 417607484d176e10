"""The end of the window: its exit code is the one that it was closed with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from spectui.store.journal import Journal
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.widgets.loading import LoadingLine
from tests.ui.pilot_helpers import Make, wait_until


async def test_it_may_close_before_it_has_widgets(make_app: Make) -> None:
    app = make_app()
    await app.run_async(headless=True, auto_pilot=_close)
    assert app.return_code == 129


async def test_its_first_refresh_may_come_while_it_closes(
    make_app: Make, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the terminal can close between the two."""
    after_refresh: list[Callable[[], object]] = []
    monkeypatch.setattr(ChatScreen, "call_after_refresh", lambda screen, callback: after_refresh.append(callback))

    def refresh(line: LoadingLine) -> None:
        while after_refresh:
            after_refresh.pop()()

    monkeypatch.setattr(LoadingLine, "on_unmount", refresh, raising=False)
    app = make_app(journal=Journal(file))

    async def close(pilot: Pilot[object]) -> None:
        await wait_until(pilot, lambda: after_refresh)
        pilot.app.exit(None, 129)

    await app.run_async(headless=True, auto_pilot=close)
    assert not after_refresh
    assert app.return_code == 129


async def _close(pilot: Pilot[object]) -> None:
    pilot.app.exit(None, 129)
