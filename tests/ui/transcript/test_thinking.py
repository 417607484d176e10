"""What a model thinks: found while it is written, shown dim, folded when it ends, unfolded at a key or a click."""

from contextlib import closing
from pathlib import Path
from threading import RLock

from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import SELECT_ALL

from spectui.chat.messages import OpenedConversation
from spectui.chat.text.thinking import Thinking
from spectui.engine.events import Message
from spectui.knobs import Knobs
from spectui.store.database import connect
from spectui.store.journal import Journal
from spectui.store.library import last
from spectui.store.rows import ConversationLog, write
from spectui.ui.transcript.transcript import Transcript
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Window, ask, wait_until
from tests.ui.screen_text import screen_text

FOLDED = "   ▸ thinking: 6 tokens, 0.6 s"
THOUGHT = ("<think>", "\n", "let", " me", " see", "</think>")
SPOKEN = "\n\nIt is four."


def counted(*texts: tuple[str, bool]) -> list[tuple[int, int | None, int, float]]:
    """The sections of a reply of these tokens, a round of 0.1 s each."""
    engine, thinking = FakeEngine(), Thinking()
    for text, thought in texts:
        thinking.add(engine.emit_round(plain=text, seconds=0.1, thought=thought))
    return [(each.start, each.end, each.tokens, round(each.seconds, 6)) for each in thinking.sections]


def test_sections_are_what_the_tokens_note() -> None:
    twice = [("<think>", True), ("a", True), ("</think>\n\n", True), ("<think> b", False), ("\n<think>", True), ("c", True)]
    assert counted(*twice) == [(0, 16, 3, 0.3), (28, None, 2, 0.2)]
    assert counted(("a", False), ("</think>\n\n", True), ("b", False)) == [(0, 9, 2, 0.2)], "it began before the text"


def drawn(pilot: Pilot[None]) -> list[str]:
    transcript = pilot.app.screen.query_one(Transcript)
    return [transcript.render_line(y).text.rstrip() for y in range(transcript.size.height)]


def dim(pilot: Pilot[None], y: int, word: str) -> bool:
    """Whether a plain token's word in this row has another colour than plain tokens have."""
    transcript = pilot.app.screen.query_one(Transcript)
    plain = transcript.get_component_rich_style("transcript--plain").color
    return any(word in each.text and each.style and each.style.color != plain for each in transcript.render_line(y))


async def say(pilot: Pilot[None], engine: FakeEngine, text: str) -> None:
    """End the reply with this."""
    engine.emit_round(plain=text, seconds=0.1, thought=False)
    engine.finish()
    await wait_until(pilot, lambda: not engine.events)


async def think(pilot: Pilot[None], engine: FakeEngine) -> None:
    """Have a prompt answered up to the end of the thinking."""
    await ask(pilot, "2+2")
    await wait_until(pilot, lambda: engine.generates)
    engine.read_prompt(3, 3)
    for text in THOUGHT:
        engine.emit_round(plain=text, seconds=0.1, thought=True)
        await wait_until(pilot, lambda: not engine.events)
        if "see" in text:
            shown = drawn(pilot)
            assert "   let me see█" in shown, "unfolded while it lasts"
            assert dim(pilot, shown.index("   let me see█"), "let"), "and dim"


async def test_thinking_is_ended_with_a_key_and_the_budget_is_as_before_behind_it(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):

        def offered() -> bool:
            return "Answer now" in screen_text(app)

        await ask(pilot, "why")
        await pilot.press("alt+n")
        for text in ("<think>", "let", "</think>"):
            assert engine.knobs.reasoning_budget == (0 if text == "</think>" else -1)
            engine.emit_round(plain=text, thought=True)
            await wait_until(pilot, offered)
            await pilot.press("alt+n") if text == "let" else None
        engine.emit_round(plain="It", thought=False)
        await wait_until(pilot, lambda: not offered())
        assert engine.knobs == Knobs()


