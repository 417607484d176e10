"""A model that drafts with its own heads: the text is the target's own, whatever they foresee and whenever they are asked."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.events import Event, Loaded, Notice, RoundDone
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import StopReason
from tests.helpers.smollm2 import ask, opened
from tests.llama.heads import dflash, eagle
from tests.llama.heads.assistant import write_assistant, write_target
from tests.llama.heads.headed import write_headed, write_hybrid

Opened = tuple[Session, list[Event]]
KNOBS = Knobs(temperature=0.8, seed=5, predict=60, policy="fixed", drafter="mtp", draft_max=3, p_min=0.0)
OFF = replace(KNOBS, drafter="off")

PAIRS: dict[str, Callable[[Path], tuple[Path, ...]]] = {
    "one head": lambda folder: (write_headed(folder / "t.gguf"),),
    "three heads": lambda folder: (write_headed(folder / "t.gguf", heads=3),),
    "Gemma 4's assistant": lambda folder: (
        write_target(folder / "t.gguf", attends=0.05), write_assistant(folder / "a.gguf", attends=0.05)
    ),
    "EAGLE-3": lambda folder: (eagle.write_target(folder / "t.gguf"), eagle.write_eagle(folder / "e.gguf")),
    "EAGLE-3, the target's embeddings": lambda folder: (
        eagle.write_target(folder / "t.gguf"), eagle.write_eagle(folder / "e.gguf", own=False, width=eagle.WIDTH)
    ),
    "EAGLE-3, few tokens": lambda folder: (
        eagle.write_target(folder / "t.gguf"), eagle.write_eagle(folder / "e.gguf", mapped=eagle.SAID)
    ),
    "DFlash": lambda folder: (dflash.write_target(folder / "t.gguf"), dflash.write_dflash(folder / "d.gguf")),
    "DFlash, the target's embeddings": lambda folder: (
        dflash.write_target(folder / "t.gguf"), dflash.write_dflash(folder / "d.gguf", own=False, window=16)
    ),
    "DFlash, few tokens": lambda folder: (
        dflash.write_target(folder / "t.gguf"), dflash.write_dflash(folder / "d.gguf", mapped=eagle.SAID)
    ),
}  # fmt: skip
"""Of each kind of heads: how its target is written, and the file of heads if it is another."""


@pytest.fixture(scope="module", params=PAIRS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    model, *heads = map(str, PAIRS[request.param](tmp_path_factory.mktemp("pair")))
    draft = heads[0] if heads else None
    session, events = opened(Setup(model=model, draft=draft, ctx_size=512, ubatch=64, threads=1, no_profile="on"))
    yield session, events
    session.close()


def rounds(events: Sequence[Event]) -> list[RoundDone]:
    return [event for event in events if isinstance(event, RoundDone)]


@pytest.mark.parametrize(("temperature", "drafter"), [(0.0, "mtp"), (1.5, "model"), (0.8, "suffix")])
def test_the_text_is_that_without_drafts_and_tokens_are_named_by_who_drafted_them(
    pair: Opened, temperature: float, drafter: str, request: pytest.FixtureRequest
) -> None:
    session, events = pair
    expected = ask(session, replace(OFF, temperature=temperature), "hello")
    before = len(rounds(events))
    assert ask(session, replace(KNOBS, temperature=temperature, drafter=drafter), "hello").text == expected.text
    kind = request.node.callspec.params["pair"].partition(",")[0]
    of_heads = {"EAGLE-3": "eagle3", "DFlash": "dflash"}.get(kind, "mtp")
    source = "suffix" if drafter == "suffix" else of_heads
    assert {token.source for event in rounds(events)[before:] for token in event.round.drafted} == {source}


def test_they_foresee_more_than_half(pair: Opened) -> None:
    found = ask(pair[0], replace(KNOBS, predict=200), "hello").statistics
    assert found.acceptance is not None
    assert found.acceptance > 0.5
    assert found.accepted > 100


def test_no_draft_has_more_tokens_than_there_are_chained_heads(pair: Opened) -> None:
    session, events = pair
    before = len(rounds(events))
    ask(session, replace(KNOBS, draft_max=8), "hello")
    most = max(len(event.round.drafted) for event in rounds(events)[before:])
    assert session.pair.draft_context is not None
    assert most == (session.pair.draft_context.max_drafted or 8)


def test_they_catch_up_when_they_are_switched_on_again(pair: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(session, "_emit", turn)
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


def test_a_draft_model_takes_their_place(pair: Opened, tmp_path: Path) -> None:
    session, events = pair
    setup = next(event.setup for event in events if isinstance(event, Loaded))
    assert session.pair.draft_context is not None
    other = write_headed(tmp_path / "draft.gguf", heads=0)
    session.load(replace(setup, draft=str(other), requantise_draft="off"))
    try:
        assert session.pair.draft_context.model.path == str(other)
        assert session.pair.context is not None
        assert session.pair.context.hidden is None
    finally:
        session.load(setup)
    assert session.pair.context.hidden is not None


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> tuple[Setup, Path]:
    """A target without heads, and the set-up of it with a file of heads beside it."""
    folder = tmp_path_factory.mktemp("apart")
    target = write_headed(folder / "target.gguf", heads=0, layers=2)
    heads = write_headed(folder / "mtp-target.gguf", heads=1, layers=2, alone=True)
    return Setup(model=str(target), draft=str(heads), ctx_size=512, threads=1, no_profile="on"), heads


def test_a_file_of_heads_drafts_for_its_target(apart: tuple[Setup, Path]) -> None:
    session, _ = opened(apart[0])
    expected = ask(session, OFF, "hello")
    found = ask(session, KNOBS, "hello")
    assert found.text == expected.text
    assert (found.statistics.acceptance or 0) > 0.5


BESIDE: dict[str, tuple[str, Callable[[Path], Path], Callable[[Path], Path]]] = {
    "mtp-target.gguf": ("MTP", lambda path: write_headed(path, heads=0), lambda path: write_headed(path, alone=True)),
    "target-assistant.gguf": ("MTP", lambda path: write_target(path, attends=0.2),
                              lambda path: write_assistant(path, attends=0.2, echo=0.2)),
    "eagle3-target.gguf": ("EAGLE-3", eagle.write_target, eagle.write_eagle),
    "dflash-target.gguf": ("DFlash", dflash.write_target, dflash.write_dflash),
}  # fmt: skip
"""A file of heads -> what people call them, and how the target and the file are written."""


@pytest.mark.parametrize("file", BESIDE)
def test_heads_beside_the_target_draft_unasked(tmp_path: Path, file: str) -> None:
    kind, write_its_target, write_heads = BESIDE[file]
    target, _ = write_its_target(tmp_path / "target.gguf"), write_heads(tmp_path / file)
    session, events = opened(Setup(model=str(target), ctx_size=512, threads=1, no_profile="on"))
    assert [Path(event.setup.draft or "").name for event in events if isinstance(event, Loaded)] == [file]
    assert [event.message for event in events if isinstance(event, Notice) and "beside" in event.message] == [
        f"{file}, which lies beside the target, drafts: it has its heads ({kind})."
    ]
    assert (ask(session, KNOBS, "hello").statistics.acceptance or 0) > 0.2


def test_a_target_goes_on_without_heads_that_do_not_load(apart: tuple[Setup, Path], tmp_path: Path) -> None:
    target = shutil.copy(apart[0].model or "", tmp_path)
    heads = Path(shutil.copy(apart[1], tmp_path))
    heads.write_bytes(heads.read_bytes().replace(b".attn_k.", b".attn_x."))
    session, events = opened(replace(apart[0], model=target, draft=None))
    assert [event.setup.draft for event in events if isinstance(event, Loaded)] == [None]
    assert any("goes on without these heads" in event.message for event in events if isinstance(event, Notice))
    assert ask(session, KNOBS, "hello").text


@pytest.mark.parametrize("content", [b"GGUF", b"<html>", None], ids=["cut short", "a web page", "a head too many"])
def test_a_file_of_heads_that_is_damaged_is_named(apart: tuple[Setup, Path], tmp_path: Path, content: bytes | None) -> None:
    target, heads = shutil.copy(apart[0].model or "", tmp_path), tmp_path / "mtp-target.gguf"
    if content is None:
        write_headed(heads, heads=2, alone=True, without=True)
    else:
        heads.write_bytes(content)
    session, events = opened(replace(apart[0], model=target, draft=None))
    session.load(replace(apart[0], model=target, draft=None, ctx_size=256))
    said = [event.message for event in events if isinstance(event, Notice) and "beside" in event.message]
    assert len(said) == 1
    assert said[0].startswith("mtp-target.gguf, which lies beside the target, does not draft: it ")
    assert ask(session, KNOBS, "hello").text


def test_heads_of_another_target_are_refused(apart: tuple[Setup, Path], tmp_path: Path) -> None:
    other = write_headed(tmp_path / "other.gguf", heads=0, width=320)
    session = Session(lambda _: None)
    with pytest.raises(SpectuiError, match=r"those of another model \(288 numbers a token .* instead of 320"):
        session.load(replace(apart[0], model=str(other)))


@pytest.mark.parametrize(
    "write",
    [lambda path: write_headed(path, heads=1, without=True), lambda path: write_hybrid(path, heads=2)],
    ids=["names one and has none", "more than its architecture's graph takes"],
)
def test_a_target_whose_heads_cannot_draft_writes_without_them(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    path = write(tmp_path / "target.gguf")
    session, _ = opened(Setup(model=str(path), ctx_size=512, threads=1, no_profile="on"))
    assert session.pair.draft_context is None
    assert ask(session, KNOBS, "hello").statistics.accepted == 0


def test_a_hybrid_with_heads_writes_its_own_text(tmp_path: Path) -> None:
    session, events = opened(Setup(model=str(write_hybrid(tmp_path / "hybrid.gguf")), ctx_size=512, threads=1, no_profile="on"))
    expected = ask(session, OFF, "hello")
    for most in (3, 8):  # with the states that are kept, and by checkpoint
        assert ask(session, replace(KNOBS, draft_max=most), "hello").text == expected.text
    assert max(len(event.round.drafted) for event in rounds(events)) == 8
