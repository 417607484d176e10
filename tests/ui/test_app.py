"""The chat by behaviour: what a person does, what the engine is asked, what stands on the screen."""

import re

import pytest
from textual.widgets._footer import FooterKey
from textual.widgets._toast import Toast

from spectui.engine.events import Message
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import StopReason
from spectui.ui.dashboard.panel import SidePanel
from spectui.ui.dashboard.status import StatusLine
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen import controls
from spectui.ui.transcript.inspector import Inspector
from spectui.ui.widgets.rows import Slider
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.ui.pilot_helpers import BOTH_ENGINES, PAIR, Make, Window, answer, ask, wait_until, write_reply
from tests.ui.screen_text import one_line, said, screen_text, shown


async def test_a_prompt_typed_while_loading_is_sent_when_the_models_are_there(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: engine.loads == [PAIR])
        engine.report_loading("target", 0.62, 1_900_000_000)
        await ask(pilot, "hello there")
        await wait_until(pilot, lambda: "loading target 1.9 GB" in screen_text(app))
        assert "62 %" in screen_text(app)
        assert "1 prompt waits" in screen_text(app)
        assert engine.generates == []
        engine.finish_loading()
        await wait_until(pilot, lambda: engine.generates)
        assert engine.generates == [(Message("user", "hello there"),)]
        assert "hello there" in said(app)
        await wait_until(pilot, lambda: "loading target" not in screen_text(app))


async def test_rounds_appear_as_they_come_and_the_reply_joins_the_conversation(window: Window, engine: FakeEngine) -> None:
    async with window(Setup(model="t.gguf", system="Be brief."), size=(120, 40)) as (app, pilot):
        await ask(pilot, "add")
        assert engine.generates[0] == (Message("system", "Be brief."), Message("user", "add"))
        write_reply(engine)
        await wait_until(pilot, lambda: "return a + b" in said(app))
        await wait_until(pilot, lambda: "78 % of guesses were right, 2.8 tokens a step" in screen_text(app))
        engine.finish()
        await pilot.press("alt+3")
        await wait_until(pilot, lambda: ".78" in screen_text(app))
        seen = screen_text(app)
        assert "322 t/s" in seen, "804 prompt tokens in 2.5 s"
        assert "1 215 / 4 096" in seen
        await ask(pilot, "more")
        roles = [message.role for message in engine.generates[1]]
        assert roles == ["system", "user", "assistant", "user"]
        assert engine.generates[1][2].content == "def add(a, b):\n    return a + b\n"


async def test_a_slider_acts_at_once_and_draft_min_never_passes_draft_max(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "go")
        slider = app.screen.query_one("#slider-draft-max", Slider)
        slider.focus()
        await pilot.press("left")
        await wait_until(pilot, lambda: engine.knobs.draft_max == 15)
        low = app.screen.query_one("#slider-draft-min", Slider)
        low.post_message(Slider.Changed("draft_min", 20))
        await wait_until(pilot, lambda: engine.knobs.draft_min == 20)
        assert engine.knobs.draft_max == 20
        assert slider.value == 20
        slider.post_message(Slider.Changed("draft_max", 4))
        await wait_until(pilot, lambda: engine.knobs == Knobs(draft_max=4, draft_min=4))
        assert low.value == 4


@BOTH_ENGINES
async def test_escape_forgets_a_number_that_is_typed_and_stops_nothing(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "go")
        write_reply(engine)
        slider = app.screen.query_one("#slider-draft-max", Slider)
        slider.focus()
        await pilot.press("1", "2", "escape")
        assert engine.stops == 0 and app.focused is slider
        await pilot.press("enter")
        assert slider.value == 16
        await pilot.press("escape")
        assert engine.stops == 0 and app.focused is app.screen.prompt
        await pilot.press("escape")
        assert engine.stops == 1


@BOTH_ENGINES
async def test_a_new_chat_does_not_begin_with_a_prompt_that_waited_in_the_old_one(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        await ask(pilot, "first")
        await ask(pilot, "second")
        await pilot.press("ctrl+n")
        await wait_until(pilot, lambda: not engine.events)
        assert app.screen.query_one(PromptInput).text == "second"
        assert len(engine.generates) == 1 and said(app) == ""


@pytest.mark.parametrize("stage", ["loading", "generating"])
async def test_quitting_closes_the_engine_at_any_moment(make_app: Make, engine: FakeEngine, stage: str) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: engine.loads)
        if stage == "generating":
            engine.finish_loading()
            await ask(pilot, "go")
            write_reply(engine)
        await pilot.press("ctrl+q")
        await wait_until(pilot, lambda: not app.is_running)
    assert engine.closed
    assert app.return_value is None


