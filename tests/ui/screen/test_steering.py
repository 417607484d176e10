"""Every knob in the chat: typed, reset, kept under a name and taken from there, and a key for everything."""

from pathlib import Path

import pytest
from textual.widgets import Input

from spectui.knobs import Knobs
from spectui.profiles.file import ProfileFile
from spectui.ui.dashboard.panel import NO_PROFILE
from spectui.ui.dashboard.rounds import RoundsPage
from spectui.ui.screen import controls
from spectui.ui.widgets.rows import ActionLine, ChoiceRow
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Make, Window, ask, load, notified, paste, wait_until
from tests.ui.screen_text import one_line, screen_text


async def test_a_knob_turned_in_the_middle_of_a_reply_acts_on_the_next_round_and_the_strip_shows_where(
    window: Window, engine: FakeEngine
) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "go")
        await pilot.press("alt+2")
        for number, key in enumerate(("f3", "f9", "f3")):  # of which F9 turns a knob
            await pilot.press(key)
            engine.emit_round(" a", bonus=" b")
            await wait_until(pilot, lambda: not engine.events)
            app.screen.show_figures()
            await wait_until(pilot, lambda number=number: f"round {number}" in screen_text(app))
        assert screen_text(app).count("▲") == 1, "where it was turned, and nowhere else"
        app.screen.query_one(RoundsPage).focus()
        await pilot.press("left")
        await wait_until(pilot, lambda: "▲ turned    policy auto → fixed" in screen_text(app))


