"""`spectui replay`: estimates in words and as JSON, and bad input in a sentence."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from spectui.measure.traces.format import Encoder
from tests.cli.programs import one_sentence, spectui
from tests.measure.traces.events import KNOBS, chat
from tests.measure.traces.test_format import written


def test_what_other_settings_would_have_given_is_a_table(tmp_path: Path):
    file = written(tmp_path / "t", chat())
    done = spectui("replay", str(file), "--what-if", "drafter=off", "--what-if", "draft-max=1,p-min=.5")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("2 replies, 50 tokens.")
    assert [line.split()[0] for line in lines[3:6]] == ["measured", "drafter=off", "draft-max=1,p-min=0.5"]
    assert "are estimates" in lines[7]


def test_the_table_can_be_computed_from_the_json(tmp_path: Path):
    file = str(written(tmp_path / "t", chat()))
    done = spectui("replay", file, "--what-if", "drafter=off", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    row = spectui("replay", file, "--what-if", "drafter=off").stdout.decode().splitlines()[4].split()
    assert found["schema"] == "spectui.what-if/1"
    (estimate,) = found["estimates"]
    assert estimate["settings"] == {"drafter": "off"}
    speed = found["measured"]["tokens_per_s"]
    assert row[1:] == [
        f"{estimate['tokens_per_s']:.1f}", f"{estimate['tokens_per_s'] / speed:.2f}", "-",
        f"{estimate['tokens_per_pass']:.2f}", "-",
    ]  # fmt: skip
    assert speed == pytest.approx(found["tokens"] / found["measured"]["seconds"])


def test_a_trace_that_was_cut_off_is_read_and_that_is_said(tmp_path: Path):
    file = written(tmp_path / "t", chat())
    file.write_bytes(file.read_bytes()[:-3])
    done = spectui("replay", str(file), "--what-if", "drafter=off")
    assert done.returncode == 0
    assert b"not written whole" in done.stderr


@pytest.mark.parametrize(
    ("content", "flags", "code", "sentence"),
    [
        (b"", (), 1, "is empty"),
        (b"hello\n", (), 1, "is no trace"),
        (b'{"type":"trace","schema":"spectui.trace/2"}\n', (), 1, "version '2'"),
        (Encoder(KNOBS).header() + b"x\n", ("--what-if", "drafter=off"), 1, "damaged in line 2"),
        (None, ("--what-if", "drafter=off"), 1, "No such file"),
        (None, ("--what-if", "speed=1"), 2, "There is no setting 'speed'"),
        (None, ("--json",), 2, "give that too"),
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
