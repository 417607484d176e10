"""A target whose draft is a head that reads rows of its layers (EAGLE-3): the text is the target's own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.events import Event, Loaded, Notice, RoundDone
from spectui.engine.session import Session
from spectui.errors import DraftError, SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import StopReason
from tests.helpers.llama_server import PROGRAM
from tests.helpers.smollm2 import ask, opened
from tests.llama.heads.eagle import TOKENS, WIDTH, letters, write_eagle, write_target
from tests.llama.heads.headed import write_hybrid

Opened = tuple[Session, list[Event]]
KNOBS = Knobs(temperature=0.8, seed=5, predict=60, policy="fixed", drafter="model", draft_max=3, p_min=0.0)
OFF = replace(KNOBS, drafter="off")
SPECULATIVE = PROGRAM.with_name("llama-speculative-simple")


def set_up(target: Path, head: Path | None) -> Setup:
    return Setup(model=str(target), draft=str(head) if head else None, ctx_size=512, threads=1, no_profile="on")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target") / "target.gguf")


HEADS: dict[str, Callable[[Path], Path]] = {
    "its own embeddings": write_eagle,
    "the target's embeddings": lambda path: write_eagle(path, own=False, width=WIDTH),
    "few tokens": lambda path: write_eagle(path, mapped=letters()),
}


@pytest.fixture(scope="module", params=HEADS)
def pair(request: pytest.FixtureRequest, target: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    head = HEADS[request.param](tmp_path_factory.mktemp("head") / "head.gguf")
    session, events = opened(set_up(target, head))
    yield session, events
    session.close()


@pytest.mark.parametrize("temperature", [0.0, 0.8, 1.5])
def test_the_text_is_that_without_drafts(pair: Opened, temperature: float) -> None:
    session, _ = pair
    expected = ask(session, replace(OFF, temperature=temperature), "hello")
    found = ask(session, replace(KNOBS, temperature=temperature), "hello")
    assert found.text == expected.text


def test_it_foresees_more_than_half(pair: Opened) -> None:
    session, events = pair
    before = len(events)
    found = ask(session, replace(KNOBS, predict=200), "hello").statistics
    assert (found.acceptance or 0) > 0.5
    assert found.accepted > 100
    drafted = [token for event in events[before:] if isinstance(event, RoundDone) for token in event.round.drafted]
    assert {token.source for token in drafted} == {"eagle3"}


def test_it_catches_up_when_it_is_switched_on_again(pair: Opened) -> None:
    session, _ = pair
    expected = ask(session, replace(KNOBS, predict=120), "again")
    written, drafted, plain = 0, 0, 0

    def turn(event: Event) -> None:
        nonlocal written, drafted, plain
        if isinstance(event, RoundDone):
            written += len(event.round.tokens)
            drafted += bool(event.round.drafted)
            plain += not event.round.drafted
            session.knobs = replace(KNOBS if 20 <= written < 60 or written >= 80 else OFF, predict=120)

    with session.listening(turn):
        found = ask(session, replace(OFF, predict=120), "again")
    assert found.text == expected.text
    assert drafted > 10
    assert plain > 30


@pytest.mark.parametrize(
    "way",
    [
        lambda session, knobs: ask(session, knobs, "one", "two", "three"),
        lambda session, knobs: ask(session, knobs, "one", "another reply", "three"),  # edited
        lambda session, knobs: ask(session, knobs, "one", "the reply begins"),  # continued
        lambda session, knobs: ask(session, knobs, "one " * 80, "two", "three"),  # nearly full
    ],
)
def test_conversations_go_on_in_every_way(pair: Opened, way: Callable[[Session, Knobs], object]) -> None:
    session, _ = pair
    texts = []
    for knobs in (KNOBS, OFF, replace(KNOBS, drafter="auto", policy="auto"), replace(KNOBS, draft_max=1)):
        texts.append(way(session, replace(knobs, predict=40)).text)
    assert len(set(texts)) == 1


def test_the_context_fills_up(pair: Opened) -> None:
    session, _ = pair
    texts = [ask(session, replace(knobs, predict=-1, seed=8, temperature=0.5), "w " * 200) for knobs in (OFF, KNOBS)]
    assert texts[0].text == texts[1].text
    assert texts[0].reason in (StopReason.CONTEXT, StopReason.EOS)


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


def test_a_draft_model_takes_its_place(pair: Opened, tmp_path: Path) -> None:
    session, events = pair
    setup = next(event.setup for event in events if isinstance(event, Loaded))
    session.load(replace(setup, draft=str(write_target(tmp_path / "draft.gguf", layers=1)), requantise_draft="off"))
    try:
        assert session.target_context is not None
        assert session.target_context.hidden is None
    finally:
        session.load(setup)
    assert (ask(session, KNOBS, "hello").statistics.acceptance or 0) > 0.5


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
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("hello there")
    flags = ["-n", "200", "--temp", "0", "-c", "512", "-t", "1", "--spec-type", "draft-eagle3", "-md", str(head)]
    flags += ["--spec-draft-n-max", "3", "--spec-draft-p-min", "0"]
    said = None
    for _ in range(20):  # it may end before its log is written
        done = subprocess.run(
            [SPECULATIVE, "-m", target, "-f", prompt, *flags], capture_output=True, text=True, timeout=60, check=True
        )
        if said := re.search(r"accept +=\s+([\d.]+)%", done.stderr):
            break
    assert said is not None
    session, _ = opened(replace(set_up(target, head), no_template="on"))
    try:
        found = ask(session, replace(KNOBS, temperature=0.0, predict=200), "hello there")
    finally:
        session.close()
    assert found.text[:100] in done.stdout
    assert found.statistics.acceptance == pytest.approx(float(said[1]) / 100, abs=0.02)
