"""The panel's pages: each tells the truth about the rounds, is reached by key, name and mouse, and survives any size."""

from dataclasses import replace

import pytest

from spectui.chat.figures.counts import STEPS, SpeedHistory
from spectui.chat.figures.estimates import payoff, speed_ups
from spectui.chat.figures.reasons import read_before
from spectui.chat.figures.records import Figures
from spectui.engine.events import Prompt
from spectui.knobs import Knobs
from spectui.speculation.records import Reason
from spectui.speculation.statistics import Statistics
from spectui.ui.dashboard.panel import PAGES, SidePanel
from spectui.ui.dashboard.reply import DetailsPage, cost, counts
from spectui.ui.dashboard.rounds import RoundsPage, by_position, detail, stacks
from spectui.ui.transcript.transcript import Transcript
from spectui.ui.widgets.lines import cells, columns, nice_top, resampled
from spectui.ui.widgets.rows import LABEL
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.ui.dashboard.rounds import accepted, figures_of, plain, rounds_of, seen_of, text_of
from tests.ui.pilot_helpers import Make, Window, ask, streaming, wait_until
from tests.ui.screen_text import compositor, screen_text

# Details


def test_what_drafting_ahead_gave_has_a_line():
    rounds = rounds_of(plain, plain, plain)
    before = text_of(counts(figures_of(rounds), 46))
    guesses = [replace(rounds[0], guessed=True, saved_s=0.25), replace(rounds[1], guessed=False), rounds[2]]
    now = text_of(counts(figures_of(guesses), 46))
    assert [line for line in now if line not in before] == ["ahead       50 % right saved       0.25 s"]


def test_a_round_is_told_in_milliseconds_shares_and_passes() -> None:
    rounds = rounds_of(plain, accepted(3), accepted(3))
    shown = text_of(cost(figures_of(rounds), 46))
    assert shown[0].split() == ["a", "round", "167", "ms"]
    assert shown[-1].split() == ["costs", "1.7", "passes,", "yields", "3.0", "tokens"]
    paid = payoff(rounds)
    assert paid is not None and paid.passes == pytest.approx(5 / 3) and paid.tokens == 3
    first = [replace(rounds[0], plain_s=100.0), *rounds, *rounds]
    assert payoff(first).pays == pytest.approx(payoff([*rounds, *rounds, rounds[0]]).pays), "a busy machine was measured"
    choosing = [
        replace(round, choose_s=0.05, seconds=round.seconds + 0.049) for round in rounds_of(plain, plain, accepted(0, 1))
    ]
    missed = choosing[-1].seconds / choosing[0].seconds
    assert payoff(choosing).pays == pytest.approx(3 / (2 + missed)), "plain decoding chooses too"
    assert payoff([]) is None
    assert payoff(rounds_of(plain, plain)) is None, "rounds without a draft pay and lose nothing: they differ by noise"
    assert all(len(line) <= 46 for line in shown)


# Rounds


def test_each_round_is_a_stack_and_turned_knobs_are_marked() -> None:
    engine = FakeEngine(Knobs(draft_max=16))
    rounds = [plain(engine), accepted(2, 1)(engine)]
    engine.knobs = Knobs(draft_max=4)
    rounds.append(accepted(3)(engine))
    lines = text_of(stacks(rounds, 0, 3, 3, 2))
    assert lines[1:] == ["  3  ▒█", "     ██", "  1 ·██", "      ▲"]
    told = " ".join(text_of(detail(rounds, 2, 46)))
    assert "draft-max 16 → 4" in told
    assert "3 accepted, 0 rejected" in told
    assert "4 tokens: 20.0 t/s" in told
    assert "2.0 passes: 2.0x" in told


