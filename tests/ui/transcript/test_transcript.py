"""The transcript: what is drawn, what is copied, where it scrolls, and that a long reply costs no more than a short one."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.color import Color
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import SELECT_ALL, Selection

from spectui.chat.messages import ChatMessage
from spectui.knobs import Knobs
from spectui.speculation.records import DraftToken, Origin, Round, Token
from spectui.store.rounds.packed import PackedRounds
from spectui.ui.dashboard.status import Legend
from spectui.ui.screen import controls
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.themes import ORIGIN_DEFAULTS
from spectui.ui.transcript.document import INDENT, Block
from spectui.ui.transcript.painter import Painter
from spectui.ui.transcript.reader import Reader
from spectui.ui.transcript.transcript import Transcript
from spectui.ui.transcript.wrap import Row
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import PAIR, Window, answer, ask, wait_until
from tests.ui.screen_text import screen_text


class TranscriptApp(App[None]):
    def get_theme_variable_defaults(self) -> dict[str, str]:
        return ORIGIN_DEFAULTS

    def compose(self) -> ComposeResult:
        yield Reader()


@asynccontextmanager
async def opened(
    size: tuple[int, int], *, replying: bool = False
) -> AsyncIterator[tuple[TranscriptApp, Pilot[None], Transcript]]:
    """A transcript alone, in which a reply may have begun."""
    app = TranscriptApp()
    async with app.run_test(size=size) as pilot:
        transcript = app.query_one(Transcript)
        if replying:
            transcript.start_reply("qwen", 0, PackedRounds())
        yield app, pilot, transcript


def token(text: str, origin: Origin = "plain") -> Token:
    return Token(7, text, origin, "draft" if origin == "accepted" else None, 0, 0, None, 0.9)


def a_round(*accepted: str, last: tuple[str, Origin] | None = None, rejected: Sequence[str] = ()) -> Round:
    drafted = [DraftToken(7, text, 0.9, "draft", "accepted") for text in accepted]
    drafted += [DraftToken(7, text, 0.5, "draft", "rejected") for text in rejected]
    tokens = [token(text, "accepted") for text in accepted] + ([token(*last)] if last else [])
    return Round(0, 0, Knobs(), tuple(drafted), tuple(tokens), 0.01, 0.05, 0.001, 0.07)


FOUR = (
    a_round(last=("one ", "plain")),
    a_round("two ", last=("three ", "correction"), rejected=("never", "\n")),
    a_round("four ", last=("five", "bonus")),
)


def append(transcript: Transcript, rounds: Iterable[Round]) -> None:
    """Let the last reply grow by these rounds."""
    for round in rounds:
        transcript.document.replies[-1].source.rounds.append(round)
    transcript.grow()


def token_at(transcript: Transcript, x: int, y: int) -> Token | None:
    reply = transcript.document.block_at(y)
    number = reply.token_at(y, x) if reply is not None else None
    if reply is None or number is None:
        return None
    round, index = reply.source.round_of(number)
    return reply.source.rounds[round].tokens[index]


def rows(transcript: Transcript) -> list[str]:
    return [transcript.render_line(y).text.rstrip() for y in range(transcript.size.height)]


def style_of(transcript: Transcript | Legend, word: str) -> Style:
    for y in range(transcript.size.height):
        for segment in transcript.render_line(y):
            if word in segment.text and segment.style is not None:
                return segment.style
    raise AssertionError(f"{word!r} is not drawn")


def colour_of(transcript: Transcript, word: str) -> str | None:
    colour = style_of(transcript, word).color
    return colour and Color.from_rich_color(colour).hex


async def test_messages_stand_under_headings_indented() -> None:
    async with opened((40, 12)) as (_, _, transcript):
        transcript.follow([ChatMessage("user", "what [b]is[/b] it?"), ChatMessage("assistant", "a thing")], 0, None)
        transcript.add_notice("nothing else")
        assert rows(transcript)[:7] == [" you", "   what [b]is[/b] it?", "", " assistant", "   a thing", "   nothing else", ""]
        assert transcript.document.text == "you\nwhat [b]is[/b] it?\n\nassistant\na thing"


@pytest.mark.parametrize(
    ("text", "seen", "unfolded"),
    [
        ("\n".join(f"line {number}" for number in range(100)), "▸ 94 more lines, about 198 tokens in all", 105),
        ("\n".join("漢字" for number in range(100)), "▸ 94 more lines, about 175 tokens in all", 105),
        ("data" * 1000, "▸ 3 520 more characters, about 1 001 tokens in all", 79),
    ],
    ids=["lines", "three bytes a sign", "one line"],
)
async def test_a_long_prompt_is_its_first_and_last_lines_until_a_click_and_copied_whole(
    text: str, seen: str, unfolded: int
) -> None:
    async with opened((60, 20)) as (_, pilot, transcript):
        transcript.follow([ChatMessage("user", text), ChatMessage("assistant", "so")], 0, None)
        folded = rows(transcript)
        row = folded.index(f"   {seen}")
        assert row in (4, 6) and folded[row * 2 : row * 2 + 3] == ["", " assistant", "   so"]
        assert "".join(text.split()).endswith("".join("".join(folded[row + 1 : row * 2]).split()))
        for x, height in ((6, unfolded), (9, row * 2 + 3)):
            assert transcript.document.text == f"you\n{text}\n\nassistant\nso"
            transcript.scroll_to(y=0, animate=False, force=True)
            await wait_until(pilot, lambda: not transcript.scroll_offset.y)
            await pilot.click(transcript, offset=(x, row))
            await wait_until(pilot, lambda height=height: transcript.document.height == height)
        assert rows(transcript) == folded


async def test_each_origin_has_its_own_style_and_colour() -> None:
    async with opened((60, 8), replying=True) as (_, _, transcript):
        append(transcript, FOUR)
        for word, origin in (("one", "plain"), ("two", "accepted"), ("three", "correction"), ("five", "bonus")):
            assert colour_of(transcript, word) == ORIGIN_DEFAULTS[f"origin-{origin}"]
        looks = [style_of(transcript, word) for word in ("one", "two", "three", "five")]
        signs = {(look.bold, look.underline, look.italic) for look in looks}
        assert len(signs) == 4, "told apart without colour too"


async def test_where_nobody_drafts_a_text_is_a_text() -> None:
    async with opened((60, 8), replying=True) as (_, _, transcript):
        for number, (word, drafter) in enumerate((("one ", "off"), ("two", "model"))):
            append(transcript, [replace(a_round(last=(word, "plain")), index=number, knobs=Knobs(drafter=drafter))])
        assert style_of(transcript, "two").italic and not style_of(transcript, "one").italic
        assert token_at(transcript, INDENT, 1) == token("one ")


async def test_slanted_is_what_is_rarer(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        screen = app.screen
        assert isinstance(screen, ChatScreen)
        screen.transcript.show_tokens = True
        await ask(pilot, "go")
        await answer(pilot, engine)
        legend = screen.query_one(Legend)

        def slanted() -> list[str]:
            return [
                word
                for part, words in ((screen.transcript, ("def", "add", "(a")), (legend, ("plain", "accepted")))
                for word in words
                if style_of(part, word).italic
            ]

        assert slanted() == ["def", "plain"], "beside a draft"
        controls.load(screen, replace(PAIR, draft=None))
        await wait_until(pilot, lambda: slanted() == ["add", "(a", "accepted"])


async def test_a_theme_repaints_what_stands() -> None:
    async with opened((60, 8)) as (app, pilot, transcript):
        transcript.follow([ChatMessage("user", "hello")], 0, None)
        before = colour_of(transcript, "hello")
        app.theme = "textual-light"
        await wait_until(pilot, lambda: colour_of(transcript, "hello") != before)


async def test_rejected_drafts_stand_before_the_correction_and_never_in_the_text() -> None:
    async with opened((60, 8), replying=True) as (_, pilot, transcript):
        append(transcript, FOUR[:2])
        assert "never" not in rows(transcript)[1]
        transcript.show_rejected = True
        await pilot.pause()
        append(transcript, [FOUR[2]])
        assert rows(transcript)[1] == "   one two never⏎three four five█"
        assert style_of(transcript, "never").strike
        assert transcript.document.text == "qwen\none two three four five"
        assert transcript.get_selection(SELECT_ALL) == (transcript.document.text, "\n")
        assert token_at(transcript, INDENT + 9, 1) is None
        transcript.show_rejected = False
        await pilot.pause()
        assert rows(transcript)[1] == "   one two three four five█"


async def test_the_token_under_a_cell() -> None:
    async with opened((60, 8)) as (_, _, transcript):
        transcript.follow([ChatMessage("user", "hello")], 0, None)
        transcript.start_reply("qwen", 0, PackedRounds())
        append(transcript, FOUR)
        row = next(y for y, line in enumerate(rows(transcript)) if "one two" in line)
        for word in ("one ", "two ", "three ", "four ", "five"):
            x = rows(transcript)[row].index(word)
            found = token_at(transcript, x, row)
            assert found is not None
            assert found.text == word
        for x, y in ((0, row), (59, row), (4, 1), (4, 0), (4, 999), (4, -1)):
            assert token_at(transcript, x, y) is None


@pytest.mark.parametrize(
    "bad", ["\x1b[31mred", "\x1b]52;c;aGk=\x07", "\x1b]0;title\x1b\\", "\x9b31m", "\x9d0;t\x9c", "a\rb", "\x08\x7f\x00", "\x0e"]
)
async def test_no_control_character_reaches_the_terminal(bad: str) -> None:
    async with opened((60, 20)) as (app, pilot, transcript):
        transcript.follow([ChatMessage(f"us{bad}er", f"u{bad}v")], 0, None)
        transcript.add_notice(f"w{bad}x")
        transcript.start_reply(f"q{bad}", 0, PackedRounds())
        transcript.show_rejected = True
        append(transcript, [a_round(f"y{bad}", last=(f"z{bad}", "correction"), rejected=(f"g{bad}",))])
        # Split over tokens, the sequence must not come together again.
        for character in bad:
            append(transcript, [a_round(last=(character, "plain"))])
        transcript.finish_reply()
        transcript.add_notice(f"end{bad}")
        await pilot.pause()
        drawn = screen_text(app).replace("\n", "")
        assert "end" in drawn
        assert drawn.isprintable()
        assert transcript.document.text.replace("\n", "").isprintable()


async def test_another_width_wraps_again_and_keeps_the_row_on_top() -> None:
    async with opened((60, 10)) as (_, pilot, transcript):
        transcript.follow([ChatMessage("user", " ".join(f"word{number:03}" for number in range(200)))], 0, None)
        transcript.scroll_to(y=10, animate=False)
        await pilot.pause()
        word = rows(transcript)[0].split()[0]
        await pilot.resize_terminal(30, 10)
        await wait_until(pilot, lambda: transcript.size.width <= 30 and word in rows(transcript)[0])
        seen = " ".join(rows(transcript)).split()
        first = int(word.removeprefix("word"))
        assert seen == [f"word{number:03}" for number in range(first, first + len(seen))]
        assert transcript.document.text.count("\n") == 1


async def test_selected_text_is_what_was_written() -> None:
    async with opened((24, 12)) as (app, pilot, transcript):
        transcript.follow([ChatMessage("user", "a line that is wrapped twice at least\n\tsecond")], 0, None)
        drawn = rows(transcript)
        assert drawn[1:4] == ["   a line that is", "   wrapped twice at", "   least"]
        picked = transcript.get_selection(Selection(Offset(INDENT + 2, 1), Offset(INDENT + 13, 2)))
        assert picked == ("line that is wrapped twice", "\n")
        assert transcript.get_selection(Selection(Offset(0, 0), Offset(99, 4))) == (transcript.document.text, "\n")
        await pilot.mouse_down(transcript, offset=(INDENT + 2, 1))
        await pilot.hover(transcript, offset=(INDENT + 12, 2))
        await pilot.mouse_up(transcript, offset=(INDENT + 12, 2))
        await wait_until(pilot, lambda: app.screen.get_selected_text() == "line that is wrapped twice")
        assert style_of(transcript, "line that").bgcolor != style_of(transcript, "second").bgcolor, "the selection shows"


async def test_the_cursor_marks_the_growing_reply() -> None:
    async with opened((40, 8), replying=True) as (_, _, transcript):
        assert rows(transcript)[1] == "   █"
        append(transcript, [FOUR[0]])
        transcript.add_notice("by the way")
        append(transcript, [FOUR[2]])
        assert rows(transcript)[1:3] == ["   one four five█", "   by the way"]
        transcript.finish_reply()
        assert rows(transcript)[1] == "   one four five"


async def test_the_work_of_a_frame_does_not_grow_with_the_transcript() -> None:
    async with opened((80, 24), replying=True) as (app, pilot, transcript):
        wrapped: list[int] = []
        layouts: list[object] = []
        with patch("spectui.ui.transcript.wrap.Row", wraps=Row) as made:
            for number in range(500):
                made.reset_mock()
                append(transcript, [a_round(*[f" tok{number}"] * 15, last=("\n", "bonus"))])
                wrapped.append(made.call_count)
                if number == 250:
                    await pilot.pause()
                    with patch.object(app.screen, "_refresh_layout", side_effect=layouts.append):
                        append(transcript, [a_round(last=("x\n", "plain"))])
                        await pilot.pause()
        assert transcript.document.text.count("tok") == 7500
        assert max(wrapped) <= 4, "appending wraps the last row and what is new"
        assert layouts == [], "a new row lays nothing out again"
        await pilot.pause()
        drawn: list[int] = []
        draw = Painter.draw

        def counted_draw(self: Painter, block: Block, row: int) -> object:
            drawn.append(row)
            return draw(self, block, row)

        with patch.object(Painter, "draw", counted_draw):
            append(transcript, [a_round(last=("end\n", "plain"))])
            await wait_until(pilot, lambda: "end" in rows(transcript)[-2])
            await pilot.pause()
        assert len(drawn) == 2, "of a scrolled window only the rows that changed are made again"
