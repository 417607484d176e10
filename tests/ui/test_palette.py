"""The command palette: left once, opened over what was opened in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spectui.knobs import Knobs
from spectui.profiles.file import ProfileFile
from spectui.ui.app import SpectuiApp
from spectui.ui.dialogs.help import HelpScreen
from spectui.ui.textual_patches.screen import Palette
from tests.ui.pilot_helpers import paste, wait_until
from tests.ui.screen_text import screen_text


async def test_enter_twice_closes_it_once(make_app: Callable[..., SpectuiApp]) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.press("ctrl+p")
        await wait_until(pilot, lambda: isinstance(app.screen, Palette))
        palette = app.screen
        palette.dismiss()
        palette.dismiss()
        await wait_until(pilot, lambda: not isinstance(app.screen, Palette))
        await pilot.press("a")
        assert app.is_running


async def test_it_opens_over_the_keys_that_were_asked_for_in_it(make_app: Callable[..., SpectuiApp]) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        for key, screen in (("ctrl+p", Palette), ("f1", HelpScreen), ("ctrl+p", Palette)):
            await pilot.press(key)
            await wait_until(pilot, lambda screen=screen: isinstance(app.screen, screen))
        for _ in range(3):
            depth = len(app.screen_stack)
            await pilot.press("escape")
            await wait_until(pilot, lambda depth=depth: len(app.screen_stack) < depth)
        assert app.is_running and len(app.screen_stack) == 1


async def test_a_profiles_name_is_no_markup(make_app: Callable[..., SpectuiApp], tmp_path: Path) -> None:
    profiles = ProfileFile(tmp_path / "config.toml")
    names = ["[/x]", "code [$accent]", "[V2]"]
    for name in names:
        profiles.save(name, Knobs())
    app = make_app(profiles=profiles)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("ctrl+p")
        await paste(pilot, "profile:")
        await wait_until(pilot, lambda: screen_text(app).count("Profile: ") == len(names))
        assert [name for name in names if f"Profile: {name}" not in screen_text(app)] == []