def test_a_rounds_tokens_stand_apart_from_their_probabilities_and_none_is_cut() -> None:
    engine = FakeEngine()
    words = text_of(detail([engine.emit_round("self", ".", correction="x", rejected=["y"])], 0, 46))
    assert words[-1] == '"self" .900  "." .900  ✗"y" .900  "x"'
    wide = engine.emit_round(*["漢字漢字漢字"] * 9, correction=" " * 80, rejected=[" " * 80])
    lines = detail([wide], 0, 46)
    assert all(cells(line) <= 46 for line in lines)
    assert "".join(text_of(lines)).count(".900") == 10


def test_a_round_is_beside_what_was_expected_of_it() -> None:
    rounds = rounds_of(lambda e: e.emit_round(*"abc", bonus="d", seconds=0.2, plain_s=0.1, reason=Reason("draft", 3, 16, 1.4)))
    assert "costs       2.0 passes: 2.0x (expected 1.4x)" in text_of(detail(rounds, 0, 46))


async def test_choosing_a_round_marks_its_tokens(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        panel = await streaming(pilot, engine)
        panel.show_page("rounds")
        page = app.screen.query_one(RoundsPage)
        await pilot.pause()
        page.focus()
        await pilot.press("left")
        await pilot.pause()
        assert page.chosen is not None and page.chosen.index == 2
        assert any("▌" in line and "return" in line for line in screen_text(app).splitlines())
        await pilot.click(page, offset=(4 + 3, 2))
        assert page.chosen is not None and page.chosen.index == 3
        await pilot.press("end")
        await pilot.pause()
        assert page.chosen is None
        assert not any("▌" in line and "return" in line for line in screen_text(app).splitlines())


async def test_inspecting_a_token_shows_its_round(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        panel = await streaming(pilot, engine)
        panel.show_page("rounds")
        transcript = app.screen.query_one(Transcript)
        await pilot.press("f4", "shift+left")
        await wait_until(pilot, lambda: "round 2 " in screen_text(app))
        assert transcript.inspected is not None and transcript.inspected.round == 2
        await pilot.press("f4")
        await wait_until(pilot, lambda: "round 3 " in screen_text(app))  # the latest again


# Places, costs


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        (None, ""), (Prompt(9, 9, 0, 1.0), ""), (Prompt(9, 9, 5, 1.0), "5 of 9 tokens were read before"),
        (Prompt(9, 9, 5, 1.0, "disk"), "5 of 9 tokens were read before, kept on disk"),
        (Prompt(9, 9, 0, 1.0, "", "it differs"), "0 of 9 tokens were read before; not more, because it differs"),
    ],
)  # fmt: skip
def test_what_was_read_before_and_where_it_was_kept_is_told(prompt: Prompt | None, told: str) -> None:
    assert read_before(Figures(prompt=prompt)) == told


def test_columns_are_as_high_as_what_they_show() -> None:
    assert columns([0.0, 0.5, 1.0, None], 2) == ["  █ ", " ██ "]
    assert columns([0.25], 1) == ["▂"]
    assert resampled([1.0, 3.0], 1) == [2.0]
    assert resampled([1.0, 3.0], 4) == [1.0, 1.0, 3.0, 3.0]
    assert [nice_top(value) for value in (0.4, 7, 27.4, 130)] == [0.5, 7.5, 30, 200]


def test_acceptance_by_position_has_a_column_for_each_place_that_was_judged() -> None:
    lines = text_of(by_position(figures_of(rounds_of(accepted(2), accepted(1, 1))), 40))
    assert lines[0] == "by position █▅ 1.0 … .50", "of the second places half were accepted"