async def test_a_draft_that_does_not_fit_can_be_left_out(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: engine.loads)
        await ask(pilot, "kept")
        engine.fail_loading("The vocabularies differ at token 7: 'a' is not 'b'.", without_draft=True)
        await wait_until(pilot, lambda: "differ at token 7" in one_line(app))
        assert (
            "Ctrl+D goes on without the draft. Ctrl+L tries again, Alt+D with other flags, Alt+M chooses other models."
            in one_line(app)
        )
        assert app.screen.query_one(PromptInput).text == "kept", "the waiting prompt is given back"
        await pilot.press("ctrl+d")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
        assert engine.loads[1] == Setup(model=PAIR.model)
        engine.finish_loading()
        await pilot.press("enter")
        await wait_until(pilot, lambda: engine.generates)


async def test_a_target_that_does_not_load_is_said_and_can_be_tried_again(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: engine.loads)
        engine.fail_loading("There is no file /models/target.gguf.")
        await wait_until(pilot, lambda: "no file /models/target.gguf" in screen_text(app))
        assert "Ctrl+D" not in screen_text(app)
        await pilot.press("x", "left", "ctrl+d")
        assert len(engine.loads) == 1, "Ctrl+D is the text area's while there is no draft to leave out"
        assert app.screen.query_one(PromptInput).text == ""
        await pilot.press("ctrl+l")
        await wait_until(pilot, lambda: engine.loads == [PAIR, PAIR])


async def test_after_a_load_that_failed_nothing_is_told_of_the_models_before(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "go")
        await answer(pilot, engine)
        await wait_until(pilot, lambda: "/ 4 096" in screen_text(app))
        controls.load(app.screen, Setup(model="/models/torn.gguf"))
        engine.fail_loading("It is damaged.")
        await wait_until(pilot, lambda: not engine.events)
        assert "4 096" not in screen_text(app)
        app.screen.panel.open_page("machine")
        await wait_until(pilot, lambda: "host" in screen_text(app))
        assert "fake 1.5B" not in one_line(app)
        controls.load(app.screen, PAIR)
        engine.finish_loading()
        await wait_until(pilot, lambda: "– / 4 096" in screen_text(app))


async def test_a_reply_without_a_word_or_that_breaks_off_says_so_and_the_next_prompt_works(
    window: Window, engine: FakeEngine
) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "too long")
        engine.finish(StopReason.EOS)
        await wait_until(pilot, lambda: "The last prompt has no answer: Ctrl+R asks it again" in one_line(app))
        await pilot.press("ctrl+r")
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        engine.fail("The prompt has 5000 tokens, the context 4096.", no_room=True)
        way = "4096. Alt+E brings the prompt back to be shortened, Alt+D with -c sets a larger context."
        await wait_until(pilot, lambda: way in " ".join(shown(app).split()))
        await ask(pilot, "short")
        assert engine.generates[2] == (Message("user", "too long\n\nshort"),)
        assert "takes it along" in one_line(app)


@BOTH_ENGINES
async def test_picking_a_device_during_a_reply_does_not_send_before_the_models_are_there(
    window: Window, engine: FakeEngine
) -> None:
    engine.devices = (CPU, GPU)
    async with window(size=(120, 40)) as (_, pilot):
        await ask(pilot, "go")
        write_reply(engine)
        await ask(pilot, "next")
        await pilot.press("f7", "enter", "alt+d", "enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2 and not engine.events)
        assert len(engine.generates) == 1
        engine.finish_loading()
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        assert engine.generates[1][1].content.startswith("def add")


async def test_the_panel_is_an_overlay_below_100_columns(window: Window, engine: FakeEngine) -> None:
    async with window(size=(80, 24)) as (app, pilot):
        panel = app.screen.query_one(SidePanel)
        assert not panel.display
        assert "a pass" in screen_text(app)
        await pilot.press("f6")
        await pilot.pause()
        assert panel.display
        assert isinstance(app.focused, PromptInput), "it takes the focus of nobody"
        assert panel.region.right == 80
        await pilot.press("escape")
        await pilot.pause()
        assert not panel.display
        assert isinstance(app.focused, PromptInput)
        assert engine.stops == 0
        await pilot.resize_terminal(120, 40)
        await wait_until(pilot, lambda: panel.display)
        assert not app.screen.query_one(StatusLine).region


def channels(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour))


