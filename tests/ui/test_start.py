"""The start of the window: what is drawn first, what is done once, and when the garbage collector comes back."""

from __future__ import annotations

import gc

import pytest
from textual.screen import Screen

from spectui.ui.app import SpectuiApp
from spectui.ui.panel import SidePanel
from tests.ui.driving import Make, wait_until
from tests.ui.seeing import screen_text


async def test_a_narrow_window_does_not_begin_with_the_panel(make_app: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def note(app: SpectuiApp, screen: Screen[object], _: object) -> None:
        drawn.append([panel.region.width for panel in screen.query(SidePanel)])

    monkeypatch.setattr(SpectuiApp, "_display", note)
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: app.screen.query(SidePanel) and drawn)
    assert [widths for widths in drawn if widths], "some drawing has a panel"
    assert not [widths for widths in drawn if widths not in ([], [0])]


@pytest.mark.parametrize("size", [(20, 5), (80, 24), (120, 40)])
async def test_the_window_is_styled_once_at_its_start_and_rightly(
    size: tuple[int, int], make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = []
    restyle = Screen.update_node_styles
    monkeypatch.setattr(
        Screen, "update_node_styles", lambda screen, animate=True: again.append(restyle(screen, animate))
    )
    app = make_app()

    def worn() -> dict[object, object]:
        parts = [app.screen, *app.screen.walk_children()]
        return {part: (part.styles.get_rules(), part.visual_style) for part in parts}

    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, lambda: screen_text(app).strip())
        assert not again
        first = worn()
        restyle(app.screen, False)
        assert worn() == first


async def test_the_collector_is_at_work_once_the_window_stands(make_app: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpectuiApp, "is_headless", False)
    gc.disable()  # as `spectui chat` does
    try:
        async with make_app().run_test() as pilot:
            await wait_until(pilot, gc.isenabled)
            assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()
