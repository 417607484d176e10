"""A reply as text: its blocks, its marks, and that no letter of it is lost, however damaged its Markdown is."""

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import cycle, islice
from types import FrameType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pygments.lexers.python import PythonLexer
from rich.cells import cell_len

from spectui.chat.text.code_blocks import code_blocks, finished
from spectui.store.rounds.packed import PackedRounds
from spectui.text import safe
from spectui.ui.transcript.drawing import Drawing, View
from spectui.ui.transcript.markdown.layout import lines_of
from spectui.ui.transcript.source import KINDS, Source
from spectui.ui.transcript.wrap import Flow
from tests.ui.transcript.test_transcript import a_round, append, opened, rows


def laid(text: str, width: int = 40) -> Flow:
    flow = Flow(width)
    flow.extend(lines_of(safe(text), 0, flow.width))
    flow.size = len(safe(text))
    return flow


def drawn(page: Flow) -> list[str]:
    return ["".join(text for text, _ in page.runs(row)).rstrip() for row in range(page.height)]


def kinds(page: Flow, row: int = 0) -> list[tuple[str, str]]:
    return [(text, KINDS[kind]) for text, kind in page.runs(row)]


def test_inline_marks_become_looks() -> None:
    page = laid("a **b** *c* ***d*** `e` ~~f~~ \\*g\\* snake_case_name")
    assert kinds(page) == [
        ("a ", "text"), ("b", "strong"), (" ", "text"), ("c", "emphasis"), (" ", "text"), ("d", "stressed"), (" ", "text"),
        ("e", "code"), (" ", "text"), ("f", "struck"), (" \\*g\\* snake_case_name", "text"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", [
    r"\(a^2 + b_{1} * c_{2}\) and \[x_i\]", r"C:\_tmp\*.txt and D:\*.log", "src/*/test_*.py, **/*.py", "2*3*4 and a**b**c",
    "def f(*args, **kwargs)", "the __init__ of __init__.py", "/*b*/ x*y*z", "\\[\n  a\n+ b\n= c\n\\]", "$$\n- a\n$$",
    "a * b * c",
])  # fmt: skip
def test_formulas_paths_and_patterns_stay_as_they_are_written(text: str) -> None:
    assert drawn(laid(text, 90)) == text.split("\n") and {kind for _, kind in kinds(laid(text, 90))} == {"text"}


@pytest.mark.parametrize(("text", "strong"), [
    ("**Note:** so", "Note:"), ("(**a b**), c", "a b"), ("**Python**'s", "Python"), ("中**粗体**文", "粗体"),
    ("x **`y`**", ""), ("**a\nb** c", "a"), ("*x and **this**", "this"), ("“**q**”", "q"), ("**a**—b", "a"),
])  # fmt: skip
def test_emphasis_beside_words_is_taken(text: str, strong: str) -> None:
    looks = kinds(laid(text, 90))
    assert "**" not in "".join(part for part, _ in looks) and (not strong or (strong, "strong") in looks)


NESTED = "```markdown\n# a\n```python\nx\n```\n**b**\n```\nafter"


def test_fences_within_a_block_of_markdown_are_its_code() -> None:
    assert drawn(laid(NESTED)) == ["╭ markdown", "│ # a", "│ ```python", "│ x", "│ ```", "│ **b**", "╰─", "after"]
    assert code_blocks(NESTED) == ["# a\n```python\nx\n```\n**b**"]


def test_addresses_links_and_html_stay_as_they_are_written() -> None:
    text = "[it](https://a.b/__init__/c) https://d.e/_f_g_ <b>h</b> &amp; ![i](j)"
    assert kinds(laid(text, 90)) == [(text, "text")]


def test_headings_lists_quotes_and_rules() -> None:
    text = (
        "# One *two*\n## Three ##\nFour\n====\n\n- a word and more of them, so it is wrapped\n  - inner\n\n"
        "    more\n10. ten\n\n> said\n>\n> - in it\n\n---"
    )
    assert drawn(laid(text, 24)) == [
        "One two", "Three", "Four", "─" * 24, "",
        "• a word and more of", "  them, so it is wrapped", "  • inner", "", "    more",
        "10. ten", "", "▎ said", "▎", "▎ • in it", "", "─" * 24,
    ]  # fmt: skip
    assert kinds(laid("# One *two*")) == [("One two", "title")]


def test_code_has_a_frame_and_colours_and_keeps_its_blanks() -> None:
    page = laid("1. so:\n   ```python\n   def f():\n       return 'a'  # why\n   ```\nand\n```\nunclosed\n  end")
    assert drawn(page) == [
        "1. so:", "   ╭ python", "   │ def f():", "   │     return 'a'  # why", "   ╰─", "and", "╭─", "│ unclosed", "│   end"
    ]  # fmt: skip
    assert ("def", "keyword") in kinds(page, 2)
    assert {("'a'", "string"), ("# why", "comment")} <= {*kinds(page, 3)}


