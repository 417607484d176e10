"""The demo pair: which set-up it is, and where its draft is written."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.demo import NOTICE, default_setup, is_demo, make_draft
from spectui.engine.events import Loaded, Notice
from spectui.errors import SpectuiError
from spectui.gguf_files.header import read_header
from spectui.knobs import Setup
from tests.helpers.smollm2 import opened, whole


def test_another_target_with_its_draft_is_not_the_demo_pair():
    pair = default_setup(Setup())
    assert is_demo(pair)
    assert not is_demo(replace(pair, model="/models/other.gguf"))


def test_a_directory_that_cannot_be_made_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECTUI_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(SpectuiError, match=r"^There is no place for the demo's draft, .*: Not a directory\.$"):
        make_draft(Path(default_setup(Setup()).model or ""), lambda _: None)


def test_the_demo_pairs_draft_is_made_and_it_is_said_to_be_small():
    _, events = opened(whole())
    [loaded] = [event for event in events if isinstance(event, Loaded)]
    assert loaded.draft is not None
    for model in (loaded.target, loaded.draft):
        header = read_header(Path(model.path))
        assert model.description.startswith(f"{header.architecture} {header.parameters} "), "as the list of models has it"
    assert any(isinstance(event, Notice) and "demo pair" in event.message for event in events)


def test_the_notices_gains_are_those_of_the_slower_machine():
    page = Path(__file__).parents[2].joinpath("docs", "developers", "performance.md").read_text(encoding="utf-8")
    gain = r" .* \| ([\d.]+) \| [\d.]+ \|\n"  # auto / plain
    rows = rf"Q8_0 drafted by Q4_0:\*\* edit a pasted file{gain}\| snake in Python{gain}"
    edits, code = zip(*re.findall(rows, page), strict=True)
    assert len(edits) == 2
    assert f"({min(map(float, code)):.1f}x for code, {min(map(float, edits)):.1f}x for edits)" in NOTICE
