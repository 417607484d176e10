"""A target whose draft is a head that reads rows of its layers (EAGLE-3): the text is the target's own."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.events import Event, Notice, RoundDone
from spectui.engine.session import Session
from spectui.errors import DraftError, SpectuiError
from spectui.knobs import Knobs, Setup
from tests.engine.exactness.test_heads import SPECULATIVE, accepted_by_llama_cpp
from tests.helpers.smollm2 import ask, opened
from tests.llama.heads.eagle import TOKENS, write_eagle, write_target
from tests.llama.heads.headed import write_hybrid

Opened = tuple[Session, list[Event]]
KNOBS = Knobs(temperature=0.8, seed=5, predict=60, policy="fixed", drafter="model", draft_max=3, p_min=0.0)
OFF = replace(KNOBS, drafter="off")


def set_up(target: Path, head: Path | None) -> Setup:
    return Setup(model=str(target), draft=str(head) if head else None, ctx_size=512, threads=1, no_profile="on")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target") / "target.gguf")


def test_it_drafts_unasked_beside_its_target(target: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(target, tmp_path))
    write_eagle(tmp_path / "eagle3-target.gguf")
    session, events = opened(set_up(copy, None))
    try:
        assert [event.message for event in events if isinstance(event, Notice) and "beside" in event.message] == [
            "eagle3-target.gguf, which lies beside the target, drafts: it has its heads (EAGLE-3)."
        ]
        assert (ask(session, KNOBS, "hello").statistics.acceptance or 0) > 0.5
    finally:
        session.close()


def test_a_hybrid_target_gives_what_goes_into_its_layers_and_comes_out_of_the_last(tmp_path: Path) -> None:
    hybrid = write_hybrid(tmp_path / "hybrid.gguf", heads=0)
    session, events = opened(set_up(hybrid, write_eagle(tmp_path / "head.gguf", target_width=32, layers=(0, 2, 3))))
    try:
        expected = ask(session, OFF, "hello")
        for most in (3, 8):  # with the states that are kept, and by checkpoint
            assert ask(session, replace(KNOBS, draft_max=most), "hello").text == expected.text
        assert max(len(event.round.drafted) for event in events if isinstance(event, RoundDone)) == 8
    finally:
        session.close()


@pytest.mark.parametrize(
    ("head", "of", "says"),
    [
        ({"target_width": 320}, {}, "is that of another model (it reads rows of 320 numbers instead of 288)"),
        ({"layers": (1, 2, 4)}, {}, "is that of another model (it reads the layers 1, 2, 4, and those of this one are 0 to 3)"),
        ({"layers": (-1, 2, 3)}, {}, "(it reads the layers -1, 2, 3, and those of this one are 0 to 3)"),
        ({"layers": (1, 2)}, {}, "reads 2 layers of its target, where such a head reads three"),
        ({"own": False}, {}, "is that of another model (it uses the target's embeddings, as 272 numbers of 261 tokens)"),
        ({"mapped": (5, TOKENS)}, {}, "foresees tokens that its vocabulary of 261 does not have"),
        ({"mapped": (5, -1)}, {}, "foresees tokens that its vocabulary of 261 does not have"),
        ({"tokens": 250}, {}, "does not have an embedding of each of its 261 tokens"),
        ({}, {"architecture": "exaone"}, "this llama.cpp does not give it the rows of a exaone's layers; use a small model"),
    ],
)  # fmt: skip
def test_heads_that_would_end_the_process_are_refused(
    tmp_path: Path, head: dict[str, object], of: dict[str, object], says: str
) -> None:
    setup = set_up(write_target(tmp_path / "target.gguf", **of), write_eagle(tmp_path / "head.gguf", **head))  # type: ignore[arg-type]
    session = Session(lambda _: None)
    try:
        with pytest.raises(DraftError, match=re.escape(says)):
            session.load(setup)
    finally:
        session.close()


def test_a_head_is_no_target(tmp_path: Path) -> None:
    session = Session(lambda _: None)
    with pytest.raises(SpectuiError, match=re.escape("is the draft head (EAGLE-3) of one target, no model of its own")):
        session.load(set_up(write_eagle(tmp_path / "head.gguf"), None))
    session.close()


def test_where_the_functions_for_it_have_moved_the_sentence_says_so(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectui.llama.heads.rows.set_layer", None)
    session = Session(lambda _: None)
    with pytest.raises(DraftError, match=r"does not have llama.cpp's functions for heads .* where they were; install"):
        session.load(set_up(target, write_eagle(tmp_path / "head.gguf")))
    session.close()


@pytest.mark.skipif(not SPECULATIVE.exists(), reason=f"llama.cpp's programs are not built ({SPECULATIVE})")
@pytest.mark.parametrize("echo", [0.2, 0.3])
def test_llama_cpp_accepts_as_many(target: Path, tmp_path: Path, echo: float) -> None:
    head = write_eagle(tmp_path / "head.gguf", echo=echo)
    text, accepted = accepted_by_llama_cpp(tmp_path, "-m", str(target), "-md", str(head), kind="eagle3")
    session, _ = opened(replace(set_up(target, head), no_template="on"))
    try:
        found = ask(session, replace(KNOBS, temperature=0.0, predict=200), "hello there")
    finally:
        session.close()
    assert found.text[:100] in text
    assert found.statistics.acceptance == pytest.approx(accepted, abs=0.02)
