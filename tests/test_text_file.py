"""Text files that a person names: bounded, in UTF-8, with a sentence for what cannot be read."""

import io
from pathlib import Path

import pytest

from spectui.errors import SpectuiError, UsageError
from spectui.text_file import read_text


def refused(source: Path | io.BytesIO, error: type[SpectuiError] = UsageError) -> str:
    with pytest.raises(error) as found:
        read_text(source, "a.txt", 256_000, "attach a part of it", error)
    return str(found.value)


def test_the_text_comes_without_its_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("\ufeffcafé\n".encode())
    assert read_text(file, "a.txt", 9, "shorten it") == "café\n"
    assert read_text(io.BytesIO(file.read_bytes()), "a.txt", 9, "shorten it") == "café\n"


def test_windows_line_ends_are_newlines() -> None:
    assert read_text(io.BytesIO(b"a\r\nb\nc\r\n"), "a.txt", 9, "shorten it") == "a\nb\nc\n"


def test_a_file_that_cannot_be_read_has_the_systems_reason(tmp_path: Path) -> None:
    assert refused(tmp_path / "none") == "a.txt cannot be read: No such file or directory."
    assert refused(tmp_path) == "a.txt cannot be read: Is a directory."


def test_no_more_is_read_of_a_large_file_than_is_allowed() -> None:
    stream = io.BytesIO(b"a" * 900_000)
    assert refused(stream) == "a.txt is larger than 256 kB: attach a part of it."
    assert stream.tell() == 256_001
    with pytest.raises(UsageError, match="is larger than 10 MB: shorten it"):
        read_text(io.BytesIO(b"a" * 10_000_001), "a.txt", 10_000_000, "shorten it")


@pytest.mark.parametrize("content", [b"fine\ncaf\xe9\n", b"fine\na\0b", "\ufefffine\ncaf".encode() + b"\xe9"])
def test_what_is_not_utf8_is_refused_with_its_line(content: bytes) -> None:
    assert refused(io.BytesIO(content)) == "a.txt is not text in UTF-8 (line 2): convert it first."


def test_the_error_is_the_callers() -> None:
    class OtherError(SpectuiError):
        pass

    assert "line 1" in refused(io.BytesIO(b"\xff"), OtherError)
