"""A target whose draft is a head that foresees a block of tokens in one pass (DFlash): the text is the target's own."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.events import Notice, RoundDone
from spectui.engine.session import Session
from spectui.errors import DraftError, SpectuiError
from spectui.knobs import Knobs, Setup
from tests.engine.exactness.test_heads import SPECULATIVE, accepted_by_llama_cpp
from tests.helpers.smollm2 import ask, opened
from tests.llama.heads.dflash import BLOCK, TOKENS, write_dflash, write_target
from tests.llama.heads.headed import write_hybrid

KNOBS = Knobs(temperature=0.8, seed=5, predict=60, policy="fixed", drafter="mtp", draft_max=8, p_min=0.0)
OFF = replace(KNOBS, drafter="off")


def set_up(target: Path, head: Path | None) -> Setup:
    return Setup(model=str(target), draft=str(head) if head else None, ctx_size=512, threads=1, no_profile="on")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target") / "target.gguf")


def test_it_drafts_unasked_beside_its_target(target: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(target, tmp_path))
    write_dflash(tmp_path / "dflash-target.gguf")
    session, events = opened(set_up(copy, None))
    try:
        assert [event.message for event in events if isinstance(event, Notice) and "beside" in event.message] == [
            "dflash-target.gguf, which lies beside the target, drafts: it has its heads (DFlash)."
        ]
        assert (ask(session, KNOBS, "hello").statistics.acceptance or 0) > 0.5
    finally:
        session.close()


def test_only_the_first_token_of_a_draft_takes_time(target: Path, tmp_path: Path) -> None:
    """And it foresees no further than its block, where a repetition was drafted before too."""
    session, events = opened(set_up(target, write_dflash(tmp_path / "head.gguf")))
    try:
        ask(session, replace(KNOBS, drafter="auto"), "hello")
    finally:
        session.close()
    drafts = [event.round.drafted for event in events if isinstance(event, RoundDone)]
    of_head = [[token.source == "dflash" for token in draft] for draft in drafts]
    assert any(len(draft) == BLOCK - 1 and all(draft) for draft in of_head)
    assert not any(any(draft[BLOCK - 1 :]) for draft in of_head)


def test_a_hybrid_target_gives_what_goes_into_its_layers_and_comes_out_of_the_last(tmp_path: Path) -> None:
    """Whose positions have four numbers."""
    hybrid = write_hybrid(tmp_path / "hybrid.gguf", heads=0)
    head = write_dflash(tmp_path / "head.gguf", width=32, layers=(0, 2, 3), block=9, sections=True)
    session, events = opened(set_up(hybrid, head))
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
        ({"width": 320}, {}, "is that of another model (it reads rows of 320 numbers instead of 288)"),
        ({"layers": (1, 2, 4)}, {}, "is that of another model (it reads the layers 1, 2, 4, and those of this one are 0 to 3)"),
        ({"layers": (-1, 2, 3)}, {}, "(it reads the layers -1, 2, 3, and those of this one are 0 to 3)"),
        ({"layers": ()}, {}, "reads no layer of its target: choose another file"),
        ({"own": False, "more": 8}, {}, "it uses the target's embeddings, as 288 numbers of 269 tokens"),
        ({"mapped": (5, TOKENS)}, {}, "foresees tokens that its vocabulary of 261 does not have"),
        ({"mapped": (5, -1)}, {}, "foresees tokens that its vocabulary of 261 does not have"),
        ({"mapped": (5, 6), "own": False}, {}, "says of other tokens which they are than it foresees"),
        ({"tokens": 250}, {}, "does not have an embedding of each of its 261 tokens"),
        ({"block": 0}, {}, "foresees blocks of 0 tokens"),
        ({"block": 1}, {}, "foresees blocks of 1 tokens"),
        ({"mask": None}, {}, "foresees at a token that its vocabulary of 261 does not have"),
        ({"mask": TOKENS}, {}, "foresees at a token that its vocabulary of 261 does not have"),
        ({"value_size": 32}, {}, "attends with keys of 64 numbers to values of 32"),
        ({"extra": ["markov_w1"]}, {}, "is a draft head (DSpark) that chooses among the tokens that it foresees by a part"),
        ({"extra": ["selector_hidden"]}, {}, "is a draft head (DFlash 2) that chooses among the tokens that it foresees by a"),
        ({}, {"architecture": "exaone"}, "this llama.cpp does not give it the rows of a exaone's layers; use a small model"),
    ],
)  # fmt: skip
def test_heads_that_would_end_the_process_are_refused(
    tmp_path: Path, head: dict[str, object], of: dict[str, object], says: str
) -> None:
    setup = set_up(write_target(tmp_path / "target.gguf", **of), write_dflash(tmp_path / "head.gguf", **head))  # type: ignore[arg-type]
    session = Session(lambda _: None)
    try:
        with pytest.raises(DraftError, match=re.escape(says)):
            session.load(setup)
    finally:
        session.close()


def test_a_head_is_no_target(tmp_path: Path) -> None:
    session = Session(lambda _: None)
    with pytest.raises(SpectuiError, match=re.escape("is the draft head (DFlash) of one target, no model of its own")):
        session.load(set_up(write_dflash(tmp_path / "head.gguf"), None))
    session.close()


@pytest.mark.skipif(not SPECULATIVE.exists(), reason=f"llama.cpp's programs are not built ({SPECULATIVE})")
@pytest.mark.parametrize("near", [1, 2])
@pytest.mark.parametrize("own", [True, False])
def test_llama_cpp_accepts_as_many(target: Path, tmp_path: Path, near: int, own: bool) -> None:
    head = write_dflash(tmp_path / "head.gguf", near=near, own=own)
    models = ("-m", str(target), "-md", str(head))
    text, accepted = accepted_by_llama_cpp(tmp_path, *models, kind="dflash", most=BLOCK - 1)
    session, _ = opened(replace(set_up(target, head), no_template="on"))
    try:
        found = ask(session, replace(KNOBS, temperature=0.0, predict=200), "hello there")
    finally:
        session.close()
    assert found.text[:100] in text
    assert found.statistics.acceptance == pytest.approx(accepted, abs=0.02)