async def test_without_colour_everything_is_grey(window: Window, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "go")
        await answer(pilot, engine)
        colours = set(re.findall(r"fill: #([0-9a-f]{6})", app.export_screenshot()))
        assert colours
        spread = {colour: max(channels(colour)) - min(channels(colour)) for colour in colours}
        # Rich's own idea of a default foreground, c5c8c6, is as grey as a picture gets.
        assert {colour for colour, width in spread.items() if width > 4} == set()


async def test_markup_and_control_characters_are_text(window: Window, engine: FakeEngine) -> None:
    async with window(Setup(model="/models/[red]t\x1b]0;x\x07.gguf"), notices=["[bold]n[/] \x1b[31m"], size=(120, 40)) as (
        app,
        pilot,
    ):
        await ask(pilot, "[bold]x[/]")
        engine.emit_round(plain="[red]y[/]")
        engine.notify("[i]z[/]\x1b[2J")
        engine.fail("[b]w[/]\x9b2J")
        await wait_until(pilot, lambda: "[b]w[/]" in screen_text(app))
        seen = screen_text(app)
        for text in ("[bold]x[/]", "[red]y[/]", "[i]z[/]", "[bold]n[/]", "[red]t]0;x"):
            assert text in seen
        assert not {char for char in seen if (char != "\n" and ord(char) < 32) or 0x7F <= ord(char) < 0xA0}


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_is_notified_does_not_lie_on_the_prompt(window: Window, size: tuple[int, int]) -> None:
    async with window(size=size, notifications=True) as (app, pilot):
        for sentence in ("one", "two " * 40):
            app.notify(sentence)
        await wait_until(pilot, lambda: len([each for each in app.screen.query(Toast) if each.region]) == 2)
        assert max(toast.region.bottom for toast in app.screen.query(Toast)) < app.screen.query_one(PromptInput).region.y


async def test_a_theme_that_does_not_exist_is_said(make_app: Make, engine: FakeEngine) -> None:
    app = make_app(theme="nonesuch")
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: "There is no theme 'nonesuch'" in screen_text(app))
        assert app.theme == "spectui-dark"


async def test_the_last_line_ends_with_a_whole_key_and_offers_what_can_be_done_now(window: Window, engine: FakeEngine) -> None:
    async with window(size=(80, 24)) as (app, pilot):

        def keys() -> list[FooterKey]:
            return [key for key in app.screen.query(FooterKey) if key.region]

        def named() -> dict[str, str]:
            return {key.description: key.key for key in keys()}

        await wait_until(pilot, lambda: {"Stop", "Compare"}.isdisjoint(named()) and named().get("Models") == "alt+m")
        await ask(pilot, "go")
        write_reply(engine)
        await wait_until(pilot, lambda: "Stop" in named())
        engine.finish()
        await wait_until(pilot, lambda: "Compare" in named() and "Stop" not in named())
        await ask(pilot, "and")

        for width, number in ((120, 5), (36, 3), (20, 2)):
            await pilot.resize_terminal(width, 24)
            await wait_until(pilot, lambda number=number: len(keys()) == number)
            assert keys()[-1].region.right <= width


async def test_the_last_line_has_the_keys_of_the_focused_pane_and_the_inspector_stands_whole_above_it(
    window: Window, engine: FakeEngine
) -> None:
    """In a narrow window too, beside an open panel."""
    async with window(size=(80, 24)) as (app, pilot):
        await ask(pilot, "go")
        write_reply(engine)

        def first() -> list[str]:
            return [key.description for key in app.screen.query(FooterKey)][:5]

        await wait_until(pilot, lambda: first() == ["Send", "Stop", "Help", "Models", "Quit"])
        assert "Send" in screen_text(app).splitlines()[-1]
        await wait_until(pilot, lambda: not engine.events)
        await pilot.press("alt+2", "f4", "left", "left")
        of_cursor = ["Stop", "Help", "Token before", "Token after", "Round before"]
        await wait_until(pilot, lambda: "likeliest" in screen_text(app) and first() == of_cursor)
        rows = [" ".join(row.split()) for row in screen_text(app).splitlines()]
        inspector, panel = app.screen.query_one(Inspector), app.screen.query_one(SidePanel)
        for line in inspector.build_lines():
            assert " ".join("".join(text for text, _ in line).split()) in rows
        assert panel.region.bottom == inspector.region.y
        assert rows[-2].startswith("Ask something")
        await pilot.press("f4")
        await wait_until(pilot, lambda: not inspector.display)
        assert panel.region.bottom == 23