def test_a_lexer_that_fails_and_an_unknown_language_leave_code_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(lexer: PythonLexer, code: str) -> None:
        raise AttributeError(code)

    monkeypatch.setattr(PythonLexer, "get_tokens_unprocessed", fails)
    for language in ("python", "no such language", "\\x"):
        assert drawn(laid(f"```{language}\n1\n```")) == [f"╭ {language}", "│ 1", "╰─"]


def test_a_line_of_code_is_wrapped_within_its_frame() -> None:
    assert drawn(laid("```\n" + "word " * 6, 16)) == ["╭─", "│ word word word", "│ word word word"]


TABLE = "| Name | What |\n|:--|--:|\n| a **b** | `c\\|d` |\n| e | 1 |"


def test_columns_of_a_table_are_as_wide_as_they_need() -> None:
    page = laid(TABLE)
    assert drawn(page) == ["Name │ What", "─────┼─────", "a b  │ c\\|d", "e    │    1"]
    assert ("Name", "subtitle") in kinds(page) and ("b", "strong") in kinds(page, 2)


def test_a_table_without_room_and_a_row_with_too_many_cells_are_drawn_as_written() -> None:
    wide = "|a|b|\n|-|-|\n|one two three|four five six|"
    assert drawn(laid(wide, 24)) == ["|a|b|", "|-|-|", "|one two three|four five", "six|"]
    assert drawn(laid("|a|b|\n|-|-|\n|1|2|3|"))[2] == "|1|2|3|"


