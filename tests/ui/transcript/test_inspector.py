"""The cursor on a token: what it says, how it walks, that it is marked with its round, and that copying is not disturbed."""

from array import array
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.pilot import Pilot

from spectui.knobs import Knobs
from spectui.speculation.records import DraftToken, Round, Token
from spectui.store.rounds import packed
from spectui.store.rounds.packed import PackedRounds
from spectui.ui.app import SpectuiApp
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.transcript.document import Block, Document
from spectui.ui.transcript.drawing import View
from spectui.ui.transcript.inspector import Inspector, token_lines
from spectui.ui.transcript.marks import TokenCursor
from spectui.ui.transcript.source import Source
from spectui.ui.transcript.transcript import Transcript
from spectui.ui.widgets.lines import cells
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Make, Window, ask, load, wait_until, write_reply
from tests.ui.screen_text import screen_text
from tests.ui.transcript.test_transcript import token_at


def said(app: SpectuiApp) -> str:
    """The inspector's lines."""
    return " ".join(
        " ".join("".join(text for text, _ in line).split()) for line in app.screen.query_one(Inspector).build_lines()
    )


async def reply(pilot: Pilot[None], engine: FakeEngine) -> Transcript:
    await load(pilot, engine)
    await ask(pilot, "Write add.")
    write_reply(engine)
    await wait_until(pilot, lambda: not engine.events)
    return pilot.app.screen.query_one(Transcript)


