"""The panel's pages: each tells the truth about the rounds, can be reached by key, name and mouse, and survives any size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from spectui.engine.fake import CPU, GPU, FakeEngine
from spectui.knobs import Knobs
from spectui.speculation.records import Round
from spectui.speculation.statistics import Statistics
from spectui.telemetry.gpus import Gpu
from spectui.telemetry.host import Host
from spectui.telemetry.monitor import Snapshot
from spectui.ui.app import SpectuiApp
from spectui.ui.dashboard import lines
from spectui.ui.estimates import advice, payoff
from spectui.ui.figures import Figures
from spectui.ui.history import STEPS, History
from spectui.ui.inspectable import InspectableTranscript
from spectui.ui.lines import Line
from spectui.ui.machine import MachinePage
from spectui.ui.panel import PAGES, SidePanel
from spectui.ui.places import break_even, histogram
from spectui.ui.plot import columns, nice_top, resampled
from spectui.ui.rounds import RoundsPage, detail, stacks
from spectui.ui.why import why_no_drafts
from tests.ui.driving import ask, load, wait_until, write_reply
from tests.ui.seeing import screen_text

Make = Callable[..., SpectuiApp]


def text_of(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def rounds_of(*plays: Callable[[FakeEngine], Round], knobs: Knobs | None = None) -> list[Round]:
    engine = FakeEngine(knobs or Knobs(policy="fixed"))
    return [play(engine) for play in plays]


def plain(engine: FakeEngine) -> Round:
    return engine.emit_round(plain="a", seconds=0.1, plain_s=0.1)


def accepted(n: int, rejected: int = 0) -> Callable[[FakeEngine], Round]:
    def play(engine: FakeEngine) -> Round:
        own = {"correction": "x"} if rejected else {"bonus": "x"}
        return engine.emit_round(*"abcdefghijklmnop"[:n], rejected=["r"] * rejected, seconds=0.2, plain_s=0.1, **own)

    return play


def figures_of(rounds: list[Round], **arguments: object) -> Figures:
    return Figures(reply=Statistics.of(rounds), rounds=tuple(rounds), **arguments)  # type: ignore[arg-type]


async def streaming(pilot: Pilot[None], engine: FakeEngine) -> SidePanel:
    await load(pilot, engine)
    await ask(pilot, "Write add.")
    write_reply(engine)
    await wait_until(pilot, lambda: not engine.events)
    pilot.app.screen._show_figures()
    return pilot.app.screen.query_one(SidePanel)


# Rounds


def test_the_figures_say_what_a_round_yields_and_costs_and_whether_it_is_drafted_now() -> None:
    rounds = rounds_of(
        lambda engine: engine.emit_round(
            *"abcdefghi", bonus="x", seconds=0.72, plain_s=0.1, note="drafting 9 of 16: pays 1.4x"
        )
    )
    shown = text_of(lines(figures_of(rounds, live=True), 46))
    assert "pays        1.4x: 10.0 tokens for 7.2 passes" in shown
    assert all(len(line) <= 46 for line in shown)
    assert "now         model · drafting 9 of 16: pays" in shown
    assert "last        model · drafting 9 of 16: pays" in text_of(lines(figures_of(rounds), 46))


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
    assert "2.0 passes: pays 2.0x" in told


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
        transcript = app.screen.query_one(InspectableTranscript)
        await pilot.press("f4", "left_square_bracket")
        await wait_until(pilot, lambda: "round 2 " in screen_text(app))
        assert transcript.inspected is not None and transcript.inspected.round == 2


# Places, costs


def test_columns_are_as_high_as_what_they_show() -> None:
    assert columns([0.0, 0.5, 1.0, None], 2) == ["  █ ", " ██ "]
    assert columns([0.25], 1, wide=3) == ["▂▂▂"]
    assert resampled([1.0, 3.0], 1) == [2.0]
    assert resampled([1.0, 3.0], 4) == [1.0, 1.0, 3.0, 3.0]
    assert [nice_top(value) for value in (0.4, 7, 27.4, 130)] == [0.5, 7.5, 30, 200]


def test_the_histogram_has_a_column_for_each_place_that_was_judged() -> None:
    lines = text_of(histogram(figures_of(rounds_of(accepted(2), accepted(1, 1))), 40, 4))
    assert lines[1] == "1.0 │████    ", "of the second places half were accepted"
    assert lines[4] == "  0 │████████"


def test_the_break_even_is_told_in_passes() -> None:
    rounds = rounds_of(plain, accepted(3), accepted(3))
    paid = payoff(rounds)
    assert paid is not None
    assert paid.passes == pytest.approx(5 / 3) and paid.tokens == 3
    assert text_of(break_even(paid, "F5"))[0] == "a round costs 1.7 passes; it yields 3.0 tokens"
    assert "pays 1.8x" in text_of(break_even(paid, "F5"))[1]
    assert payoff([]) is None


def test_the_suggested_draft_max_ends_where_acceptance_does() -> None:
    rounds = rounds_of(plain, *[accepted(2, 4)] * 8)
    suggested = advice(rounds, Statistics.of(rounds))
    assert suggested is not None
    assert suggested.best == 2
    assert suggested.pays[2] > suggested.pays[1] > 1
    assert suggested.pays[3] < suggested.pays[2]
    assert advice(rounds_of(plain), Statistics.of(rounds_of(plain))) is None


# Time


def test_a_history_of_any_length_is_bounded_and_keeps_every_token() -> None:
    history = History(0.25)
    rounds = rounds_of(*[accepted(3)] * 3000)
    for round in rounds:
        history.add(round)
    assert len(history.speeds) <= STEPS
    assert history.seconds == pytest.approx(600)
    assert all(speed == pytest.approx(20, rel=0.3) for speed in history.speeds[:-1] if speed)
    assert history.acceptances[0] == 1.0


# Machine


async def test_the_machine_page_shows_each_gpu_and_the_host(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    engine.devices = (CPU, GPU)
    async with app.run_test(size=(120, 40)) as pilot:
        panel = await streaming(pilot, engine)
        panel.show_page("machine")
        for used in (6, 12):
            gpu = Gpu(0, "RTX", "0000:c1:00.0", used * 10**9, 24 * 10**9, 0.87, 61.0, 210.0)
            panel.update_telemetry(Snapshot(Host(8 * 10**9, 24 * 10**9, 0.5, 2 * 10**9), (gpu,)))
        await wait_until(pilot, lambda: "12.0 GB of 24.0 GB" in screen_text(app))
        seen = screen_text(app)
        for said in ("87 %", "61 °C 210 W", "8.0 GB of 24.0 GB", "50 %", "spectui 2.0 GB"):
            assert said in seen
        assert app.screen.query_one(MachinePage).display
        for said in ("fake 1.5B Q8_0, 1.9 GB", "passes of up to 16 tokens round"):
            assert said in seen


# Why no drafts


@pytest.mark.parametrize(
    ("knobs", "figures", "said"),
    [
        (Knobs(drafter="off"), {"has_draft": True}, "drafter is off"),
        (Knobs(draft_max=0), {"has_draft": True}, "draft-max is 0"),
        (Knobs(drafter="model"), {}, "no draft model"),
        (Knobs(drafter="model"), {"draft_problem": "The draft has another vocabulary."}, "another vocabulary"),
        (Knobs(policy="fixed"), {"has_draft": True}, "reaches p-min 0.75"),
        (Knobs(policy="fixed", drafter="suffix"), {"has_draft": True}, "nothing here stood"),
        (Knobs(), {"has_draft": True, "context": 4095, "n_ctx": 4096}, "context is nearly full"),
        (Knobs(), {"has_draft": True, "draft_failed": True}, "draft model failed"),
    ],
)
def test_the_cause_of_no_drafts_is_named(knobs: Knobs, figures: dict[str, object], said: str) -> None:
    assert said in why_no_drafts(figures_of(rounds_of(plain, plain, knobs=knobs), **figures))


def test_drafts_under_draft_min_and_the_policys_own_words_are_causes_too() -> None:
    ignored = rounds_of(lambda e: e.emit_round(plain="a", ignored=["x"]), knobs=Knobs(policy="fixed", draft_min=3))
    assert "shorter than draft-min 3" in why_no_drafts(figures_of(ignored, has_draft=True))
    note = "not drafting: the draft costs 0.45 of a target pass, needs 0.92 acceptance, has 0.61"
    words = rounds_of(lambda e: e.emit_round(plain="a", note=note), knobs=Knobs())
    assert why_no_drafts(figures_of(words, has_draft=True)).startswith("the draft costs 0.45 of a target pass")
    assert why_no_drafts(figures_of(rounds_of(plain, accepted(2)))) == ""


# The panel itself


async def test_pages_are_turned_by_key_and_by_mouse(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        panel = await streaming(pilot, engine)
        await pilot.press("f10")
        assert panel.page == "rounds"
        await pilot.click("#pages", offset=(14, 0))
        assert panel.page == "places"
        await wait_until(pilot, lambda: "acceptance by place in the draft" in screen_text(app))
        await pilot.press("alt+4")
        await wait_until(pilot, lambda: panel.page == "time")


@pytest.mark.parametrize("size", [(20, 5), (40, 12), (80, 24), (200, 60)])
async def test_every_page_survives_every_size(make_app: Make, engine: FakeEngine, size: tuple[int, int]) -> None:
    app = make_app()
    engine.devices = (CPU, GPU)
    async with app.run_test(size=size) as pilot:
        await streaming(pilot, engine)
        await pilot.press("f6")
        for page in PAGES:
            app.screen.show_page(page)
            app.screen._show_figures()
            await pilot.pause()
            assert screen_text(app)
        await pilot.press("f4")
        await pilot.pause()


async def test_nothing_is_laid_out_again_while_a_reply_streams(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await streaming(pilot, engine)
        for page in PAGES:
            app.screen.show_page(page)
            await pilot.pause()
            laid_out = app.screen._layout_required, app.screen._compositor.size
            for _ in range(5):
                engine.emit_round(" more", bonus=" text", seconds=0.1)
            app.screen._drain()
            app.screen._show_figures()
            assert (app.screen._layout_required, app.screen._compositor.size) == laid_out, page
