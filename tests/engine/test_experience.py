"""What a pair has taught outlives the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectui.engine.experience import keep, recall
from spectui.knobs import Knobs
from spectui.speculation.policies.experience import Experience
from tests.smollm2 import SNAKE, ask, opened, setup

SEEN = Experience(credit=1.5, owed=0.5, kept=60.0, promised=80.0, doubt=0.2, pace=0.002, reply=90.0)


def test_what_is_kept_comes_back(tmp_path: Path):
    file = tmp_path / "state" / "experience-pair.json"
    assert recall(file) is None
    keep(file, SEEN)
    assert recall(file) == SEEN
    assert [each.name for each in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '{"credit": 1}', SEEN._replace(kept=-1.0), SEEN._replace(reply=float("nan")),
     SEEN._replace(credit="much"), SEEN._replace(doubt=1.5), SEEN._replace(promised=-1.0), SEEN._replace(pace=-1.0)],
)  # fmt: skip
def test_a_damaged_file_is_as_none(tmp_path: Path, text: str | Experience):
    file = tmp_path / "experience.json"
    if isinstance(text, str):
        file.write_text(text)
    else:
        keep(file, text)
    assert recall(file) is None


def test_a_disk_that_fails_is_no_matter(tmp_path: Path):
    (tmp_path / "file").write_text("")
    keep(tmp_path / "file" / "experience.json", SEEN)


@pytest.mark.usefixtures("fresh_directories")
def test_the_next_process_goes_on_where_this_one_was():
    first, _ = opened(setup())
    ask(first, Knobs(temperature=0.0, predict=24), SNAKE)
    assert first._pair is not None and first._pair.strategy is not None
    left = first._pair.strategy.experience
    first.close()
    assert left.pace > 0
    assert left != SEEN
    second, _ = opened(setup())
    assert second._pair is not None and second._pair.strategy is not None
    found = second._pair.strategy.experience
    second.close()
    assert found.credit == min(left.credit, 2.5)  # the costs of this pair were not measured, so it has no more
    assert (found.pace, found.reply) == (left.pace, left.reply)
    assert found.doubt == left.doubt != SEEN.doubt
    assert left.promised > 0
    assert found.kept / found.promised == pytest.approx(left.kept / left.promised)
    assert found.promised <= 16