async def test_a_number_can_be_typed(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await pilot.press("alt+5")
        app.screen.query_one("#slider-seed").focus()
        await pilot.press(*"4294967290")
        assert "4294967290_" in screen_text(app)
        assert engine.knobs.seed == -1, "not before Enter"
        await pilot.press("backspace", "5", "enter")
        await wait_until(pilot, lambda: engine.knobs.seed == 4294967295)
        assert "4294967295" in screen_text(app)
        app.screen.query_one("#slider-p-min").focus()
        await pilot.press(*".35", "tab")
        assert engine.knobs.p_min == 0.75, "a number without Enter is forgotten"
        await pilot.press("shift+tab", *".35", "enter")
        await wait_until(pilot, lambda: engine.knobs.p_min == 0.35)
        await pilot.press("1", ".", ".", "enter")
        assert engine.knobs.p_min == 0.35


async def test_the_context_is_turned_like_a_knob_and_loads_at_enter(make_app: Make, engine: FakeEngine) -> None:
    """Before that, what it would take is said, and Esc leaves it."""
    app = make_app(plan=lambda setup, loaded: f"{setup.ctx_size} cells fit.")
    async with app.run_test(size=(120, 40)) as pilot:
        await load(pilot, engine)
        await pilot.press("alt+5")
        app.screen.panel.context.focus()
        await wait_until(pilot, lambda: "context in tokens" in one_line(app) and "Enter loads" in one_line(app))
        await pilot.press("right", "escape")
        await wait_until(pilot, lambda: app.screen.panel.context.value == 4096 and app.screen.picked is None)
        app.screen.panel.context.focus()
        await pilot.press(*"9000", "enter")
        await wait_until(pilot, lambda: "9000 cells fit." in one_line(app))
        assert len(engine.loads) == 1, "not before the second Enter"
        await pilot.press("enter")
        await wait_until(pilot, lambda: [setup.ctx_size for setup in engine.loads] == [4096, 9000])


async def test_delete_on_a_slider_goes_back_to_what_the_models_file_recommends(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        engine.load(app.screen.session.setup)
        engine.finish_loading(sampling={"temperature": 0.3})
        await wait_until(pilot, lambda: engine.knobs.temperature == 0.3)
        await pilot.press("alt+5")
        app.screen.query_one("#slider-temperature").focus()
        await pilot.press("right")
        await wait_until(pilot, lambda: engine.knobs.temperature == 0.35)
        await pilot.press("delete")
        await wait_until(pilot, lambda: engine.knobs.temperature != 0.35)
        assert engine.knobs.temperature == 0.3


async def test_knobs_are_saved_under_a_name_taken_from_there_and_reset(
    window: Window, engine: FakeEngine, tmp_path: Path
) -> None:
    async with window(profiles=ProfileFile(tmp_path / "config.toml"), size=(120, 40)) as (app, pilot):
        controls.turn(app.screen, "draft_max", 5)
        controls.turn(app.screen, "temperature", 0.1)
        saved = engine.knobs
        await pilot.press("alt+5", "alt+s")
        await wait_until(pilot, lambda: app.screen.query(Input))
        await paste(pilot, "my quick")
        await pilot.press("enter")
        await wait_until(pilot, lambda: ProfileFile(tmp_path / "config.toml").names() == ["my quick"])
        assert "Saved: spectui chat -P 'my quick' starts with it." in notified(app)
        profile = app.screen.query_one("#profile", ChoiceRow)
        assert profile.value == "my quick"
        await pilot.press("alt+0")
        await wait_until(pilot, lambda: engine.knobs == Knobs())
        assert profile.value == "–", "the knobs are not the profile's any more"
        await pilot.press("alt+p")
        await wait_until(pilot, lambda: engine.knobs == saved)
        await pilot.press("alt+0")
        profile.focus()
        await pilot.press("right")
        await wait_until(pilot, lambda: engine.knobs == saved)


@pytest.mark.parametrize("size", [(120, 40), (20, 5)])
async def test_a_name_is_seen_and_taken_or_thought_better_of_by_mouse(
    window: Window, tmp_path: Path, size: tuple[int, int]
) -> None:
    profiles = ProfileFile(tmp_path / "config.toml")
    async with window(profiles=profiles, size=size) as (app, pilot):
        for word, kept in (("cancel", []), ("save", ["quick"])):
            await pilot.press("alt+s")
            await wait_until(pilot, lambda: app.screen.query(Input))
            await paste(pilot, "quick")
            await wait_until(pilot, lambda: "quick" in screen_text(app))
            line = app.screen.query_one(ActionLine)
            await pilot.click(line, offset=(str(line.render()).index(word) + 1, 0))
            await wait_until(pilot, lambda: len(app.screen_stack) == 1)
            assert profiles.names() == kept


async def test_a_configuration_that_is_changed_meanwhile(window: Window, engine: FakeEngine, tmp_path: Path) -> None:
    """Broken, with a profile that cannot be, and with another one in place of the one in use."""
    path = tmp_path / "config.toml"
    path.write_text("[profiles\n")
    async with window(profiles=ProfileFile(path), size=(120, 40)) as (app, pilot):
        profile = app.screen.query_one("#profile", ChoiceRow)
        await pilot.press("alt+5", "alt+p", "alt+s", "escape")
        await wait_until(pilot, lambda: any("not valid TOML" in each for each in notified(app)))
        assert engine.knobs == Knobs()

        app.clear_notifications()
        path.write_text("[profiles.bad]\ndraft-min = 30\ndraft-max = 3\n")
        await pilot.press("alt+1", "alt+5")
        profile.focus()
        await pilot.press("right")
        await wait_until(pilot, lambda: len(notified(app)) == 1)
        assert (profile.value, engine.knobs) == (NO_PROFILE, Knobs()), "it is not shown as if it were loaded"
        await pilot.press("alt+p")
        await wait_until(pilot, lambda: len(notified(app)) == 2)
        assert all("draft-min 30 is above" in each for each in notified(app)), "nothing of a profile that holds"

        path.write_text("[profiles.code]\ndraft-max = 5\n")
        await pilot.press("alt+p")
        await wait_until(pilot, lambda: profile.value == "code")
        path.write_text("[profiles.python]\ndraft-max = 7\n")
        await pilot.press("alt+5")
        await wait_until(pilot, lambda: profile.value == NO_PROFILE)
        assert engine.knobs == Knobs(draft_max=5), "the knobs stay as they are"
        profile.focus()
        await pilot.press("right")
        await wait_until(pilot, lambda: profile.value == "python" and engine.knobs == Knobs(draft_max=7))


@pytest.mark.parametrize("usual", [True, None])
async def test_a_key_switches_thinking_where_the_template_can(window: Window, engine: FakeEngine, usual: bool | None) -> None:
    engine.thinks = usual
    async with window(size=(80, 24)) as (app, pilot):
        await pilot.press("alt+h")
        assert engine.knobs.chat_template_kwargs == ('{"enable_thinking": false}' if usual else "")
        await pilot.press("alt+h")
        assert engine.knobs == Knobs()
        told = [sentence.split()[1] for sentence in notified(app)]
        assert told == ["off", "on"] if usual else "no switch for thinking" in notified(app)[0]
