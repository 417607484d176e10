"""Why nothing is drafted: each cause as it comes about in the window, and what the panel then says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from spectui.knobs import Setup
from spectui.speculation.records import Reason
from spectui.ui.dashboard.pages.now import NowPage
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import PAIR, Make, ask, wait_until

ALONE = replace(PAIR, draft=None)
FIXED = {"policy": "fixed", "drafter": "model"}
DEAR = "draft costs 0.45 of a target pass, needs 0.92 accepted, expects 0.61"
UNLIKELY = Reason("unlikely", 0, 16, None, 0.61, 1.0, (1.0, 1.51), (0.0, 0.45))
REFUSED = "The draft has another vocabulary: token 777 is 'a'."


def plainly(engine: FakeEngine) -> None:
    engine.emit_round(plain="a")


def with_a_short_draft(engine: FakeEngine) -> None:
    engine.emit_round(plain="a", ignored=[" x"])


def when_it_does_not_pay(engine: FakeEngine) -> None:
    engine.emit_round(plain="a", reason=UNLIKELY)


def without_having_read(engine: FakeEngine) -> None:
    engine.emit_round(plain="a", reason=Reason("unread", seconds=12.4))


FULL = "the draft's context is full: raise -cd 64"


def without_a_match(engine: FakeEngine) -> None:
    engine.emit_round(plain="a", reason=Reason("no match", limit=16))


def without_room_in_the_draft(engine: FakeEngine) -> None:
    engine.emit_round(plain="a", reason=Reason("draft full", limit=64))


def in_vain_without_room_in_the_draft(engine: FakeEngine) -> None:
    engine.emit_round(correction="a", rejected=[" x"])
    without_room_in_the_draft(engine)


def in_vain(engine: FakeEngine) -> None:
    engine.emit_round(correction="a", rejected=[" x", " y"])


def after_the_draft_failed(engine: FakeEngine) -> None:
    engine.notify("The draft model failed.", draft_failed=True)
    engine.emit_round(plain="a")


def said(pilot: Pilot[None]) -> str:
    """The two lines in which the panel tells why, as one."""
    lines = ["".join(text for text, _ in line) for line in pilot.app.screen.query_one(NowPage).build_lines()]
    told = " ".join(" ".join(lines[2:]).split())
    return told.removeprefix("no drafts: ") if told.startswith(("no drafts: ", "all drafts are rejected")) else ""


@pytest.mark.parametrize(
    ("setup", "knobs", "context", "write", "why"),
    [
        (ALONE, FIXED, 9, plainly, "there is no draft model: give one with -md"),
        (ALONE, {}, 9, without_a_match, "nothing here stood in the text before; no draft model (-md)"),
        (PAIR, FIXED | {"p_min": 0.9}, 9, plainly, "no first token reaches p-min 0.90: lower it"),
        (PAIR, FIXED | {"draft_min": 3}, 9, with_a_short_draft, "all drafts are shorter than draft-min 3"),
        (PAIR, {}, 9, when_it_does_not_pay, DEAR),
        (PAIR, {}, 9, without_having_read, "draft needs 12.4 s to read this text, more than it would save"),
        (PAIR, {}, 4095, plainly, "the context is nearly full: no room for a draft"),
        (PAIR, {}, 9, after_the_draft_failed, "the draft model failed; the next reply tries it again"),
        (PAIR, FIXED | {"p_min": 0.9}, 9, without_room_in_the_draft, FULL),
        (PAIR, {}, 9, without_room_in_the_draft, FULL),
        (PAIR, {}, 9, in_vain_without_room_in_the_draft, "all drafts are rejected; the draft's context is full"),
        (PAIR, {"drafter": "off"}, 9, plainly, "the drafter is off"),
        (PAIR, {"draft_max": 0}, 9, plainly, "draft-max is 0"),
        (PAIR, FIXED, 9, in_vain, "all drafts are rejected: this text cannot be guessed"),
        (PAIR, {"policy": "fixed", "drafter": "suffix"}, 9, plainly, "nothing here stood in the conversation before"),
    ],
)
async def test_each_cause_is_named_when_it_comes_about(
    make_app: Make,
    engine: FakeEngine,
    setup: Setup,
    knobs: dict[str, object],
    context: int,
    write: Callable[[FakeEngine], None],
    why: str,
) -> None:
    app = make_app(setup)
    async with app.run_test(size=(120, 40)) as pilot:
        engine.knobs = replace(engine.knobs, **knobs)  # type: ignore[arg-type]
        await wait_until(pilot, lambda: engine.loads)
        engine.finish_loading()
        await asked(pilot, engine, context, write)
        await wait_until(pilot, lambda: why in said(pilot))
        engine.read_prompt(9, 9)
        engine.knobs = replace(engine.knobs, drafter="auto", policy="auto", draft_max=16, draft_min=0)
        engine.emit_round(" b", " c", bonus=" d")
        await wait_until(pilot, lambda: said(pilot) == "")


async def asked(pilot: Pilot[None], engine: FakeEngine, context: int, write: Callable[[FakeEngine], None]) -> None:
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
        await asked(pilot, engine, 9, plainly)
        await wait_until(pilot, lambda: said(pilot) == REFUSED)
        app.screen.controls.load(replace(ALONE, model="/models/other.gguf"))  # type: ignore[attr-defined]
        engine.finish_loading()
        await asked(pilot, engine, 9, plainly)
        await wait_until(pilot, lambda: said(pilot).startswith("there is no draft model"))


@pytest.mark.parametrize("write", [plainly, in_vain])
async def test_a_draft_of_another_vocabulary_that_is_translated(
    make_app: Make, engine: FakeEngine, write: Callable[[FakeEngine], None]
) -> None:
    app = make_app(PAIR)
    async with app.run_test(size=(120, 40)) as pilot:
        engine.knobs = replace(engine.knobs, drafter="model", policy="fixed")
        await wait_until(pilot, lambda: engine.loads)
        engine.finish_loading("Token 777 is 'x' in the draft and 'y' in the target. It drafts by text.")
        await asked(pilot, engine, 9, write)
        await wait_until(pilot, lambda: "the draft has another vocabulary" in said(pilot))
