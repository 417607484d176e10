"""Past replies on disk, and drafting from them."""

import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from spectui import paths
from spectui.cli import root
from spectui.engine.kept import replies
from spectui.engine.kept.replies import Replies
from spectui.knobs import Knobs
from spectui.speculation.drafters.suffix import SuffixMatch
from tests.helpers.smollm2 import SNAKE, alone, ask, opened


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    return file


def test_a_past_reply_is_drafted_in_another_conversation():
    knobs = Knobs(temperature=0, predict=32, drafter="suffix", policy="fixed", draft_max=8, p_min=0.5)
    session, _ = opened(replace(alone(), remember="on"))
    first = ask(session, knobs, SNAKE)
    session, _ = opened(replace(alone(), remember="on"))
    again = ask(session, knobs, SNAKE)
    session, _ = opened(alone())
    without = ask(session, knobs, SNAKE)
    assert first.text == again.text == without.text
    assert again.statistics.accepted > without.statistics.accepted + 10
    assert again.statistics.rounds < 0.7 * without.statistics.rounds


@pytest.mark.parametrize("policy", ["auto", "fixed"])
def test_the_end_of_a_remembered_reply_ends_the_draft(policy: str):
    knobs = Knobs(temperature=0, predict=12, drafter="suffix", policy=policy, p_min=0.0, draft_max=16)
    session, _ = opened(replace(alone(), remember="on"))
    first = ask(session, knobs, SNAKE)
    longer = ask(session, replace(knobs, predict=24), SNAKE)
    assert longer.text.startswith(first.text) and len(longer.text) > len(first.text)
    assert longer.statistics.accepted > 4 or policy == "auto"  # how much that drafts depends on what passes took


def test_no_draft_extends_from_one_reply_into_the_next(model: Path):
    remembered = Replies(model, 100)
    remembered.add([1, 2, 3])
    remembered.add([4, 5])
    match = SuffixMatch(remembered.automaton)
    match.advance(1)
    assert [each.id for each in match.candidates()] == [2, 3]


def test_what_is_decoded_without_drafts_to_compare_is_not_kept(state: Path):
    session, _ = opened(replace(alone(), remember="on"))
    ask(session, knobs := Knobs(temperature=0, predict=8), SNAKE)
    kept = [file.read_bytes() for file in state.glob("replies-*")]
    ask(session, replace(knobs, temperature=2.0, seed=1, drafter="off"), SNAKE)
    assert [file.read_bytes() for file in state.glob("replies-*")] == kept != []


def test_nothing_is_stored_by_default(state: Path):
    session, _ = opened(alone())
    ask(session, Knobs(temperature=0, predict=8), SNAKE)
    assert not list(state.glob("replies-*"))


def test_the_file_is_private_limited_and_for_one_model(model: Path, state: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replies, "MOST", 10)
    Replies(model, 100).add([1, 2, 3])
    Replies(model, 100).add([4, 5, 6, 7, 8, 9, 10])
    [file] = state.glob("replies-*.tokens")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Replies(model, 100).automaton.tokens == [3, -1, 4, 5, 6, 7, 8, 9, 10, -1][-10:]
    other = model.with_name("other.gguf")
    other.write_bytes(b"GGUF")
    assert Replies(other, 100).automaton.tokens == []


def test_the_tokens_in_memory_are_limited_too_and_the_latest_are_found(model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replies, "MOST", 10)
    remembered = Replies(model, 100)
    automaton = remembered.automaton
    for reply in range(20):
        remembered.add([reply, reply + 1, reply + 2])
        assert len(automaton.tokens) <= 20
    assert remembered.automaton is automaton, "the drafter has it"
    assert automaton.tokens[-4:] == [19, 20, 21, -1]
    match = SuffixMatch(automaton)
    for token in (19, 20):
        match.advance(token)
    assert next(match.candidates()).id == 21
    assert Replies(model, 100).automaton.tokens == automaton.tokens[-10:]


@given(data=st.binary(max_size=64) | st.lists(st.integers(-2, 100), max_size=12).map(lambda n: np.array(n, "<i4").tobytes()))
def test_any_file_content_is_tokens_or_none(model: Path, state: Path, data: bytes):
    Replies(model, 100).add([1])
    [file] = state.glob("replies-*.tokens")
    file.write_bytes(data)
    remembered = Replies(model, 100)
    assert all(-1 <= token < 100 for token in remembered.automaton.tokens)
    remembered.add([4])
    assert Replies(model, 100).automaton.tokens == [*remembered.automaton.tokens[:-2], 4, -1]


def test_a_directory_that_cannot_be_written_is_no_error(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path / "model.gguf" / "under-a-file"))
    remembered = Replies(model, 100)
    remembered.add([1, 2])
    assert remembered.automaton.tokens == [1, 2, -1]


def test_forget_deletes_them(model: Path):
    Replies(model, 100).add([1, 2, 3])
    refused = CliRunner().invoke(root, ["forget"])
    assert (refused.exit_code, "of 1 models" in refused.stderr) == (2, True)
    assert list(paths.state_directory().glob("replies-*"))
    result = CliRunner().invoke(root, ["forget", "--yes"])
    assert result.exit_code == 0, result.output
    assert "1 model" in result.output
    assert not list(paths.state_directory().glob("replies-*"))
    assert CliRunner().invoke(root, ["forget"]).stderr == "spectui: Nothing is saved to be faster.\n"