def test_the_suggested_draft_max_ends_where_acceptance_does() -> None:
    rounds = rounds_of(plain, *[accepted(2, 4)] * 8)
    expected = speed_ups(rounds, Statistics.of(rounds))
    assert expected[2] > expected[1] > 1
    assert expected[3] < expected[2] == max(expected)
    assert speed_ups(rounds_of(plain), Statistics.of(rounds_of(plain))) == []


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_page_of_rounds_has_acceptance_by_position_and_the_suggested_draft_max(
    window: Window, engine: FakeEngine, size: tuple[int, int]
) -> None:
    async with window(size=size) as (app, pilot):
        await ask(pilot, "go")
        for _ in range(10):
            engine.emit_round("a", correction="x", rejected=["b", "c"], seconds=0.2, draft_s=0.1, plain_s=0.08)
        app.screen.panel.open_page("rounds")
        await wait_until(pilot, lambda: "suggested" in screen_text(app))
        seen = seen_of(app.screen.query_one(RoundsPage))
        told = "by position █▁ 1.0 … .00", "draft-max 1 suggested: about", "now 16", "round 9 1 accepted, 2 rejected"
        for part in (*told, '✗"b" .900'):
            assert part in seen


# Time


def test_a_history_of_any_length_is_bounded_and_keeps_every_token() -> None:
    history = SpeedHistory(0.25)
    rounds = rounds_of(*[accepted(3)] * 3000)
    for round in rounds:
        history.add(round)
    assert len(history.speeds) <= STEPS
    assert history.seconds == pytest.approx(600)
    assert all(speed == pytest.approx(20, rel=0.3) for speed in history.speeds[:-1] if speed)
    assert history.acceptances[0] == 1.0


def test_a_step_is_like_the_round_that_went_on_in_it_and_without_drafts_nothing_was_accepted() -> None:
    history = SpeedHistory(0.25)
    for round in rounds_of(lambda engine: engine.emit_round(plain="a", seconds=0.9), accepted(2)):
        history.add(round)
    assert history.speeds == [pytest.approx(1 / 0.9)] * 4 + [pytest.approx(3 / 0.2)]
    assert history.acceptances == [None] * 4 + [1.0]


async def test_the_page_of_details_has_four_plots_with_axes_and_only_the_conversations_go_on(
    window: Window, engine: FakeEngine
) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        for seconds in (5.0, 2.0):
            await ask(pilot, "go")
            await wait_until(pilot, lambda: engine.generates and app.screen.session.state == "reading")
            engine.emit_round(*"abcd", bonus="e", seconds=seconds)
            engine.finish()
            await wait_until(pilot, lambda: not engine.events)
        await pilot.press("f10", "f10")
        await wait_until(pilot, lambda: "2 s of decoding" in screen_text(app))
        reply, conversation = seen_of(app.screen.query_one(DetailsPage)).split("conversation: t/s")
        assert "this reply: t/s 2.5 3.0│" in reply and "acceptance 1.0 1.0│" in reply and "2 s of decoding" in reply
        assert "1.0│" in conversation and "7 s of decoding" in conversation
        assert reply.count(" 0│") == conversation.count(" 0│") == 2


# The panel itself


@pytest.mark.parametrize("width", [120, 220])
async def test_pages_are_turned_by_key_and_by_mouse_and_one_is_seen(make_app: Make, engine: FakeEngine, width: int) -> None:
    app = make_app()
    async with app.run_test(size=(width, 40)) as pilot:
        panel = await streaming(pilot, engine)

        async def seen(page: str) -> None:
            parts = {"pages", *PAGES[page]}
            await wait_until(pilot, lambda: {part.id for part in panel.children if part.display} == parts)
            assert panel.page == page

        await seen("now")
        await pilot.press("f10")
        await seen("rounds")
        await pilot.click("#pages", offset=(14, 0))
        await seen("details")
        await wait_until(pilot, lambda: "a round" in screen_text(app))
        await pilot.click("#pages", offset=(6, 0))
        await seen("rounds")
        assert panel.rounds.has_focus, "as behind its key"
        for number, page in ((4, "machine"), (5, "settings"), (1, "now")):
            await pilot.press(f"alt+{number}")
            await seen(page)


