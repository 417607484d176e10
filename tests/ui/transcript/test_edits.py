"""An edit is a diff: a code block that repeats most of what stood before folds to its changed lines when the reply ends."""

from __future__ import annotations

import pytest

from spectui.chat.text.edits import edits
from spectui.ui.transcript.transcript import Transcript
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Window, ask, wait_until
from tests.ui.screen_text import screen_text

OLD = [f"line {number} = {number}" for number in range(20)]
NEW = [*OLD[:4], "line 4 = four", *OLD[5:12], "line 11b = 0", *OLD[12:]]
EDITED = "Here:\n\n```python\n" + "\n".join(NEW) + "\n```\n\nDone."


@pytest.mark.parametrize(
    ("text", "before", "changed"),
    [
        (EDITED, "Change it:\n" + "\n".join(OLD), [2]),
        (EDITED, "```\n" + "\n".join(OLD) + "\n```\n", [2]),
        (EDITED, "\n".join(["import x", *OLD, "end"]), [2]),
        (EDITED.removesuffix("\n```\n\nDone."), "\n".join(OLD), []),
        (EDITED, "\n".join(OLD[:6]), []),
        ("```\n" + "\n".join(OLD[:3]) + "\n```", "\n".join(OLD), []),
    ],
    ids=["paste", "code block", "a part of it", "unended", "mostly new", "short"],
)
def test_what_repeats_most_of_an_earlier_text_is_an_edit_of_it(text: str, before: str, changed: list[int]) -> None:
    found = list(edits(text, ["something else", before]))
    assert [edit.changed for edit in found] == changed
    for edit in found:
        assert text[edit.start : edit.end] == EDITED[7 : EDITED.index("\n\nDone")]
        assert edit.lines == (
            "  line 3 = 3", "- line 4 = 4", "+ line 4 = four", "  line 11 = 11", "+ line 11b = 0",
        )  # fmt: skip


async def test_it_folds_at_its_end_and_enter_opens_it(window: Window, engine: FakeEngine) -> None:
    async with window(size=(100, 60)) as (app, pilot):
        await ask(pilot, "Change it:\n" + "\n".join(OLD))
        for line in EDITED.splitlines(keepends=True):
            engine.emit_round(plain=line)
        await wait_until(pilot, lambda: "Done." in screen_text(app))
        assert "changed" not in screen_text(app), "nothing is hidden while it is written"
        engine.finish()
        await wait_until(pilot, lambda: "▸ 2 lines changed" in screen_text(app))
        rows = [line.partition("│")[0].strip() for line in screen_text(app).splitlines()]
        at = next(number for number, row in enumerate(rows) if "2 lines changed" in row)
        below = ["line 3 = 3", "- line 4 = 4", "+ line 4 = four", "line 11 = 11", "+ line 11b = 0", "", "Done."]
        assert rows[at + 1 : at + 8] == below
        assert EDITED in app.screen.query_one(Transcript).document.text, "copying takes all"
        await pilot.press("alt+k")
        assert app.clipboard == "\n".join(NEW)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "▾ 2 lines changed" in screen_text(app) and "line 19 = 19" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "▸ 2 lines changed" in screen_text(app))