async def test_f4_puts_the_cursor_on_the_last_token_and_says_all_that_is_known(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        transcript = await reply(pilot, engine)
        await pilot.press("f4", "left", "left")
        await wait_until(pilot, lambda: "likeliest" in screen_text(app))
        assert transcript.inspected is not None and transcript.inspected.text == " +"
        for part in ('" +" id 75 position 1 212 target .950 draft .900', "accepted 2nd of 3 by suffix",
                     "round 3 160 ms: draft 27 verify 129 sampling 2 other 3",
                     'likeliest " +" .950 " the" .030 " a" .008 "⏎" .003 "." .001'):  # fmt: skip
            assert part in said(app)
        await pilot.press("escape")
        await wait_until(pilot, lambda: "likeliest" not in screen_text(app))
        assert app.focused is app.screen.query_one(PromptInput) and not engine.stops


async def test_a_correction_says_what_it_stands_in_place_of(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        transcript = await reply(pilot, engine)
        await pilot.press("f4", "shift+left", "right")
        assert transcript.inspected is not None and transcript.inspected.origin == "correction"
        await wait_until(pilot, lambda: 'correction 2nd of 3 by model was " pass": target .030 draft .900' in said(app))


LONG = (" responsibilities", " 漢字漢字漢字", " " * 40)


@pytest.mark.parametrize("width", [68, 78])
@pytest.mark.parametrize("text", LONG)
def test_no_figure_is_cut_however_long_the_texts_are(text: str, width: int) -> None:
    engine = FakeEngine()
    engine.position = 123_456
    rounds = [
        engine.emit_round(*[text] * 11, correction=text, rejected=[text + "!"] * 5, source="suffix", seconds=12.5),
        engine.emit_round(*[text] * 16, bonus=text),
        engine.emit_round(plain=text, ignored=[text]),
        engine.emit_round(plain=text),
    ]
    best = array("f", (0.9, 0.05, 0.03, 0.02, 0.0001) * 17).tobytes()
    for round in rounds:
        assert round.likeliest is not None
        round = replace(round, likeliest=round.likeliest._replace(texts=(text,) * 85, p=best))
        for token in round.tokens:
            lines = token_lines(token, round, width)
            assert len(lines) == 5
            assert all(cells(line) <= width for line in lines)
            drawn = " ".join("".join(piece for piece, _ in line) for line in lines)
            for figure in ("123 4", ".950", ".900", ".050", ".030", ".020", "<.001", "draft", "verify", "other"):
                assert figure in drawn, drawn


def test_in_a_narrow_window_the_token_comes_before_its_figures() -> None:
    round = FakeEngine().emit_round(plain=" token")
    assert token_lines(round.tokens[0], round, 20)[0][0] == ('" token"', "plain")


def test_what_was_not_drafted_says_what_was() -> None:
    def story(round: Round) -> str:
        return "".join(text for text, _ in token_lines(round.tokens[-1], round, 68)[1])

    engine = FakeEngine()
    assert story(engine.emit_round("a", "b", bonus="c")) == "bonus       after 2 by model"
    assert story(engine.emit_round(plain="a")) == "plain       nothing drafted"
    assert story(engine.emit_round(plain="a", ignored=["x", "y"])) == "plain       2 drafted, ignored"


async def test_a_double_click_inspects_and_a_click_or_a_selection_does_not(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        transcript = await reply(pilot, engine)
        row = next(y for y, line in enumerate(screen_text(app).splitlines()) if "def add" in line) - transcript.region.y
        await pilot.mouse_down(transcript, offset=(3, row))
        await pilot.hover(transcript, offset=(9, row))
        await pilot.mouse_up(transcript, offset=(9, row))
        await pilot.pause()
        assert transcript.inspected is None
        assert app.screen.get_selected_text() == "def add"
        await pilot.click(transcript, offset=(8, row))
        assert transcript.inspected is None, "five lines are much for a click"
        await pilot.click(transcript, offset=(8, row), times=2)
        assert transcript.inspected is not None and transcript.inspected.text == " add"
        assert app.screen.query_one(Inspector).display
        assert not app.screen.get_selected_text()
        await pilot.click(transcript, offset=(11, row))
        assert transcript.inspected.text == "(a", "the cursor is there already"
        await pilot.click(transcript, offset=(60, row))
        assert transcript.inspected is None
        assert not app.screen.query_one(Inspector).display


async def test_the_cursor_survives_rejected_drafts_a_resize_and_a_new_chat(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        transcript = await reply(pilot, engine)
        await pilot.press("f4", "left", "left")
        token = transcript.inspected
        await pilot.press("f3")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert transcript.inspected is token
        assert '" +"' in screen_text(app)
        await pilot.press("ctrl+n")
        await wait_until(pilot, lambda: not app.screen.query_one(Inspector).display)
        assert transcript.inspected is None


async def test_a_token_long_past_is_told_of_as_when_it_was_new(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "Go.")
        engine.read_prompt(10, 10)
        for _ in range(200):
            engine.emit_round(" same", " same", correction=" other", rejected=(" wrong",))
        transcript = app.screen.query_one(Transcript)
        await wait_until(pilot, lambda: len(app.screen.session.writing.rounds) == 200)
        first = app.screen.session.writing.rounds[0]
        await wait_until(pilot, lambda: "same" in screen_text(app))
        await pilot.press("f4")
        await wait_until(pilot, lambda: "likeliest" in screen_text(app))
        row = next(y for y in range(9) if token_at(transcript, 4, y) is not None)
        transcript.scroll_to(y=0, animate=False, force=True)
        await wait_until(pilot, lambda: not transcript.scroll_offset.y and "Go." in screen_text(app))
        await pilot.click(Transcript, offset=(4, row))
        assert transcript.inspected == first.tokens[0]
        await pilot.press("right")
        assert transcript.inspected == first.tokens[1], "equal in text and id, and yet another"
        await pilot.press("right")
        assert '" other"' in screen_text(app) and 'was " wrong"' in screen_text(app) and "round 0" in screen_text(app)
        await pilot.press("shift+right")
        assert "round 1" in screen_text(app)


def _cursor(texts: list[list[str]], width: int, rejected: bool) -> tuple[TokenCursor, Block]:
    rounds = PackedRounds()
    for index, words in enumerate(texts):
        tokens = tuple(Token(0, text, "accepted", "model", index, 0, 0.5, 0.5) for text in words)
        drafted = (DraftToken(0, "never", 0.5, "model", "rejected"),)
        rounds.append(Round(index, 0, Knobs(), drafted, tokens, 0, 0, 0, 1))
    document, source = Document(), Source(rounds)
    source.grow()
    reply = document.add_reply("qwen", 0, source)
    reply.draw(View(width, rejected=rejected))
    document.lay_out(0)
    return TokenCursor(document), reply


@patch.object(packed, "CHUNK", 1)
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.text("ab \n\t漢é", max_size=5), min_size=1, max_size=4), min_size=1, max_size=6),
    st.integers(2, 20), st.booleans(),
)  # fmt: skip
def test_walking_visits_every_token_once_and_what_is_marked_is_its_text(
    rounds: list[list[str]], width: int, rejected: bool
) -> None:
    cursor, reply = _cursor(rounds, width, rejected)
    assert cursor.put_last()
    walked = [cursor.token]
    while cursor.step(-1):
        walked.append(cursor.token)
    assert walked[::-1] == [token for round in reply.source.rounds for token in round.tokens]
    for number, token in enumerate(walked[::-1]):
        assert cursor.put(reply, number) and cursor.token == token and token is not None
        if not token.text:  # drawn as the cell in which it would stand
            continue
        drawn = ""
        for row in range(reply.drawing.height):
            line = "".join(text for text, _ in reply.drawing.runs(row))
            drawn += "".join(line[start:end] for start, end, own in cursor.spans(reply, row) if own)
        assert drawn.replace(" ", "").strip() == token.text.replace("\t", "").replace(" ", "").replace("\n", "").strip()


def test_the_cursor_goes_up_and_down_by_rows() -> None:
    cursor, _ = _cursor([["aa ", "bb\n"], ["cc ", "dd"]], 20, False)
    cursor.put_last()
    assert cursor.step_row(-1) and cursor.token is not None and cursor.token.text == "bb\n"
    assert not cursor.step_row(-1)
    assert cursor.step_row(1) and cursor.token.text == "dd"
    assert cursor.step_round(-1) and cursor.token.text == "aa "
    assert cursor.rows() == range(1, 2), "below the heading"
    assert cursor.row() == 1
