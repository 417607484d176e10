"""Why nothing is drafted: each cause as it comes about in the window, and what the panel then says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from spectui.chat.figures.reasons import why_no_drafts
from spectui.knobs import Knobs
from spectui.speculation.records import Reason, Round
from spectui.ui.dashboard.pages.now import NowPage
from spectui.ui.screen import controls
from tests.fake_engine import FakeEngine
from tests.ui.dashboard.rounds import accepted, figures_of, plain, rounds_of
from tests.ui.pilot_helpers import PAIR, Make, ask, wait_until

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
    told = " ".join(" ".join(lines[2:]).split())
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
