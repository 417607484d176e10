"""Whatever bytes a model writes, only printable text, newline and tab come out, however they are split over tokens."""

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from spectui.text import TextStream, one_line, printable, safe

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
nasty = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=6).map(str.encode),
    st.sampled_from(
        [b"\x1b[2J", b"\x9b31m", b"\xc2\x9b31m", "\u202e".encode(), b"\xe2\x80", b"\xae", b"\xf0\x9f", b"\x98\x80", b"\r\n"]
    ),
)


def streamed(pieces: list[bytes]) -> list[str]:
    stream = TextStream()
    return [stream.push(piece) for piece in pieces]


@given(st.lists(nasty, max_size=12))
@example([b"\x1b", b"[31m"])
@example([b"\xe2", b"\x80", b"\xae"])
@example([b"\xc2", b"\x9b"])
def test_split_anywhere_it_is_the_text_of_the_whole(pieces: list[bytes]):
    joined = "".join(streamed(pieces))
    whole = safe(b"".join(pieces).decode("utf-8", "replace"))
    # a character that has begun and not ended is held back; decoding the whole shows it as one U+FFFD
    assert whole in (joined, joined + "\ufffd")
    assert "".join(streamed([b"".join(pieces)])) == joined
    assert "".join(streamed([bytes([byte]) for piece in pieces for byte in piece])) == joined


@given(st.lists(nasty, max_size=12))
@example([bytes(range(256))])
@example([bytes([0xC2, byte]) for byte in range(0x80, 0xA0)])
@example([BIDI.encode()])
def test_no_control_and_no_turn_of_direction_comes_out(pieces: list[bytes]):
    for character in "".join(streamed(pieces)):
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Zl", "Zp", "Cs")
        assert character not in BIDI


def test_every_c0_c1_and_bidi_character_is_left_out_and_nothing_else():
    controls = [chr(code) for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"]
    assert safe("".join([*controls, *BIDI])) == ""
    kept = "a\n\tä€漢字🙂é\u0301\u200d️ \xa0"
    assert safe(kept) == printable(kept) == kept
    assert one_line("".join([*controls, *BIDI])) == "?" * (len(controls) + len(BIDI))
    assert one_line(kept) == kept.replace("\n\t", "??")


def test_the_line_ends_of_other_systems_become_newlines():
    assert printable("a\r\nb\rc\u2028\x1b") == "a\nb\nc\n"


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_printable_text_stays_as_it_is(text: str):
    assert safe(text) == text
    assert "".join(streamed([bytes([byte]) for byte in text.encode()])) == text


def test_a_character_comes_out_with_the_token_that_completes_it():
    assert streamed([b"\xf0\x9f", b"\x98", b"\x80!", b"a"]) == ["", "", "😀!", "a"]
    assert streamed([b"\xf0\x9f", b"a"]) == ["", "\ufffda"]
