"""A Gemma 4 with its assistant file: what is particular to it beside `test_heads`."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.engine.events import Loaded
from spectui.engine.loading.plan import make_plan
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Setup
from tests.engine.exactness.test_heads import KNOBS, OFF
from tests.helpers.smollm2 import ask, opened
from tests.llama.heads.assistant import write_assistant, write_target
from tests.llama.heads.headed import write_headed


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """A target that attends to its text, beside its assistant."""
    folder = tmp_path_factory.mktemp("gemma")
    target = write_target(folder / "target.gguf", attends=0.2)
    write_assistant(folder / "target-assistant.gguf", attends=0.2, echo=0.2)
    return Setup(model=str(target), ctx_size=512, threads=1, no_profile="on")


def test_the_plan_counts_its_weights_and_no_cells(setup: Setup) -> None:
    (use,) = make_plan(setup).draft
    assert use.weights > 1_000_000
    assert use.cells == 0


@pytest.mark.parametrize(
    "changes",
    [{"flash_attn": "off"}, {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}, {"flash_attn_draft": "off"},
     {"cache_type_v_draft": "q8_0"}, {"swa_full": "on"}],
    ids=str,
)  # fmt: skip
def test_it_reads_the_targets_cells_however_they_lie(setup: Setup, changes: dict[str, Any]) -> None:
    session, _ = opened(replace(setup, **changes))
    for text in ("hello", "hello there " * 12):
        expected = ask(session, OFF, text)
        found = ask(session, KNOBS, text)
        assert found.text == expected.text
        assert (found.statistics.acceptance or 0) > 0.2


def test_another_assistant_takes_its_place_in_a_conversation(setup: Setup, tmp_path: Path) -> None:
    session, events = opened(setup)
    other = shutil.copy(next(event.setup.draft or "" for event in events if isinstance(event, Loaded)), tmp_path)
    expected = ask(session, OFF, "one", "two", "three").text
    ask(session, KNOBS, "one", "two")
    session.load(replace(setup, draft=other))
    assert ask(session, KNOBS, "one", "two", "three").text == expected


@pytest.mark.parametrize("other", ["another size", "another architecture", "other heads", "other tokens"])
def test_it_is_refused_for_another_target(setup: Setup, tmp_path: Path, other: str) -> None:
    target = setup.model or ""
    assistant = write_assistant(tmp_path / "a.gguf", heads=2 if other == "other heads" else 4)
    if other == "another size":
        target = str(write_target(tmp_path / "t.gguf", width=320))
    if other == "another architecture":
        target = str(write_headed(tmp_path / "t.gguf", heads=0))
    if other == "other tokens":
        target = str(write_target(tmp_path / "t.gguf", more=8))
    session = Session(lambda _: None)
    with pytest.raises(SpectuiError, match=r"was made for another target|are those of another model"):
        session.load(replace(setup, model=target, draft=str(assistant)))
