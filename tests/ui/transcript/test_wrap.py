"""Wrapping: nothing is lost, nothing is too wide, and appending gives what wrapping from scratch gives."""

from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, get_character_cell_size

from spectui.ui.transcript.wrap import ASIDE, NARROW, Flow, Piece

ALPHABET = [*"ab c,(  \t\n-é", *"中、「か\u3099\u0301👩\u200d🔬❤\ufe0f\U0001f1e9", *"שלום\u05b0م\u0651"]
MARKS = "\u0301\u3099\u200d\ufe0f\u05b0\u0651"
SAFE_TEXT = st.lists(st.sampled_from(ALPHABET), max_size=12).map("".join)
PIECES = st.lists(st.tuples(SAFE_TEXT, st.integers(0, 3)), max_size=14)
WIDTHS = st.integers(2, 17)


def flow_of(pieces: list[tuple[str, int]], width: int) -> Flow:
    flow = Flow(width)
    for piece in pieces:
        append(flow, piece)
    return flow


def append(flow: Flow, piece: tuple[str, int]) -> None:
    flow.append([Piece(*piece, flow.size, flow.size)])


def rows(flow: Flow) -> list[str]:
    return ["".join(text for text, _ in flow.runs(row)) for row in range(flow.height)]


@given(PIECES, WIDTHS)
def test_no_row_is_wider_than_the_width(pieces: list[tuple[str, int]], width: int) -> None:
    flow = flow_of(pieces, width)
    for row in range(flow.height):
        runs = flow.runs(row)
        assert cell_len("".join(text for text, _ in runs)) <= width
        # Segments are measured one by one, so a run must not begin inside a grapheme.
        assert sum(cell_len(text) for text, _ in runs) == cell_len("".join(text for text, _ in runs))


@given(PIECES, WIDTHS)
def test_rows_joined_are_the_text(pieces: list[tuple[str, int]], width: int) -> None:
    flow = flow_of(pieces, width)
    text = "".join(text for text, _ in pieces)
    assert "".join(row.text for row in flow.rows) == text
    # What is not drawn is white, or a mark that nothing carries.
    for row, drawn in zip(flow.rows, rows(flow), strict=True):
        hidden = Counter(row.text) - Counter(drawn)
        assert not set(hidden) - set(" \t\n" + MARKS)


@given(PIECES, WIDTHS)
def test_appending_equals_wrapping_from_scratch(pieces: list[tuple[str, int]], width: int) -> None:
    whole = Flow(width)
    at = accumulate((len(text) for text, _ in pieces), initial=0)
    whole.append([Piece(*piece, place, place) for piece, place in zip(pieces, at, strict=False)])
    step = Flow(width)
    for piece in pieces:
        before = [step.runs(row) for row in range(step.height - 1)]
        append(step, piece)
        assert [step.runs(row) for row in range(len(before))] == before
    assert [step.runs(row) for row in range(step.height)] == [whole.runs(row) for row in range(whole.height)]


@given(PIECES, WIDTHS)
def test_what_is_drawn_at_a_cell_is_what_stands_at_its_place_of_the_source(pieces: list[tuple[str, int]], width: int) -> None:
    flow, text = flow_of(pieces, width), "".join(text for text, _ in pieces)
    for row in range(flow.height):
        column, index = 0, 0
        for cell in flow.cells(row):
            assert cell.text.strip("\u200d ") == text[cell.at : cell.end].strip("\u200d\t ") or not cell.width, "the grapheme"
            if cell.width:
                assert {flow.at_cell(row, column + each) for each in range(cell.width)} == {cell}
                assert (flow.row_of(cell.at), flow.column_of(row, cell.at)) == (row, column)
                assert flow.marked(row, cell.at, cell.end) == (index, index + len(cell.text))
                assert flow.begins(row, index) == (cell.at if index else flow.rows[row].start)
                assert flow.ends(row, index + 1) == cell.end
            column, index = column + cell.width, index + len(cell.text)
        assert flow.at_cell(row, column) is None
        assert "".join(text for text, _ in flow.runs(row)) == "".join(cell.text for cell in flow.cells(row))


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("one  two", 4, ["one ", "two"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("ab abcdefgh", 4, ["ab ", "abcd", "efgh"]),
        ("    abcdefgh", 6, ["    ab", "cdefgh"]),
        ("a\tb\t\tc", 20, ["a   b       c"]),
        ("a\n\nb\n", 9, ["a", "", "b", ""]),
        ("中文文字", 5, ["中文", "文字"]),
        ("go 中文文字", 7, ["go 中文", "文字"]),
        ("中文、文", 4, ["中", "文、", "文"]),
        ("あ「中」", 6, ["あ", "「中」"]),
        ("e\u0301e\u0301e\u0301", 2, ["e\u0301e\u0301", "e\u0301"]),
        ("👩\u200d🔬👩\u200d🔬", 3, ["👩\u200d🔬", "👩\u200d🔬"]),
        ("שלום עולם טוב", 9, ["שלום עולם", "טוב"]),
        ("בְּרֵא בְּרֵא", 3, ["בְּרֵא", "בְּרֵא"]),
        ("مُحَمَّد رسول", 4, ["مُحَمَّد", "رسول"]),
        ("ab שלום", 4, ["ab ", "שלום"]),
        ("", 5, [""]),
    ],
)
def test_where_rows_break(text: str, width: int, expected: list[str]) -> None:
    assert rows(flow_of([(text, 0)], width)) == expected


def test_a_token_may_span_rows_and_a_row_many_tokens() -> None:
    flow = flow_of([("one two", 1), (" ", 2), ("three", 3)], 5)
    assert [flow.runs(row) for row in range(flow.height)] == [[("one ", 1)], [("two", 1), (" ", 2)], [("three", 3)]]


def test_what_is_beside_the_source_is_no_part_of_it() -> None:
    flow = Flow(80)
    flow.append([Piece("kept ", 1, 0, 0), Piece("never ", 9, 5, ASIDE), Piece("too", 1, 5, 5)])
    assert (flow.runs(0), flow.size) == ([("kept ", 1), ("never ", 9), ("too", 1)], 8)
    assert [flow.begins(0, index) for index in (4, 5, 8, 11, 12)] == [4, 5, 5, 5, 6]
    assert [flow.ends(0, index) for index in (5, 8, 11, 12, 14)] == [5, 5, 5, 6, 8]
    assert [flow.marked(0, place, place + 1) for place in (0, 4, 5)] == [(0, 1), (4, 5), (11, 12)]


def test_what_is_taken_for_a_cell_each_is_one() -> None:
    signs = [chr(code) for code in range(0x3000) if NARROW.fullmatch(chr(code))]
    assert len(signs) > 300 and {get_character_cell_size(sign) for sign in signs} == {1}
