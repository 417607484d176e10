"""A target whose draft is a head that reads rows of its layers (EAGLE-3, DFlash): the text is the target's own."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from spectui.engine.events import Loaded, RoundDone
from spectui.engine.session import Session
from spectui.errors import DraftError
from spectui.knobs import Setup
from tests.engine.exactness.test_heads import KNOBS, OFF
from tests.helpers.smollm2 import ask, opened
from tests.llama.heads import dflash, eagle
from tests.llama.heads.dflash import BLOCK
from tests.llama.heads.headed import write_hybrid


class Kind(NamedTuple):
    """`name`: what people call it. `source`: what its tokens are called. `of_hybrid`: what its file has to fit the hybrid."""

    name: str
    source: str
    write_target: Callable[..., Path]
    write: Callable[..., Path]
    of_hybrid: dict[str, object]


EAGLE3 = Kind("EAGLE-3", "eagle3", eagle.write_target, eagle.write_eagle, {"target_width": 32})
DFLASH = Kind(
    "DFlash", "dflash", dflash.write_target, dflash.write_dflash, {"width": 32, "block": 9, "sections": True}
)  # its positions have four numbers, as the hybrid's have

of_each = pytest.mark.parametrize("kind", [EAGLE3, DFLASH], ids=lambda kind: kind.name)


def set_up(target: Path, head: Path | None) -> Setup:
    return Setup(model=str(target), draft=str(head) if head else None, ctx_size=512, threads=1, no_profile="on")


def test_a_head_foresees_no_further_than_its_block(tmp_path: Path) -> None:
    """And the policy expects no more of it."""
    target, head = dflash.write_target(tmp_path / "target.gguf"), dflash.write_dflash(tmp_path / "head.gguf")
    session, events = opened(set_up(target, head))
    ask(session, replace(KNOBS, draft_max=8), "hello")
    assert [event.costs and event.costs.max_drafted for event in events if isinstance(event, Loaded)] == [BLOCK - 1]
    assert max(len(event.round.drafted) for event in events if isinstance(event, RoundDone)) == BLOCK - 1


@of_each
def test_a_hybrid_target_gives_what_goes_into_its_layers_and_comes_out_of_the_last(kind: Kind, tmp_path: Path) -> None:
    hybrid = write_hybrid(tmp_path / "hybrid.gguf", heads=0)
    head = kind.write(tmp_path / "head.gguf", layers=(0, 2, 3), **kind.of_hybrid)
    session, events = opened(set_up(hybrid, head))
    expected = ask(session, OFF, "hello")
    for most in (3, 8):  # with the states that are kept, and by checkpoint
        assert ask(session, replace(KNOBS, draft_max=most), "hello").text == expected.text
    assert max(len(event.round.drafted) for event in events if isinstance(event, RoundDone)) == 8


OF_BOTH = [
    ({"layers": (1, 2, 4)}, "is that of another model: "),
    ({"layers": (-1, 2, 3)}, "is that of another model: "),
    ({"tokens": 250}, "has layers or embeddings that no such head has"),
]
"""What a file of either kind has, and what is said of it."""


@pytest.mark.parametrize(
    ("kind", "head", "says"),
    [
        *((kind, *each) for kind in (EAGLE3, DFLASH) for each in OF_BOTH),
        (EAGLE3, {"target_width": 320}, "is that of another model: "),
        (EAGLE3, {"layers": (1, 2)}, "has layers or embeddings that no such head has"),
        (EAGLE3, {"own": False}, "is that of another model: "),
        (DFLASH, {"width": 320}, "is that of another model: "),
        (DFLASH, {"layers": ()}, "has layers or embeddings that no such head has"),
        (DFLASH, {"own": False, "more": 8}, "is that of another model: "),
        (DFLASH, {"extra": ["markov_w1"]}, "is a draft head (DFlash) with which spectui cannot draft"),
        (DFLASH, {"extra": ["selector_hidden"]}, "is a draft head (DFlash) with which spectui cannot draft"),
    ],
)
def test_heads_that_would_end_the_process_are_refused(tmp_path: Path, kind: Kind, head: dict[str, object], says: str) -> None:
    refused(kind.write_target(tmp_path / "target.gguf"), kind.write(tmp_path / "head.gguf", **head), says)


@of_each
def test_a_target_that_does_not_give_its_layers_rows_is_refused_with_it(kind: Kind, tmp_path: Path) -> None:
    target = kind.write_target(tmp_path / "target.gguf", architecture="exaone")
    says = "this llama.cpp does not give it the rows of a exaone's layers; use a small model"
    refused(target, kind.write(tmp_path / "head.gguf"), says)


def refused(target: Path, head: Path, says: str) -> None:
    session = Session(lambda _: None)
    with pytest.raises(DraftError, match=re.escape(says)):
        session.load(set_up(target, head))
