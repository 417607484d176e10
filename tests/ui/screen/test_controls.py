"""Choices in the window, what the policy says, errors that look like errors, and the search for the best settings."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import App

from spectui import config
from spectui.knobs import Knobs, Setup
from spectui.profiles.file import ProfileFile
from spectui.ui.dashboard.machine import DevicePane
from spectui.ui.dashboard.panel import without_effect
from spectui.ui.dialogs.questions import LineScreen, PlacementScreen
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen import controls
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.transcript.transcript import Transcript
from spectui.ui.widgets.rows import ChoiceRow, Slider
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.measure.models import tiny_setup
from tests.ui.dashboard.rounds import seen_of
from tests.ui.pilot_helpers import PAIR, Make, Window, answer, ask, load, notified, paste, wait_until, write_reply
from tests.ui.screen_text import one_line, said, screen_text


async def test_choices_act_at_once_by_hand_and_key(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "go")
        app.screen.query_one("#choice-drafter", ChoiceRow).focus()
        await pilot.press("right", "right", "right")
        await wait_until(pilot, lambda: engine.knobs.drafter == "suffix")
        await pilot.press("f9", "f8")
        await wait_until(pilot, lambda: (engine.knobs.policy, engine.knobs.drafter) == ("fixed", "off"))
        await wait_until(pilot, lambda: "‹ off ›" in screen_text(app))
        assert "‹ fixed ›" not in screen_text(app), "without a drafter no policy acts"


async def test_keys_of_the_choices_can_be_mapped_and_are_answered_where_the_panel_is_hidden(
    window: Window, engine: FakeEngine
) -> None:
    async with window(keymap={"drafter": "f11", "policy": "f12"}, size=(80, 24), notifications=True) as (app, pilot):
        await pilot.press("f11", "f12")
        await wait_until(pilot, lambda: (engine.knobs.drafter, engine.knobs.policy) == ("model", "fixed"))
        await wait_until(pilot, lambda: "drafter: model" in screen_text(app))


async def test_what_has_no_effect_is_dimmed_and_can_still_be_moved(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await pilot.press("alt+5")
        slider, other = (app.screen.query_one(f"#slider-{name}", Slider) for name in ("p-min", "draft-max"))

        def colour(of: Slider) -> object:
            return next(segment.style.color for segment in of.render_line(0) if segment.style and "●" in segment.text)

        assert colour(slider) != colour(other)
        slider.focus()
        await pilot.press("left")
        await wait_until(pilot, lambda: engine.knobs.p_min == 0.7)
        app.screen.query_one(PromptInput).focus()
        await pilot.press("f9")
        await wait_until(pilot, lambda: engine.knobs.policy == "fixed" and not slider.has_class("-idle"))
        await wait_until(pilot, lambda: colour(slider) == colour(other))


@pytest.mark.parametrize(
    ("knobs", "idle"),
    [
        (Knobs(policy="fixed"), set()),
        (Knobs(policy="auto"), {"p_min"}),
        (Knobs(policy="expected"), {"p_min", "draft_min"}),
        (Knobs(policy="fixed", drafter="off"), {"policy", "draft_max", "draft_min", "p_min"}),
    ],
)
def test_which_knobs_have_no_effect(knobs: Knobs, idle: set[str]) -> None:
    assert without_effect(knobs) == idle


async def test_only_lines_that_changed_are_drawn_again(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "go")
        write_reply(engine)
        await pilot.press("alt+3")
        await wait_until(pilot, lambda: "drafted by" in screen_text(app) and "suffix 3" in one_line(app))
        labels = [line[72:84].strip() for line in screen_text(app).splitlines()[4:12]]
        assert len([label for label in labels if label == "acceptance"]) == 1, "nothing is left of another size"
        dashboard = app.screen.query_one("#details")
        drawn: list[int] = []
        draw = dashboard.render_line
        app.screen.show_figures()
        await pilot.pause()  # what was still to be drawn is drawn
        dashboard.render_line = lambda y: drawn.append(y) or draw(y)  # type: ignore[method-assign, func-returns-value]
        app.screen.show_figures()
        await pilot.pause()
        assert drawn == [], "the figures are as before"
        before = [draw(y) for y in range(dashboard.size.height)]
        engine.emit_round(plain=" f")
        await wait_until(pilot, lambda: drawn)
        # Lines between two that changed are asked for, too, and are the same strips as before: nothing is drawn for them.
        anew = [y for y, strip in enumerate(before) if draw(y) is not strip]
        assert 0 < len(anew) < dashboard.size.height * 2 / 3, anew


async def test_errors_are_marked_and_notices_are_not(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        engine.notify("by the way")
        await ask(pilot, "go")
        engine.fail("The prompt has 5000 tokens, the context 4096, and this sentence needs another row.")
        await wait_until(pilot, lambda: " ! The prompt has 5000" in screen_text(app))
        transcript = app.screen.query_one(Transcript)
        drawn = [segment for y in range(transcript.size.height) for segment in transcript.render_line(y)]
        styles = {each.text.strip(): (each.style.color, each.style.italic) for each in drawn if each.style}
        error = next(style for text, style in styles.items() if text.startswith("The prompt has"))
        assert styles["!"] == error
        assert error != styles["by the way"]
        assert "5000" not in said(app), "it is no part of the conversation"


async def test_two_quick_picks_end_in_the_second_without_an_error(window: Window, engine: FakeEngine) -> None:
    engine.devices = (CPU, GPU)
    async with window(size=(120, 40)) as (app, pilot):
        await pilot.press("f7", "right", "enter", "alt+d", "enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
        await pilot.press("left", "enter", "alt+d", "enter")
        await wait_until(pilot, lambda: len(engine.loads) == 3)
        app.screen.query_one(PromptInput).focus()
        await ask(pilot, "go")
        await wait_until(pilot, lambda: not engine.events)
        assert "Loading was stopped" not in screen_text(app)
        assert engine.generates == [], "the models that were asked for last are not there yet"
        engine.finish_loading()
        await wait_until(pilot, lambda: engine.generates)
        assert app.screen.query_one(DevicePane)._setup == engine.loads[2]


async def test_a_loading_that_a_person_stopped_is_no_error(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: engine.loads)
        await pilot.press("escape")
        await wait_until(pilot, lambda: "Loading was stopped" in screen_text(app))
        assert "!" not in screen_text(app)


async def test_picked_devices_show_their_plan_and_are_loaded_with_other_numbers_too(make_app: Make, engine: FakeEngine) -> None:
    """Nothing is loaded before that, and Esc leaves what was picked."""
    second = GPU._replace(name="CUDA1", id="0000:c2:00.0")
    engine.devices = (CPU, GPU, second)
    planned: list[Setup] = []

    def plan(setup: Setup, loaded: object) -> str:
        planned.append(setup)
        return f"CUDA0 {len(planned)}.5 of 22.8 GB. It fits."

    app = make_app(plan=plan)
    async with app.run_test(size=(120, 40)) as pilot:
        await load(pilot, engine)
        pane = app.screen.query_one(DevicePane)

        def told() -> str:
            return seen_of(pane)

        await pilot.press("f7", "down", "down", "enter")  # CUDA1 leaves
        await wait_until(pilot, lambda: "CUDA0 1.5 of 22.8 GB. It fits. Not loaded yet: Alt+D loads it" in told())
        assert planned[0].device == "CUDA0"
        await pilot.press("escape")
        await wait_until(pilot, lambda: "Not loaded yet" not in told())
        await pilot.press("f7", "enter", "alt+d")
        await wait_until(pilot, lambda: isinstance(app.screen, PlacementScreen))
        assert app.screen.line == "-dev CUDA0" and len(engine.loads) == 1
        await pilot.press("home", "ctrl+k", *"-ts 3,1", "enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
        assert (engine.loads[1].device, engine.loads[1].tensor_split) == ("", "3,1")


async def test_models_are_loaded_with_other_flags(window: Window, engine: FakeEngine) -> None:
    """What they would take is said before; a line that cannot be is not taken, and the conversation stays."""
    planned: list[Setup] = []

    def plan(setup: Setup, loaded: object) -> str:
        planned.append(setup)
        return f"CUDA0 {setup.gpu_layers} of 24 GB. It fits."

    async with window(replace(PAIR, gpu_layers=12), plan=plan) as (app, pilot):
        await ask(pilot, "go")
        await answer(pilot, engine)
        await pilot.press("alt+d")
        await wait_until(pilot, lambda: "Flags of the models: -ngl 12." in one_line(app))
        await pilot.press(*"-ngl many", "enter")
        await wait_until(pilot, lambda: "must be a whole number" in one_line(app))
        assert isinstance(app.screen, PlacementScreen) and len(engine.loads) == 1
        await pilot.press(*["backspace"] * 4, *"20 -ctk q8_0")
        await wait_until(pilot, lambda: "CUDA0 20 of 24 GB. It fits." in one_line(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
        assert engine.loads[1] == planned[-1] == replace(PAIR, gpu_layers=20, cache_type_k="q8_0")
        engine.finish_loading()
        await ask(pilot, "and on")
        assert [message.content for message in engine.generates[-1]][::2] == ["go", "and on"]


@pytest.fixture
def quick_search(fresh_directories: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`spectui tune` on real tiny models, in a terminal that can be had, takes seconds."""
    line = controls.tune_command
    quick = " --minutes 0.05 --prompts toaster -n 20"
    monkeypatch.setattr(controls, "tune_command", lambda setup, knobs: line(setup, knobs) + quick)
    monkeypatch.setattr(App, "suspend", lambda self: nullcontext())