async def test_a_key_or_a_click_unfolds_and_folds(window: Window, engine: FakeEngine) -> None:
    async with window(size=(100, 30)) as (_, pilot):
        await think(pilot, engine)
        await say(pilot, engine, "It")
        folded = drawn(pilot)
        assert folded[folded.index(FOLDED) + 1] == "   It", "a line of its own"
        await pilot.press("alt+t")
        rows = drawn(pilot)
        at = rows.index(FOLDED.replace("▸", "▾"))
        assert rows[at + 1 : at + 4] == ["   <think>", "   let me see</think>It", ""]
        await pilot.press("alt+t")
        assert drawn(pilot) == folded
        for expected in (rows, folded):
            await pilot.click(Transcript, offset=Offset(6, at))
            await wait_until(pilot, lambda expected=expected: drawn(pilot) == expected)  # type: ignore[misc]


async def test_a_reply_that_was_cut_off_while_it_thought_is_dim_when_it_is_opened_again(
    window: Window, engine: FakeEngine, file: Path
) -> None:
    journal = Journal(file)
    async with window(journal=journal) as (_, pilot):
        await ask(pilot, "2+2")
        await wait_until(pilot, lambda: engine.generates)
        engine.read_prompt(3, 3)
        engine.emit_round(plain="<think>let", seconds=0.1, thought=True)
        await wait_until(pilot, lambda: not engine.events)
        journal.flush()
    kept = last(file)
    assert kept is not None
    anew = file.with_name("anew.db")
    with closing(connect(anew)) as connection:
        write(connection, ConversationLog(kept, OpenedConversation.of(kept).messages, RLock()), whole=True)
    for was in (kept, last(anew)):
        async with window(conversation=was) as (_, pilot):
            await wait_until(pilot, lambda: any("let" in row for row in drawn(pilot)))
            (y,) = (y for y, row in enumerate(drawn(pilot)) if row.endswith("let"))
            assert dim(pilot, y, "let")


async def test_copied_as_it_is_seen_and_sent_and_kept_as_it_was_written(window: Window, engine: FakeEngine) -> None:
    async with window(size=(100, 30)) as (app, pilot):
        await think(pilot, engine)
        assert any(row.startswith(FOLDED) for row in drawn(pilot)), "as soon as it ends"
        assert not any("let me see" in row for row in drawn(pilot))
        await say(pilot, engine, SPOKEN)
        rows = drawn(pilot)
        at = rows.index(FOLDED)
        assert rows[at + 1 : at + 3] == ["", "   It is four."], rows
        transcript = app.screen.query_one(Transcript)
        assert transcript.document.text.endswith("target\n" + SPOKEN), transcript.document.text
        assert transcript.get_selection(SELECT_ALL) == (transcript.document.text, "\n")
        await pilot.press("alt+t")
        assert transcript.document.text.endswith("target\n" + "".join(THOUGHT) + SPOKEN)
        await ask(pilot, "and 3+3")
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        reply = engine.generates[1][1]._replace(tokens=())
        assert reply == Message("assistant", SPOKEN.strip(), thought="let me see"), "the template leaves it out, or not"


async def test_the_cursor_skips_what_is_folded_and_goes_when_it_is_folded_away(window: Window, engine: FakeEngine) -> None:
    async with window(size=(100, 30)) as (app, pilot):
        await think(pilot, engine)
        await say(pilot, engine, "It")
        transcript = app.screen.transcript  # type: ignore[attr-defined]
        await pilot.press("f4", "left")
        assert transcript.inspected.text == "It", "nothing is drawn before it"
        await pilot.press("alt+t", "left")
        assert transcript.inspected.text == "</think>"
        await pilot.press("f3")
        assert transcript.inspected.text == "</think>", "rejected drafts do not move it"
        await pilot.press("alt+t")
        assert transcript.inspected is None


async def test_nothing_folds_under_the_eyes_of_who_reads_back(window: Window, engine: FakeEngine) -> None:
    async with window(size=(100, 12)) as (app, pilot):
        await ask(pilot, "2+2")
        await wait_until(pilot, lambda: engine.generates)
        engine.emit_round(plain="<think>\n" + "so\n" * 50, thought=True)
        await wait_until(pilot, lambda: not engine.events)
        await pilot.press("pageup")
        transcript = app.screen.query_one(Transcript)
        await wait_until(pilot, lambda: transcript.scroll_offset.y < transcript.max_scroll_y)
        engine.emit_round(plain="</think>")
        await wait_until(pilot, lambda: not engine.events)
        assert "   so" in drawn(pilot)
