"""The last line of the window has the important keys first, and the lines of the inspector stand above it."""

from __future__ import annotations

import pytest
from textual.widgets._footer import FooterKey

from spectui.ui.dashboard.devices import DevicePane
from spectui.ui.dashboard.panel import SidePanel
from spectui.ui.transcript.inspector import Inspector
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.ui.pilot_helpers import Window, ask, wait_until, write_reply
from tests.ui.screen_text import screen_text


async def test_the_important_keys_come_first(window: Window, engine: FakeEngine) -> None:
    async with window(size=(80, 24)) as (app, pilot):
        await ask(pilot, "go")
        write_reply(engine)

        def first() -> list[str]:
            return [key.description for key in app.screen.query(FooterKey)][:5]

        await wait_until(pilot, lambda: first() == ["Send", "Models", "New", "Chats", "Stop"])
        assert "Send" in screen_text(app).splitlines()[-1]
        await pilot.press("f4")
        await wait_until(pilot, lambda: first()[:1] == ["Models"])


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