@pytest.mark.parametrize(
    ("setup", "knobs", "flags"),
    [
        (Setup(model="t.gguf"), Knobs(draft_max=5, policy="fixed", seed=7, predict=9), "-m t.gguf"),
        (Setup(model="a b.gguf", draft="d.gguf"), Knobs(temperature=0.3), "-m 'a b.gguf' -md d.gguf --temp 0.3"),
        (Setup(model="t.gguf", system="Be brief.", ctx_size=512), Knobs(), "-m t.gguf --system 'Be brief.' -c 512"),
    ],
)
def test_the_command_has_what_is_loaded_and_how_the_chat_samples(setup: Setup, knobs: Knobs, flags: str) -> None:
    assert controls.tune_command(setup, knobs) == f"spectui tune {flags}"


@pytest.mark.usefixtures("quick_search")
async def test_what_is_fastest_is_used_and_saved(
    window: Window, engine: FakeEngine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    setup, profiles = tiny_setup(tmp_path, ctx_size=512), ProfileFile(tmp_path / "config.toml")
    async with window(setup, size=(160, 42), profiles=profiles, notifications=True) as (app, pilot):
        engine.knobs = replace(engine.knobs, temperature=0.3)
        await paste(pilot, "not sent yet")
        await pilot.press("alt+r")
        await wait_until(pilot, lambda: isinstance(app.screen, LineScreen))
        shown = capfd.readouterr().out
        assert "Ctrl+C ends it sooner" in shown and "The best of " in shown and "Enter goes back to the chat." in shown
        assert (engine.unloads, len(engine.loads)) == (1, 2)
        assert (engine.loads[1].model, engine.loads[1].draft) == (setup.model, setup.draft)
        await pilot.press("enter")
        await wait_until(pilot, lambda: profiles.names() == ["tuned"])
        saved = config.load(path=tmp_path / "config.toml", profile="tuned", environ={})
        assert (saved.setup.model, saved.setup.ctx_size) == (setup.model, 512)
        assert saved.knobs == engine.knobs != Knobs() and engine.knobs.temperature == 0.3
        engine.finish_loading()
        chat = app.screen
        assert isinstance(chat, ChatScreen)
        await wait_until(pilot, lambda: chat.session.state == "ready")
        assert chat.prompt.text == "not sent yet"
        await wait_until(pilot, lambda: "Saved: spectui chat -P tuned starts with it." in notified(app))


@pytest.mark.usefixtures("quick_search")
async def test_a_search_that_ends_without_a_result_changes_nothing(
    window: Window, engine: FakeEngine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    setup = replace(tiny_setup(tmp_path), model=str(tmp_path / "nowhere.gguf"))
    async with window(setup, profiles=ProfileFile(tmp_path / "config.toml")) as (app, pilot):
        before = engine.knobs
        await pilot.press("alt+r")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
        assert isinstance(app.screen, ChatScreen) and engine.knobs == before
        assert "nowhere.gguf" in capfd.readouterr().out


async def test_where_no_terminal_can_be_had_a_sentence_has_the_command(
    window: Window, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(App, "is_web", True)
    async with window(size=(120, 30), notifications=True) as (app, pilot):
        await pilot.press("alt+r")
        await wait_until(pilot, lambda: any("run spectui tune -m" in sentence for sentence in notified(app)))
        assert (engine.unloads, len(engine.loads)) == (0, 1)


async def test_a_reply_is_not_measured_away(window: Window, engine: FakeEngine) -> None:
    async with window(notifications=True) as (app, pilot):
        await ask(pilot, "go")
        await pilot.press("alt+r")
        await wait_until(pilot, lambda: "Esc stops the reply first" in one_line(app))
        assert isinstance(app.screen, ChatScreen) and not engine.unloads


async def test_a_prompt_waits_until_the_models_are_there_again(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        chat = app.screen
        assert isinstance(chat, ChatScreen)
        chat.session.models.unload()
        await wait_until(pilot, lambda: chat.session.models.unloaded)
        await ask(pilot, "go")
        assert not engine.generates and chat.session.waiting == ("go",)
        controls.load(chat, chat.session.setup)
        engine.finish_loading()
        await wait_until(pilot, lambda: engine.generates)
