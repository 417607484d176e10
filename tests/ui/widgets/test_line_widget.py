"""Lines of figures: how texts are wrapped, and what of a name is drawn."""

from __future__ import annotations

import pytest
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Label, OptionList

from spectui.ui.textual_patches.app import TerminalApp
from spectui.ui.textual_patches.text_area import SteadyTextArea
from spectui.ui.themes import ORIGIN_DEFAULTS
from spectui.ui.widgets.knob import ChoiceRow
from spectui.ui.widgets.line_widget import Line, LineWidget, labelled, wrapped
from tests.ui.screen_text import screen_text


@pytest.mark.parametrize("width", range(21, 60))
def test_no_line_ends_within_a_number_or_before_its_unit(width: int) -> None:
    lines = ["".join(text for text, _ in line)[12:] for line in wrapped("draft", "Q2_K, 0.1 GB, 4 096 cells", width)]
    assert " ".join(line.strip() for line in lines) == "Q2_K, 0.1 GB, 4 096 cells"
    assert any("0.1 GB" in line for line in lines) and any("4 096" in line for line in lines)


NAME = "a\x1b]52;c;ZXZpbA==\x07\x9b2Jb\u202e"


class Named(LineWidget):
    def build_lines(self) -> list[Line]:
        return [labelled("profile", (NAME, "value"))]


class Everywhere(TerminalApp):
    """The name as every widget takes it."""

    CSS = "Named { height: 1; } OptionList, SteadyTextArea, Vertical { height: 3; } Vertical { border: solid red; }"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return ORIGIN_DEFAULTS

    def compose(self) -> ComposeResult:
        yield Named()
        yield ChoiceRow("profile", "profile", NAME, choices=(NAME,), default=NAME)
        yield Label(NAME, markup=False)
        yield OptionList(NAME)
        yield Input(NAME)
        yield SteadyTextArea(NAME)
        with Vertical() as box:
            box.border_title = NAME


async def test_no_control_character_of_a_name_reaches_the_terminal() -> None:
    app = Everywhere()
    async with app.run_test(size=(80, 40)) as pilot:
        app.query_one(SteadyTextArea).text = NAME
        app.notify(NAME, title=NAME, markup=False)
        await pilot.pause()
        drawn = screen_text(app)
        assert drawn.count("a]52;c;ZXZpbA==2Jb") >= 6
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(drawn)
