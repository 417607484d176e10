"""The file of runs: it has every run that was made, whatever ended the bench."""

import errno
import json
from pathlib import Path

import pytest

from spectui.errors import UsageError
from spectui.measure.bench.results import ResultsError, ResultsFile, header, read
from spectui.measure.bench.summary import summarise
from spectui.measure.report import text
from tests.measure.bench.runs import CONDITIONS, FAST, TARGET, a_run, elsewhere

HEADER = header(CONDITIONS)


FIRST, CUT = a_run(FAST, 20.0).line(), a_run(FAST, 21.0, 1, prompt="Grüße").line().encode()
WITHIN_A_CHARACTER = CUT.index("ü".encode()) + 1


@pytest.mark.parametrize(
    "content",
    [
        f"\ufeff{HEADER}\r\n{FIRST}\r\n".encode(),  # as an editor of Windows saves it
        f"{HEADER}\n{FIRST}".encode(),
        *(f"{HEADER}\n{FIRST}\n".encode() + CUT[:length] for length in (1, 5, 50, WITHIN_A_CHARACTER)),
    ],
)
def test_a_last_line_that_was_cut_off_is_left_out_and_replaced(tmp_path, content):
    file = tmp_path / "runs.jsonl"
    file.write_bytes(content)
    assert read(file) == [a_run(FAST, 20.0)]
    ResultsFile(file).append(a_run(TARGET, 9.0))
    assert read(file) == [a_run(FAST, 20.0), a_run(TARGET, 9.0)]


@pytest.mark.parametrize("content", ["my notes, in one line", FIRST + "\n"])
def test_what_is_no_file_of_runs_or_has_no_conditions_is_left_as_it_is(tmp_path, content):
    file = tmp_path / "notes.txt"
    file.write_text(content)
    with pytest.raises(UsageError, match="line 1: this is no line of spectui bench"):
        read(file)
    assert file.read_text() == content


def test_two_processes_do_not_write_to_one_file(tmp_path):
    file = tmp_path / "runs.jsonl"
    first, second = ResultsFile(file), ResultsFile(file)
    runs = [elsewhere(a_run(FAST, 20.0, number), models="another") for number in range(2)]
    first.append(runs[0])
    with pytest.raises(ResultsError, match="Another spectui writes its runs to"):
        second.append(a_run(FAST, 20.0))
    first.append(runs[1])
    assert read(file) == runs


LINE = json.loads(a_run(FAST, 1.0).line())
WITHOUT_A_FIELD = json.dumps({name: value for name, value in LINE.items() if name != "prompt"})


@pytest.mark.parametrize("line", ["no json", "{}", "[]", "3", '{"conditions": 3}', WITHOUT_A_FIELD, json.dumps(LINE)[:70]])
def test_a_line_between_runs_that_is_none_is_named(tmp_path, line):
    file = tmp_path / "runs.jsonl"
    file.write_text(f"{HEADER}\n{line}\n{a_run(FAST, 20.0).line()}\n")
    with pytest.raises(UsageError, match="line 2: this is no line of spectui bench: delete it, or take another file"):
        read(file)


def test_conditions_are_written_once_and_again_where_they_change(tmp_path):
    out = ResultsFile(tmp_path / "deep" / "runs.jsonl")
    runs = [a_run(FAST, 20.0), a_run(FAST, 20.0, 1), elsewhere(a_run(FAST, 20.0, 2), models="another")]
    for run in runs:
        out.append(run)
    assert read(out.path) == runs
    assert sum("conditions" in json.loads(line) for line in out.path.read_text().splitlines()) == 2


def test_times_that_no_reply_takes_are_kept_and_have_a_speed(tmp_path):
    file = tmp_path / "runs.jsonl"
    runs = (a_run(each, speed).line() for each, speed in ((TARGET, 1e-290), (FAST, 1e290)))
    file.write_text("\n".join([HEADER, *runs]))
    (line,) = [line for line in text(summarise(read(file))) if line.startswith("model 8") and "%" in line]
    assert ">+900 %" in line


def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    out = ResultsFile(tmp_path / "runs.jsonl")
    out.append(a_run(FAST, 20.0))
    real = Path.open

    def full(self, *arguments, **options):
        if arguments == ("ab",):
            with real(self, "ab") as file:
                file.write(b'{"half')
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(ResultsError, match="No space left"):
        out.append(a_run(FAST, 20.0, 1))
    monkeypatch.undo()
    assert out.path.read_text() == f"{HEADER}\n{a_run(FAST, 20.0).line()}\n"
