"""`spectui replay`: bad input in a sentence."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from spectui.traces.format import Encoder
from tests.cli.programs import one_sentence, spectui
from tests.traces.events import KNOBS, chat
from tests.traces.test_format import written


@pytest.mark.parametrize(
    ("content", "flags", "code", "sentence"),
    [
        (b"", (), 1, "is empty"),
        (b"hello\n", (), 1, "is no trace"),
        (b'{"type":"trace","schema":"spectui.trace/2"}\n', (), 1, "version '2'"),
        (Encoder(KNOBS).header() + b"x\n", (), 1, "damaged in line 2"),
        (None, (), 1, "No such file"),
        (None, ("--speed", "0"), 2, "--speed must be between"),
        (None, ("--speed", "nan"), 2, "--speed must be between"),
        ("chat", (), 2, "needs a terminal"),
        (None, ("-m", "x"), 2, "There is no flag -m"),
    ],
    ids=count(),  # the contents have the time in them, and xdist wants the same names in every process
)  # fmt: skip
def test_bad_input_is_one_sentence(
    content: bytes | str | None, flags: tuple[str, ...], code: int, sentence: str, tmp_path: Path
):
    file = tmp_path / "t"
    if content == "chat":
        written(file, chat())
    elif isinstance(content, bytes):
        file.write_bytes(content)
    assert sentence in one_sentence(spectui("replay", str(file), *flags), code)
