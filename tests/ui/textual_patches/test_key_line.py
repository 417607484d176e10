"""The last line of the window: whole keys, the important ones first, and the lines of the inspector above it."""

from __future__ import annotations

import pytest
from textual.widgets._footer import FooterKey

from spectui.ui.app import SpectuiApp
from spectui.ui.dashboard.devices import DevicePane
from spectui.ui.dashboard.panel import SidePanel
from spectui.ui.transcript.inspector import Inspector
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.ui.pilot_helpers import Window, answer, ask, wait_until, write_reply
from tests.ui.screen_text import screen_text


def keys(app: SpectuiApp) -> list[str]:
    """What the keys of the line say, after none was found to be cut or covered."""
    line = screen_text(app).splitlines()[-1]
    shown = sorted(app.screen.query(FooterKey), key=lambda key: key.region.x)
    for key, following in zip(shown, [*shown[1:], None], strict=True):
        assert key.region.right <= (following.region.x if following else app.size.width)
        assert f"{key.key_display} {key.description}" in line[key.region.x : key.region.right]
    return [key.description for key in shown]


def drawn(app: SpectuiApp) -> list[str]:
    """The same, or nothing while the line is drawn for another width."""
    try:
        return keys(app)
    except AssertionError:
        return []


@pytest.mark.parametrize("width", [80, 100, 120, 200])
async def test_no_key_is_cut_at_any_width_and_the_important_ones_come_first(
    window: Window, engine: FakeEngine, width: int
) -> None:
    async with window(size=(width, 40)) as (app, pilot):
        await ask(pilot, "go")
        write_reply(engine)
        await wait_until(pilot, lambda: not engine.events and "Palette" in screen_text(app))
        assert keys(app)[:5] == ["Send", "Models", "New", "Chats", "Stop"], "what a chat needs"
        assert keys(app)[-1] == "Palette"
        await pilot.press("f4")
        await wait_until(pilot, lambda: drawn(app)[:1] == ["Models"])
        assert ("Inspect" in keys(app)) == (width >= 120)
        assert ("Devices" in keys(app)) == (width == 200)


async def test_the_keys_follow_the_width(window: Window) -> None:
    async with window(size=(200, 40)) as (app, pilot):
        await wait_until(pilot, lambda: "Devices" in drawn(app))
        await pilot.resize_terminal(60, 24)
        await wait_until(pilot, lambda: drawn(app) and "Devices" not in drawn(app))
        assert keys(app)[-1] == "Palette"
        await pilot.resize_terminal(20, 5)
        await wait_until(pilot, lambda: drawn(app) == ["Send", "Models"])
        await pilot.resize_terminal(200, 40)
        await wait_until(pilot, lambda: "Devices" in drawn(app))


async def test_the_keys_stay_where_they_are_while_a_reply_comes(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await wait_until(pilot, lambda: "Palette" in screen_text(app) and keys(app))
        before = list(app.screen.query(FooterKey))
        await ask(pilot, "go")
        await answer(pilot, engine)
        await wait_until(pilot, lambda: app.screen.session.state == "ready")
        await pilot.pause()
        assert list(app.screen.query(FooterKey)) == before


async def test_in_a_narrow_window_the_inspector_is_read_whole_beside_an_open_panel(
    window: Window, engine: FakeEngine
) -> None:
    async with window(size=(80, 24)) as (app, pilot):
        await ask(pilot, "go")
        write_reply(engine)
        await wait_until(pilot, lambda: not engine.events)
        await pilot.press("alt+2", "f4", "left", "left")
        await wait_until(pilot, lambda: "likeliest" in screen_text(app))
        rows = [" ".join(row.split()) for row in screen_text(app).splitlines()]
        inspector = app.screen.query_one(Inspector)
        for line in inspector.build_lines():
            assert " ".join("".join(text for text, _ in line).split()) in rows
        assert app.screen.query_one(SidePanel).region.bottom == inspector.region.y
        assert rows[-2].startswith("Ask something")
        await pilot.press("f4")
        await wait_until(pilot, lambda: not inspector.display)
        assert app.screen.query_one(SidePanel).region.bottom == 23


@pytest.mark.parametrize("width", [120, 200])
async def test_the_devices_are_read_whole_and_clicked_where_they_stand(
    window: Window, engine: FakeEngine, width: int
) -> None:
    engine.devices = (CPU, GPU)
    async with window(size=(width, 40)) as (app, pilot):
        await pilot.press("f7")
        await wait_until(pilot, lambda: "○" in screen_text(app))
        pane = app.screen.query_one(DevicePane)
        heading, host, _ = (
            row[pane.region.x : pane.region.right] for row in screen_text(app).splitlines()[pane.region.y :][:3]
        )
        assert heading.endswith("use") and heading.split() == ["device", "target", "draft", "memory", "GB", "use"]
        assert host.endswith("–") and "3.6/24" in host
        await pilot.click(DevicePane, offset=(host.rindex("○"), 1))
        await pilot.press("alt+d", "enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
        assert (engine.loads[1].device, engine.loads[1].device_draft) == ("", "none")
