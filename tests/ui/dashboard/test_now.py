"""The panel's first page: one estimate in words, the knobs that act, and why nothing is drafted."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from spectui.chat.figures.lines import payoff_lines, summary_line
from spectui.chat.figures.reasons import why_no_drafts
from spectui.chat.figures.records import Figures
from spectui.knobs import Knobs
from spectui.speculation.records import Reason, Round
from spectui.speculation.statistics import SpeedUp
from spectui.ui.dashboard.reply import NowPage, speed, strip, why
from spectui.ui.dashboard.rounds import detail
from spectui.ui.screen import controls
from spectui.ui.widgets.lines import large
from tests.fake_engine import FakeEngine
from tests.ui.dashboard.rounds import accepted, figures_of, plain, rounds_of, seen_of, text_of
from tests.ui.pilot_helpers import PAIR, Make, Window, ask, wait_until


@pytest.mark.parametrize("height", [24, 40])
async def test_the_first_page_has_one_estimate_in_words_and_the_knobs_that_act(
    window: Window, engine: FakeEngine, height: int
) -> None:
    async with window(size=(120, height)) as (app, pilot):
        await ask(pilot, "go")
        engine.emit_round(plain="a", seconds=0.1, plain_s=0.1)
        engine.emit_round("b", correction="x", rejected=["r"], seconds=0.2, plain_s=0.1)
        engine.emit_round(*"abc", bonus="x", seconds=0.2, plain_s=0.1, reason=Reason("draft", 3, 16, 1.7))
        page = app.screen.query_one(NowPage)
        first, second, third = (" ".join(row.split()) for row in large("14.0"))
        fast = f"{first} {second} t/s, about 1.4 times as fast {third} as without guesses"
        rest = "·▃█ 80 % of guesses were right, 2.3 tokens a step model: drafting 3 of 16, expected to pay"
        await wait_until(pilot, lambda: seen_of(page) == f"{fast} {rest}")
        engine.finish()
        ended = rest.replace("model:", "last round:")
        await wait_until(pilot, lambda: seen_of(page) == f"{fast}; F5 compares {ended}")

        def knobs() -> list[str]:
            controls = app.screen.query("#choices > *, #sliders > *")
            return [str(each.id).partition("-")[2] for each in controls if each.region]

        assert knobs() == ["policy", "drafter", "draft-max", "draft-min", "temperature"]
        await pilot.press("f9")  # fixed
        await wait_until(pilot, lambda: "p-min" in knobs())
        await pilot.press("f8", "f8", "f8", "f8")  # the drafter is off
        await wait_until(pilot, lambda: engine.knobs.drafter == "off" and knobs() == ["drafter", "temperature"])
        await pilot.press("alt+5")
        await wait_until(pilot, lambda: {"policy", "p-min", "draft-max", "top-k", "seed"} <= {*knobs()})


async def test_a_measured_speed_up_takes_the_place_of_the_estimate_until_the_next_reply(
    window: Window, engine: FakeEngine
) -> None:
    async with window(size=(120, 35)) as (app, pilot):
        await ask(pilot, "go")
        engine.emit_round(*"ab", bonus="c", seconds=0.2, plain_s=0.1)
        engine.finish()
        await wait_until(pilot, lambda: not engine.events)
        await pilot.press("f5")
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        for letter in "abc":
            engine.emit_round(plain=letter, seconds=0.12)
        engine.finish()
        await wait_until(pilot, lambda: app.screen_stack[0].session.state == "ready")
        await pilot.press("escape")
        page = app.screen.query_one(NowPage)
        await wait_until(pilot, lambda: "t/s, 1.8 times as fast" in seen_of(page) and "guesses (measured)" in seen_of(page))
        await ask(pilot, "on")
        engine.emit_round(*"ab", bonus="c", seconds=0.2, plain_s=0.1)
        engine.finish()
        await pilot.press("alt+1")
        await wait_until(pilot, lambda: "about 1.5 times as fast" in seen_of(page) and "guesses; F5" in seen_of(page))


def gaining(seconds: float, plain_s: float) -> list[Round]:
    return rounds_of(lambda engine: engine.emit_round("a", bonus="b", seconds=seconds, plain_s=plain_s))


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        (figures_of(rounds_of(plain, plain), state="ready"), "10.0 t/s"),
        (Figures(state="reading"), "– t/s   reading the prompt"),
        (Figures(state="failed"), "– t/s   no model"),
        (figures_of(gaining(0.206, 0.1), state="ready"), "9.7 t/s   about 0.97x plain"),
        # Plain passes that were measured on a busy machine seem dear: no gain is above the tokens of a pass.
        (figures_of(gaining(0.2, 1.0), state="ready"), "10.0 t/s   about 2.0x plain"),
        (figures_of(gaining(0.2, 0.1), state="ready", measured=SpeedUp(1.8, 1.5, 2.1)), "10.0 t/s   1.8x plain (measured)"),
        (figures_of(gaining(0.2, 0.1), state="ready", measured=SpeedUp(1.1, 0.9, 1.3)), "10.0 t/s   like plain (measured)"),
    ],
)
def test_a_state_takes_the_place_of_the_estimate_and_a_loss_does_not_read_as_a_gain(figures: Figures, line: str) -> None:
    assert text_of([speed(figures)]) == [line]


@pytest.mark.parametrize(("seconds", "cost"), [(0.206, "2.1 passes: 0.97x"), (0.05, "0.5 passes: 2.0x")])
def test_a_round_that_lost_does_not_read_as_one_that_gained_nor_any_as_gaining_more_than_its_tokens(
    seconds: float, cost: str
) -> None:
    assert any(cost in line for line in text_of(detail(gaining(seconds, 0.1), 0, 46)))


def test_in_words_an_estimate_is_about_so_much_too() -> None:
    assert "about 2.0x as fast" in "\n".join(payoff_lines(figures_of(gaining(0.2, 1.0), state="ready")))


def test_a_column_is_as_high_as_what_was_accepted() -> None:
    ignored = [lambda engine: engine.emit_round(plain="a", ignored=["x"])]
    rounds = rounds_of(plain, *ignored, accepted(0, 4), accepted(2, 2), accepted(4))
    assert text_of([strip(rounds)]) == ["··▁▅█"]
    assert [style for _, style in strip(rounds)] == ["label", "rejected", "accepted"]


def test_why_is_one_sentence_on_two_lines() -> None:
    dear = Reason("unlikely", 0, 16, None, 0.61, 1.0, (1.0, 1.51), (0.0, 0.45))
    rounds = rounds_of(lambda e: e.emit_round(plain="a", reason=dear), knobs=Knobs())
    said = text_of(why(figures_of(rounds, has_draft=True), 46))
    assert said == ["no drafts: draft costs 0.45 of a target pass,", "needs 0.92 accepted, expects 0.61"]


def test_at_the_end_of_a_reply_the_reason_is_not_that_its_last_token_has_no_room() -> None:
    rounds = rounds_of(
        lambda e: e.emit_round(*"abc", bonus="d", reason=Reason("draft", 3, 16, 1.4)),
        lambda e: e.emit_round(plain="a", reason=Reason("no room")),
    )
    assert text_of(why(figures_of(rounds, has_draft=True), 46)) == ["last round: drafting 3 of 16, expected to pay"]


def test_a_single_token_is_one_token() -> None:
    rounds = rounds_of(plain)
    assert summary_line(figures_of(rounds).reply).startswith("1 token at ")
    assert any("1 token: 10.0 t/s" in line for line in text_of(detail(rounds, 0, 46)))


ALONE = replace(PAIR, draft=None)
FIXED = {"policy": "fixed", "drafter": "model"}
DEAR = "draft costs 0.45 of a target pass, needs 0.92 accepted, expects 0.61"
UNLIKELY = Reason("unlikely", 0, 16, None, 0.61, 1.0, (1.0, 1.51), (0.0, 0.45))
REFUSED = "The draft has another vocabulary: token 777 is 'a'."


def unmatched(engine: FakeEngine) -> Round:
    return engine.emit_round(plain="a", reason=Reason("no match", limit=16))


def in_vain(engine: FakeEngine) -> Round:
    return engine.emit_round(correction="a", rejected=[" x", " y"])


def because(reason: Reason) -> Callable[[FakeEngine], Round]:
    return lambda engine: engine.emit_round(plain="a", reason=reason)


UNREAD = Reason("unread", seconds=12.4)
DRAFT_FULL, NO_ROOM = Reason("draft full", limit=64), Reason("no room")
FULL = "the draft's context is full: raise -cd 64"
PAIRED = {"has_draft": True}
TRANSLATED = PAIRED | {"translated": True}


@pytest.mark.parametrize(
    ("knobs", "figures", "writes", "why"),
    [
        (FIXED, {}, [unmatched], "there is no draft model: give one with -md"),
        ({"drafter": "mtp"}, {}, [unmatched], "the model has no heads of its own (MTP)"),
        ({}, {}, [unmatched], "nothing here stood in the text before; no draft model (-md)"),
        (FIXED, {"draft_problem": REFUSED}, [unmatched], REFUSED),
        (FIXED, PAIRED, [because(Reason("p-min", confidence=0.4))], "the next token is at 0.40, under p-min"),
        (FIXED, PAIRED, [because(Reason("draft-min", limit=3, drafted=1))], "1 drafted, under draft-min"),
        ({}, PAIRED, [because(UNLIKELY)], DEAR),
        ({}, PAIRED, [because(UNREAD)], "draft needs 12.4 s to read this text, more than it would save"),
        ({}, PAIRED | {"draft_failed": True}, [unmatched], "the draft model failed; the next reply tries it again"),
        (FIXED | {"p_min": 0.9}, PAIRED, [because(DRAFT_FULL)], FULL),
        (FIXED, TRANSLATED, [unmatched], "the draft has another vocabulary"),
        (FIXED, TRANSLATED, [in_vain], "all drafts are rejected; the draft has another vocabulary"),
        ({}, PAIRED, [in_vain, because(DRAFT_FULL)], "all drafts are rejected; the draft's context is full"),
        ({"drafter": "off"}, PAIRED, [because(Reason("drafter off"))], "the drafter is off"),
        ({"draft_max": 0}, PAIRED, [because(NO_ROOM)], "draft-max is 0"),
        (FIXED, PAIRED, [in_vain], "all drafts are rejected: this text cannot be guessed"),
        # A reply's last token has no room for a draft, whatever the cause before it.
        ({}, PAIRED, [because(Reason("budget")), because(NO_ROOM)], "drafts lost time"),
        ({}, PAIRED, [because(NO_ROOM)], "there is no room for a draft"),
    ],
)
def test_each_cause_is_named(
    knobs: dict[str, object], figures: dict[str, object], writes: list[Callable[[FakeEngine], Round]], why: str
) -> None:
    rounds = rounds_of(*writes * 8, knobs=Knobs(**knobs))  # type: ignore[arg-type]
    assert why in why_no_drafts(figures_of(rounds, **figures))


def test_a_reply_with_drafts_needs_no_cause() -> None:
    assert why_no_drafts(figures_of(rounds_of(plain, accepted(2)))) == ""


def said(pilot: Pilot[None]) -> str:
    """The two lines in which the panel tells why, as one."""
    lines = ["".join(text for text, _ in line) for line in pilot.app.screen.query_one(NowPage).build_lines()]
    told = " ".join(" ".join(lines[6:]).split())
    return told.removeprefix("no drafts: ") if told.startswith(("no drafts: ", "all drafts are rejected")) else ""


async def test_a_cause_is_on_the_panel_until_something_is_drafted(make_app: Make, engine: FakeEngine) -> None:
    async with make_app(PAIR).run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: engine.loads)
        engine.finish_loading()
        await asked(pilot, engine, 9, because(UNLIKELY))
        await wait_until(pilot, lambda: said(pilot) == DEAR)
        engine.emit_round(" b", " c", bonus=" d")
        await wait_until(pilot, lambda: said(pilot) == "")


async def asked(pilot: Pilot[None], engine: FakeEngine, context: int, write: Callable[[FakeEngine], Round]) -> None:
    await ask(pilot, "hi")
    await wait_until(pilot, lambda: engine.generates)
    engine.read_prompt(context, context)
    for _ in range(8):
        write(engine)


async def test_a_draft_of_another_vocabulary_that_is_refused(make_app: Make, engine: FakeEngine) -> None:
    app = make_app(PAIR)
    async with app.run_test(size=(120, 40)) as pilot:
        engine.knobs = replace(engine.knobs, drafter="model")
        await wait_until(pilot, lambda: engine.loads)
        engine.fail_loading(REFUSED, without_draft=True)
        await wait_until(pilot, lambda: app.screen.session.models.without_draft)  # type: ignore[attr-defined]
        await pilot.press("ctrl+d")
        await wait_until(pilot, lambda: engine.loads[1:] == [ALONE])
        engine.finish_loading()
        await asked(pilot, engine, 9, unmatched)
        await wait_until(pilot, lambda: said(pilot) == REFUSED)
        controls.load(app.screen, replace(ALONE, model="/models/other.gguf"))  # type: ignore[arg-type]
        engine.finish_loading()
        await asked(pilot, engine, 9, unmatched)
        await wait_until(pilot, lambda: said(pilot).startswith("there is no draft model"))