@pytest.mark.parametrize("part", ["#now", "#pages"])
async def test_a_double_click_on_figures_or_pages_leaves_ctrl_c_to_the_reply(
    window: Window, engine: FakeEngine, part: str
) -> None:
    async with window(size=(120, 40)) as (_, pilot):
        await ask(pilot, "go")
        await pilot.click(part, times=2)
        await pilot.press("ctrl+c")
        await wait_until(pilot, lambda: engine.stops == 1)


@pytest.mark.parametrize(("columns", "text"), [(120, 70), (160, 104), (240, 104)])
async def test_the_text_gets_the_room_first_and_at_most_a_hundred_columns(window: Window, columns: int, text: int) -> None:
    async with window(size=(columns, 50)) as (app, _):
        assert app.screen.query_one("#main").region.width == text


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (40, 12), (80, 24), (160, 20), (400, 100)])
async def test_every_page_survives_every_size(make_app: Make, engine: FakeEngine, size: tuple[int, int]) -> None:
    app = make_app()
    engine.devices = (CPU, GPU)
    async with app.run_test(size=size) as pilot:
        await streaming(pilot, engine)
        await pilot.press("f6")
        for page in PAGES:
            app.screen.panel.open_page(page)
            app.screen.show_figures()
            await pilot.pause()
            assert screen_text(app)
        await pilot.press("f2", "f3", "f7", "f4")
        await pilot.pause()


async def test_nothing_is_laid_out_again_while_a_reply_streams(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await streaming(pilot, engine)
        for page in PAGES:
            app.screen.panel.open_page(page)
            await pilot.pause()
            laid_out = app.screen._layout_required, compositor(app).size
            for _ in range(5):
                engine.emit_round(" more", bonus=" text", seconds=0.1)
            await wait_until(pilot, lambda: not engine.events)
            app.screen.show_figures()
            assert (app.screen._layout_required, compositor(app).size) == laid_out, page


async def test_no_name_of_a_knob_is_cut(make_app: Make) -> None:
    async with make_app().run_test(size=(120, 44)) as pilot:
        panel = pilot.app.screen.panel
        assert all(len(each.label) <= LABEL for each in panel.query("Slider, ChoiceRow"))


async def test_what_is_not_seen_any_more_gives_the_keys_to_the_prompt(window: Window, engine: FakeEngine) -> None:
    """A knob, where another page is opened, where it has no effect any more, and where a narrow window hides the panel."""
    async with window(size=(120, 40)) as (app, pilot):
        panel = app.screen.query_one(SidePanel)

        async def focused(knob: str) -> None:
            await wait_until(pilot, lambda: app.screen.query_one(knob).region)
            await pilot.click(knob)
            await wait_until(pilot, lambda: app.screen.query_one(knob).has_focus)

        await focused("#slider-temperature")
        knobs = engine.knobs
        await pilot.click("#pages", offset=(14, 0))
        await wait_until(pilot, lambda: panel.page == "details")
        await pilot.press(*"r4", "left")
        await wait_until(pilot, lambda: app.screen.prompt.text == "r4")
        assert engine.knobs == knobs
        await pilot.press("alt+1", "f9")
        await focused("#slider-p-min")
        await pilot.press("f9")
        await wait_until(pilot, lambda: app.screen.prompt.has_focus)
        knobs = engine.knobs
        await pilot.press("left", "delete")
        await pilot.pause()
        assert engine.knobs == knobs
        await focused("#slider-temperature")
        await pilot.resize_terminal(80, 24)
        await wait_until(pilot, lambda: not panel.region and app.screen.prompt.has_focus)
        app.screen.prompt.text = ""
        await pilot.press("f6", "alt+2")
        await wait_until(pilot, lambda: app.screen.query_one(RoundsPage).has_focus)
        await pilot.press("f10", *"hi")
        await wait_until(pilot, lambda: app.screen.prompt.text == "hi")
        assert panel.page == "details"
        await pilot.press("alt+5")
        await wait_until(pilot, lambda: app.screen.query_one("#slider-draft-max").has_focus)
