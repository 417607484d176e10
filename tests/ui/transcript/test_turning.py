"""A reply turns from tokens to text: what is read stays in place, and keys are taken between two long ones."""

from dataclasses import replace
from unittest.mock import patch

import pytest
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import SELECT_ALL, Selection

from spectui.store.rounds.packed import PackedRounds
from spectui.ui.transcript import transcript as module
from spectui.ui.transcript.document import Block
from spectui.ui.transcript.painter import Painter
from spectui.ui.transcript.transcript import Transcript
from tests.ui.pilot_helpers import wait_until
from tests.ui.transcript.test_transcript import a_round, append, opened, rows, token_at

PART = """\
## Part {0}

- item {0} has **strong** words, and so many of them that they do not fit in one row of it
- `code{0}`

| a | b |
|---|---|
| cell{0} | *b* |

```python
def function{0}():
    return {0}
```

"""


def write(transcript: Transcript, parts: int) -> str:
    """A reply of so many parts, which goes on. Returns its text."""
    text = "".join(PART.format(number) for number in range(parts))
    transcript.start_reply("qwen", 0, PackedRounds())
    cuts = [text[at : at + 5] for at in range(0, len(text), 5)]
    rounds = (replace(a_round(*cuts[at : at + 3], last=("", "bonus")), index=at // 3) for at in range(0, len(cuts), 3))
    append(transcript, rounds)
    return text


def is_text(transcript: Transcript) -> bool:
    return all(reply.is_drawn and reply.drawing.view.as_text for reply in transcript.document.replies)


async def written(pilot: Pilot[None], transcript: Transcript, parts: int) -> None:
    """A reply of so many parts, drawn as text."""
    write(transcript, parts)
    transcript.finish_reply()
    await wait_until(pilot, lambda: is_text(transcript))


async def test_the_line_that_is_read_stays_in_place() -> None:
    async with opened((50, 12)) as (_, pilot, transcript):
        text = write(transcript, 4)
        name = "function2"
        row = next(at for at in range(transcript.virtual_size.height) if name in transcript_row(transcript, at))
        transcript.scroll_to(y=row, animate=False)
        await pilot.pause()
        transcript.finish_reply()
        await wait_until(pilot, lambda: is_text(transcript))
        assert rows(transcript)[0] == f"   │ def {name}():"
        transcript.show_tokens = True
        await wait_until(pilot, lambda: rows(transcript)[0] == f"   def {name}():")
        transcript.show_tokens = False
        await wait_until(pilot, lambda: rows(transcript)[0] == f"   │ def {name}():")
        await pilot.resize_terminal(33, 12)
        await wait_until(pilot, lambda: transcript.size.width <= 33 and is_text(transcript))
        assert rows(transcript)[0] == f"   │ def {name}():"
        assert transcript.get_selection(SELECT_ALL) == (transcript.document.text, "\n") == (f"qwen\n{text}", "\n")


def transcript_row(transcript: Transcript, row: int) -> str:
    return transcript.render_line(row - transcript.scroll_offset.y).text


async def test_a_view_at_the_end_stays_there() -> None:
    async with opened((50, 12)) as (_, pilot, transcript):
        write(transcript, 4)
        transcript.finish_reply()
        transcript.add_notice("stopped")
        await wait_until(pilot, lambda: is_text(transcript))
        assert transcript.scroll_y == transcript.max_scroll_y and rows(transcript)[-1] == "   stopped"


async def test_the_window_has_a_turn_between_two_long_replies_and_draws_only_what_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AT_ONCE_S", 0.0)
    async with opened((50, 12)) as (_, pilot, transcript):
        for _ in range(3):
            write(transcript, 8)
            transcript.finish_reply()
        await wait_until(pilot, lambda: is_text(transcript))
        drawn = set[int]()
        draw = Painter.draw

        def counted(self: Painter, block: Block, row: int) -> object:
            drawn.add(row)
            return draw(self, block, row)

        with patch.object(Painter, "draw", counted):
            transcript.show_tokens = True
            assert [reply.drawing.view.as_text for reply in transcript.document.replies] == [True, True, False], (
                "the last is seen"
            )
            await wait_until(pilot, lambda: not transcript.stale())
            await pilot.pause()
        assert len(drawn) <= 4 * 12 < transcript.document.height


async def test_what_is_selected_in_a_text_is_copied_as_it_was_written() -> None:
    async with opened((50, 24)) as (_, pilot, transcript):
        await written(pilot, transcript, 1)

        def copied(first: str, last: str) -> str:
            seen = rows(transcript)
            top = next(at for at, row in enumerate(seen) if first in row)
            bottom = next(at for at, row in enumerate(seen) if last in row)
            start = Offset(seen[top].index(first), top)
            end = Offset(seen[bottom].index(last) + len(last), bottom)
            found = transcript.get_selection(Selection(start, end))
            assert found is not None
            return found[0]

        assert copied("strong", "strong") == "**strong**"
        assert copied("trong wor", "trong wor") == "trong** wor"
        assert copied("• item", "code0") == PART.format(0)[11:].partition("\n\n|")[0]
        assert copied("╭ python", "╰─") == "```python\ndef function0():\n    return 0\n```"
        assert copied("a     │ b", "cell0 │ b") == "| a | b |\n|---|---|\n| cell0 | *b* |"


async def test_a_click_and_the_cursor_find_the_tokens_of_a_text() -> None:
    async with opened((50, 24)) as (_, pilot, transcript):
        await written(pilot, transcript, 1)
        seen = rows(transcript)
        row = next(at for at, line in enumerate(seen) if "strong" in line)
        found = token_at(transcript, seen[row].index("strong") + 2, row)
        assert found is not None and found.text == "*stro"
        assert transcript.inspect_last()
        assert any("```" in line for line in rows(transcript)), "the cursor is on tokens"
        transcript.mark_round(None)
        assert not any("```" in line for line in rows(transcript))
        await pilot.double_click(transcript, offset=(seen[row].index("strong") + 2, row))
        await wait_until(pilot, lambda: transcript.inspected is found or transcript.inspected == found)
        assert any("```" in line for line in rows(transcript))


async def test_the_cursor_lets_what_is_selected_go() -> None:
    """It is among tokens, which have other rows than the text that was selected."""
    async with opened((30, 24)) as (app, pilot, transcript):
        await written(pilot, transcript, 3)
        await pilot.mouse_down(transcript, offset=(4, 3))
        await pilot.hover(transcript, offset=(9, 8))
        await pilot.mouse_up(transcript, offset=(9, 8))
        assert app.screen.get_selected_text()
        assert transcript.inspect_last()
        await pilot.pause()
        assert not app.screen.get_selected_text() and any("```" in line for line in rows(transcript))