HOSTILE = {
    "quotes": lambda n: ">" * n + " deep", "staircase": lambda n: "\n".join(">" * each + " x" for each in range(n // 9)),
    "lists": lambda n: "\n".join("  " * each + "- x" for each in range(n // 9)), "stars": lambda n: "*a **a " * n,
    "star": lambda n: "*" * n + "a", "lines": lambda n: "_" * n + "a", "ticks": lambda n: "`a" * n,
    "tick": lambda n: "".join("`" * each + "a" for each in range(n // 9)), "tildes": lambda n: "~~a " * n,
    "brackets": lambda n: "[" * n + "](a" * n, "addresses": lambda n: "a://a." * n, "paragraph": lambda n: "a\n" * n,
    "fences": lambda n: "~~~\n```\n" * n, "code": lambda n: "```python\n" + "'a\n" * n, "items": lambda n: "- *a*\n" * n,
    "rows": lambda n: "|a|b|\n|-|-|\n" + "|*c*|d|\n" * n, "columns": lambda n: "|a" * n + "\n" + "|-" * n,
    "headings": lambda n: "# " * n + "a", "rules": lambda n: "---\n" * n, "long": lambda n: "ab" * n * 9,
    "wide": lambda n: "漢字**漢字** " * n, "marks": lambda n: "a" + "\u0301" * n + "**b**", "escapes": lambda n: "\\*" * n,
}  # fmt: skip


def lost(text: str, page: Flow) -> Counter[str]:
    rows = "".join("".join(drawn(page)).split())
    return Counter(filter(str.isalnum, text)) - Counter(filter(str.isalnum, rows))


def calls_in(work: Callable[[], object]) -> int:
    """How many calls and returns of functions it takes."""
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_shown_whole_in_a_time_that_grows_with_its_length(name: str) -> None:
    def calls(size: int) -> float:
        """For each character."""
        text = HOSTILE[name](size)
        assert not lost(text, laid(text, 30))
        return calls_in(lambda: laid(text, 30)) / len(text)

    calls(50)
    assert calls(1600) < 1.5 * calls(400) + 10


@pytest.mark.parametrize(
    "text", [">" * 10_000 + " a", "\x1b[31m# a\x00\x9b", "```\n\x07a", "|a|b|\n|-|-|\n|\x1b|\t|", "\n", ""]
)
def test_nothing_in_a_text_raises(text: str) -> None:
    page = laid(text)
    assert not lost(text.replace("\x1b[31m", "[31m"), page) and all(line.isprintable() for line in drawn(page))


FRAGMENTS = st.sampled_from(
    ["a", "b ", "ein", "漢", "é", "\u0301", "👩\u200d🔬", "\n", "\n\n", "  ", "    ", "\t", "*", "**", "_", "__", "`", "``",
     "```", "```py\n", "~~", "~~~\n", "# ", "## ", "- ", "* ", "+ ", "1. ", "23) ", "> ", ">", "---\n", "===\n", "|", "| ",
     " |\n", "|-|-|\n", "|a|b|\n|:-|-:|\n", "\\", "\\|", "[", "](x)", "<b>", "&amp;", "http://a_b_", ".", ":", "!", "42"]
)  # fmt: skip


@given(st.lists(FRAGMENTS, max_size=60).map("".join), st.integers(2, 60))
@example("|a|b|\n|-|-|\n|1|2|3|", 40)
@example("1. > 2. `a\n` b", 30)
def test_every_letter_and_digit_is_shown_at_every_width_within_it(text: str, width: int) -> None:
    page = laid(text, width)
    assert not lost(text, page)
    assert all(cell_len(line) <= page.width for line in drawn(page))


def growing(text: str, width: int, sizes: Iterable[int]) -> Iterator[Drawing]:
    """The drawing of a reply that comes in parts of these sizes, over and over; and at last as it ends."""
    source = Source(PackedRounds())
    drawing = Drawing(source, View(width, as_text=True, grows=True))
    at, sizes = 0, cycle(sizes)
    while at < len(text):
        part = text[at : at + next(sizes)]
        source.grow([a_round(last=(part, "plain"))])
        drawing.grow()
        yield drawing
        at += len(part)
    if at:
        drawing.finish()
        yield drawing


@given(st.lists(FRAGMENTS, max_size=60).map("".join), st.integers(8, 60), st.lists(st.integers(1, 40), min_size=1))
@example("\\[\na\n\\[\n\n\\]\nb\n\n- c\n\n    d\n\n- e", 30, [1])
def test_a_block_that_has_ended_while_the_reply_grows_stays_as_it_is(text: str, width: int, sizes: list[int]) -> None:
    source = Source(PackedRounds())
    source.grow([a_round(last=(text, "plain"))])
    whole = drawn(Drawing(source, View(width, as_text=True)))
    for page in growing(text, width, sizes):
        settled = page._tail[0] if page._tail is not None else 0
        rows = drawn(page)[: page.row_of(settled)] if settled else []
        assert rows == whole[: len(rows)]
        assert not page.view.grows or finished(page.source.text[settled:]) == 0, "no block that has ended waits"
        assert source.text.startswith(page.copied()), "it is copied as it was written"
    assert not text or drawn(page) == whole


@pytest.mark.parametrize("text", ["```py\n" + "x = 1\n" * 2000, "a line\n" * 2000], ids=["code", "a paragraph"])
def test_a_line_of_a_long_block_takes_as_long_as_one_of_a_short_block(text: str) -> None:
    pages = growing(text, 30, [40])
    short, _, long = (calls_in(lambda size=size: deque(islice(pages, size), maxlen=0)) for size in (20, 100, 20))
    assert long < 2 * short


async def test_paragraphs_are_text_as_soon_as_the_next_begins_and_nothing_moves_at_the_end() -> None:
    async with opened((40, 20), replying=True) as (_, _, transcript):
        parts = ("# A\n\n", "- **b**\n- c\n", "\n```py\nd\n```\n", "\n**e", "** f")
        append(transcript, (replace(a_round(last=(part, "plain")), index=at) for at, part in enumerate(parts)))
        settled = ["A", "", "• b", "• c", "", "╭ py", "│ d", "╰─", ""]
        assert [row.strip() for row in rows(transcript)[1:11]] == [*settled, "**e** f█"]
        transcript.finish_reply()
        assert [row.strip() for row in rows(transcript)[1:11]] == [*settled, "e f"]
        transcript.show_tokens = True
        assert rows(transcript)[1].strip() == "# A"


@given(st.lists(FRAGMENTS, max_size=40).map("".join), st.integers(8, 60), st.data())
def test_what_is_between_two_places_of_a_page_is_a_part_of_the_source(text: str, width: int, data: st.DataObject) -> None:
    page = laid(text, width)
    places = st.tuples(st.integers(0, page.height - 1), st.integers(0, width))
    (top, first), (bottom, end) = sorted([data.draw(places), data.draw(places)])
    seen = ""
    for row in range(top, bottom + 1):
        before, line = len(page.rows[row].before), "".join(cell.text for cell in page.cells(row))
        seen += line[max(0, first - before) if row == top else 0 : max(0, end - before) if row == bottom else width]
    assert not Counter(filter(str.isalnum, seen)) - Counter(text[page.begins(top, first) : page.ends(bottom, end)])
    place = data.draw(st.integers(0, max(0, len(text) - 1)))
    row = page.row_of(place)
    line = "".join(part for part, _ in page.runs(row))
    assert text[place : place + 1] in line[slice(*page.marked(row, place, place + 1))] or not text[place].isalnum()
