"""The end of the window: its exit code is the one that it was closed with, and its look is there at the next start."""

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from spectui.store.journal import Journal
from spectui.ui.dashboard.status import LoadingLine
from spectui.ui.remembered import Remembered
from spectui.ui.screen.chat import ChatScreen
from tests.ui.pilot_helpers import Make, Window, wait_until


async def test_it_may_close_before_it_has_widgets(make_app: Make) -> None:
    app = make_app()
    await app.run_async(headless=True, auto_pilot=_close)
    assert app.return_code == 129


async def test_its_first_refresh_may_come_while_it_closes(make_app: Make, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_tokens_panel_page_and_theme_are_as_they_were_left(window: Window, tmp_path: Path) -> None:
    file = tmp_path / "window.json"
    async with window(size=(120, 40), remembered=Remembered(file)) as (app, pilot):
        assert (app.screen.transcript.show_tokens, app.screen.panel.display) == (False, True)
        await pilot.press("f2", "alt+2", "f6")
        app.theme = "spectui-light"
        await wait_until(pilot, lambda: not app.screen.panel.display)
    async with window(size=(120, 40), remembered=Remembered(file)) as (app, pilot):
        assert (app.screen.transcript.show_tokens, app.screen.panel.display) == (True, False)
        assert (app.screen.panel.page, app.theme) == ("rounds", "spectui-light")
        await pilot.press("f2")
    async with window(size=(120, 40), remembered=Remembered(file), theme="spectui-dark") as (app, _):
        assert (app.screen.transcript.show_tokens, app.theme) == (False, "spectui-dark"), "a theme that is asked for"
    assert Remembered(file).get("theme", "") == "spectui-light"


@pytest.mark.parametrize("content", [b"", b"[", b"[1]", b'{"tokens": 3, "page": "moon", "panel": "no"}', b"\xff", b"[" * 9_000])
def test_a_damaged_file_is_as_none(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "window.json"
    file.write_bytes(content)
    remembered = Remembered(file)
    assert (remembered.get("tokens", False), remembered.get("panel", True)) == (False, True)


async def test_a_page_that_is_none_and_a_directory_that_takes_no_file_end_nothing(make_app: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    remembered = Remembered(tmp_path / "file" / "window.json")
    remembered.set(page="moon")
    app = make_app(remembered=remembered)
    async with app.run_test(size=(120, 40)):
        assert app.screen.panel.page == "now"
    assert not app.return_code
