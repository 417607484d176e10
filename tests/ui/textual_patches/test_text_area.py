"""Undo in a text area that grows and shrinks."""

from textual.app import App, ComposeResult

from spectui.ui.textual_patches.text_area import SteadyTextArea


class Box(App[None]):
    CSS = "SteadyTextArea { height: auto; max-height: 6; border: none; }"

    def compose(self) -> ComposeResult:
        yield SteadyTextArea()


async def test_undo_where_the_scrollbar_goes_with_the_lines() -> None:
    app = Box()
    async with app.run_test(size=(40, 12)) as pilot:
        area = app.query_one(SteadyTextArea)
        area.insert("one\n" * 3)
        area.history.checkpoint()
        area.insert("two\n" * 8)
        await pilot.pause()
        assert area.show_vertical_scrollbar and area.cursor_location == (11, 0)
        area.undo()
        await pilot.pause()
        assert area.text == "one\n" * 3 and area.cursor_location == (3, 0)
        area.redo()
        await pilot.pause()
        assert area.text == "one\n" * 3 + "two\n" * 8
