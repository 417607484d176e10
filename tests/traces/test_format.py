"""What a trace says of a chat is what the chat was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, zip_longest
from pathlib import Path

import pytest

from spectui.engine.events import Event, Finished, Loaded, Prompt, RoundDone
from spectui.speculation.records import Round
from spectui.speculation.statistics import Statistics
from spectui.store.rounds.packing import pack, unpack
from spectui.traces.format import SCHEMA, Encoder, TraceError
from spectui.traces.reader import Trace
from tests.traces.events import KNOBS, chat


def written(file: Path, events: Sequence[Event]) -> Path:
    """A trace of these events."""
    encoder = Encoder(KNOBS)
    lines = [encoder.header(), *(encoder.line(event) for event in events)]
    file.write_bytes(b"".join(line for line in lines if line is not None))
    return file


def rounded(round: Round) -> Round:
    """With times and probabilities as they are kept."""
    return unpack(pack([round]))[0]


def test_what_is_read_is_what_was_said(tmp_path: Path):
    told = [event for event in chat() if not (isinstance(event, Prompt) and event.done < event.total)]
    found = list(Trace(written(tmp_path / "t", told)))
    kept = []
    for event, read in zip_longest(told, found):
        match event:
            case RoundDone(round=round, n_context=n_context):
                assert read == RoundDone(rounded(round), n_context)
                kept.append(read.round)
            case Loaded(setup=setup, target=target, devices=devices):
                # Nothing that tells who the person is: no directory, no address of a device.
                setup = replace(setup, model="big.gguf", system="")
                devices = tuple(each._replace(id=None) for each in devices)
                assert read == event._replace(setup=setup, target=target._replace(path="big.gguf"), devices=devices)
            case Finished():
                assert read == event._replace(statistics=Statistics.of(kept))
                kept.clear()
            case _:
                assert read == event


def test_a_line_leaves_out_what_was_said_before(tmp_path: Path):
    lines = [json.loads(line) for line in written(tmp_path / "t", chat()).read_text().splitlines()]
    assert lines[0]["schema"] == SCHEMA
    turned = [line["knobs"] for line in lines[1:] if "knobs" in line]
    assert turned == [{"draft_max": 2, "p_min": 0.75, "predict": 20, "seed": -1}]
    first, second, third = (line for line in lines if line["type"] == "prompt")
    assert (first["same_messages"], first["same_tokens"]) == (0, 0)
    assert (second["same_messages"], second["same_tokens"], second["tokens"]) == (2, 33, [4, 5])
    assert (third["same_messages"], third["same_tokens"]) == (1, 2)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n", "is no trace"),
        (b"GGUF\x00\x01\x02\n", "is no trace"),
        (b'{"schema":"spectui.run/1"}\n', "is no trace"),
        (b'{"type":"trace","schema":"spectui.trace/7"}\n', "version '7'"),
        (b'{"type":"trace","schema":"spectui.trace/1"}\n', "is no trace"),
        (Encoder(KNOBS).header(), "has no events"),
        (Encoder(KNOBS).header() + b'{"type":"round"}\n', "damaged in line 2"),
        (Encoder(KNOBS).header() + b'{"type":"read","total":1,"reused":0,"seconds":1,"thinking":false}\n', "damaged in line 2"),
        (Encoder(KNOBS).header() + b'[]\n', "damaged in line 2"),
        (Encoder(KNOBS).header() + b'{"type":"notice","message":3}\n', "damaged in line 2"),
    ],
    ids=count(),  # the contents have the time in them, and xdist wants the same names in every process
)  # fmt: skip
def test_what_is_no_trace_is_one_sentence(tmp_path: Path, content: bytes, sentence: str):
    file = tmp_path / "t"
    file.write_bytes(content)
    with pytest.raises(TraceError, match=sentence) as caught:
        Trace(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("name", [".", "missing", "/dev/full"])
def test_what_is_no_file_is_one_sentence(tmp_path: Path, name: str):
    with pytest.raises(TraceError, match=r"is not a file|cannot be read"):
        Trace(tmp_path / name)


def test_each_damaged_line_is_found(tmp_path: Path):
    lines = written(tmp_path / "t", chat()).read_bytes().splitlines(keepends=True)
    seen: set[str] = set()
    for number, line in enumerate(lines[1:], 2):
        row = json.loads(line)
        if row["type"] in seen:
            continue
        seen.add(row["type"])
        worse = [{**row, field: 7 if isinstance(row[field], str) else "x"} for field in row if field != "type"]
        for each in worse:
            damaged = [*lines[: number - 1], json.dumps(each).encode() + b"\n", *lines[number:]]
            (tmp_path / "u").write_bytes(b"".join(damaged))
            with pytest.raises(TraceError, match=f"damaged in line {number} "):
                Trace(tmp_path / "u")


def test_a_trace_without_its_end_is_read_up_to_there(tmp_path: Path):
    file = written(tmp_path / "t", chat())
    whole = list(Trace(file))
    file.write_bytes(file.read_bytes()[:-7])
    trace = Trace(file)
    assert trace.cut_off
    assert list(trace) == whole[:-1]


def test_what_an_editor_of_windows_saved_is_read(tmp_path: Path):
    file = written(tmp_path / "t", chat())
    whole = list(Trace(file))
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert list(Trace(file)) == whole


def test_a_line_of_a_later_version_is_left_out(tmp_path: Path):
    file = written(tmp_path / "t", chat())
    whole = list(Trace(file))
    file.write_bytes(file.read_bytes() + b'{"type":"weather"}\n')
    assert list(Trace(file)) == whole
