"""The draft copy: a draft with many bits a weight is copied once with fewer, and the text stays the same."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spectui.cli.forget import command
from spectui.engine.events import Loading, Notice
from spectui.engine.loading import draft_copy, models, placement
from spectui.engine.loading.placement import Placed
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.llama.devices.listing import Device
from spectui.llama.model import Model, TooLargeError
from spectui.llama.quantiser import quantise
from tests.helpers.smollm2 import SNAKE, ask, opened, setup
from tests.llama.ggufs import write_model

KNOBS = Knobs(temperature=0, predict=24, policy="fixed", draft_max=4, p_min=0.0)


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target in Q8_0: 45 MB. A copy in Q4_0 has 24."""
    file = tmp_path_factory.mktemp("heavy") / "heavy.gguf"
    quantise(Path(setup().model or ""), file, "Q8_0")
    return file


@pytest.fixture
def pair(heavy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    monkeypatch.setenv("SPECTUI_CACHE_DIR", str(tmp_path / "cache"))
    return replace(setup(), draft=str(heavy))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few thousand weights in single precision."""
    return write_model(tmp_path_factory.mktemp("small") / "small.gguf")


@pytest.fixture
def small_pair(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    """Models that are copied in no time, and whose copies are worth using."""
    monkeypatch.setenv("SPECTUI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(draft_copy, "_LEAST_SAVED", 1)
    return replace(setup(), model=str(small), draft=str(small), ctx_size=256)


def test_a_heavy_draft_uses_a_copy_that_is_made_once(pair: Setup, heavy: Path):
    session, events = opened(pair)
    plain = ask(session, replace(KNOBS, drafter="off"), SNAKE)
    drafted = ask(session, KNOBS, SNAKE)
    info = session.pair.draft_info()
    assert drafted.text == plain.text
    assert drafted.statistics.accepted > 0
    assert any(isinstance(event, Loading) and event.what == "draft copy" for event in events)
    assert info is not None
    assert info.path == str(heavy)
    assert info.bytes < 0.6 * heavy.stat().st_size
    assert "a copy in Q4_0" in info.remark and not info.translated
    copy = draft_copy.copy_of(str(heavy))
    written = copy.stat().st_ino

    session, events = opened(pair)
    again = session.pair.draft_info()
    assert again == info
    assert copy.stat().st_ino == written
    assert not any(isinstance(event, Loading) and event.what == "draft copy" for event in events)


def test_a_damaged_copy_is_made_again(small_pair: Setup, small: Path):
    copy = draft_copy.copy_of(str(small))
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"GGUF" + bytes(64))
    opened(small_pair)
    assert 68 < copy.stat().st_size < small.stat().st_size


def test_a_copy_that_memory_has_no_room_for_stays(small_pair: Setup, small: Path, monkeypatch: pytest.MonkeyPatch):
    opened(small_pair)
    copy = draft_copy.copy_of(str(small))
    written, load = copy.stat().st_ino, models.load

    def full(placed: Placed, *more: Any, **named: Any) -> Model:
        if placed.path == str(copy):
            raise TooLargeError("The draft model does not fit into memory.")
        return load(placed, *more, **named)

    monkeypatch.setattr(models, "load", full)
    opened(small_pair)
    assert copy.stat().st_ino == written


def test_requantise_draft_off_uses_the_draft_itself(small_pair: Setup, small: Path):
    session, _ = opened(replace(small_pair, requantise_draft="off"))
    info = session.pair.draft_info()
    assert info is not None
    assert info.remark == ""
    assert not draft_copy.copy_of(str(small)).exists()


def test_a_changed_file_gets_a_copy_of_its_own(heavy: Path):
    before = draft_copy.copy_of(str(heavy))
    status = heavy.stat()
    os.utime(heavy, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))
    assert draft_copy.copy_of(str(heavy)) != before


def test_a_draft_that_cannot_be_copied_is_used_itself_with_a_notice(pair: Setup, monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object, **__: object) -> None:
        raise SpectuiError("heavy.gguf could not be quantised as Q4_0: no space.")

    monkeypatch.setattr("spectui.llama.quantiser.quantise", fails)
    session, events = opened(pair)
    reply = ask(session, KNOBS, SNAKE)
    assert reply.statistics.accepted > 0
    assert any(isinstance(event, Notice) and "used as it is: heavy.gguf could not be" in event.message for event in events)


class Sized:
    """A target of so many bytes."""

    def __init__(self, n_bytes: float) -> None:
        self.n_bytes = n_bytes


def test_whether_a_copy_is_worth_using_depends_on_the_target(pair: Setup, heavy: Path):
    """With a large target a drafted token costs almost nothing, and its acceptance is worth more."""
    opened(pair)
    assert draft_copy.find(str(heavy), Sized(2e8)) == draft_copy.copy_of(str(heavy))  # type: ignore[arg-type]
    assert draft_copy.find(str(heavy), Sized(70e9)) is None  # type: ignore[arg-type]


def test_a_copy_that_is_not_smaller_is_not_made_again(small_pair: Setup, small: Path):
    """Rows that do not divide into blocks of 32 stay at 16 bits."""
    copy = draft_copy.copy_of(str(small))
    copy.parent.mkdir(parents=True)
    copy.write_bytes(small.read_bytes())
    written = copy.stat().st_ino
    session, events = opened(small_pair)
    info = session.pair.draft_info()
    assert copy.stat().st_ino == written
    assert info is not None and info.remark == ""
    assert not any(isinstance(event, Loading) and event.what == "draft copy" for event in events)


@pytest.mark.parametrize("name", ["\u00e9" * 120 + ".gguf", os.fsdecode(b"\xff\x1b[2J.gguf")])
def test_a_draft_may_have_any_file_name(small_pair: Setup, small: Path, tmp_path: Path, name: str):
    draft = tmp_path / name
    draft.symlink_to(small)
    session, _ = opened(replace(small_pair, draft=str(draft)))
    info = session.pair.draft_info()
    assert info is not None and "a copy in Q4_0" in info.remark


def test_unfinished_copies_of_ended_processes_are_deleted(small_pair: Setup, small: Path):
    directory = draft_copy.copy_of(str(small)).parent
    directory.mkdir(parents=True)
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True)
    dead, alive = (directory / f"x.Q4_0.gguf.{pid}.part" for pid in (ended.stdout.strip(), os.getppid()))
    dead.touch()
    alive.touch()
    opened(small_pair)
    assert alive.exists() and not dead.exists()


def test_a_split_model_is_not_copied(small_pair: Setup, small: Path, tmp_path: Path):
    part = tmp_path / "heavy-00001-of-00001.gguf"
    part.symlink_to(small)
    opened(replace(small_pair, draft=str(part)))
    assert not draft_copy.copy_of(str(part)).exists()


def test_the_number_of_copies_is_limited_and_all_can_be_deleted(small_pair: Setup, small: Path):
    directory = draft_copy.copy_of(str(small)).parent
    directory.mkdir(parents=True)
    for age in range(9):
        old = directory / f"old{age}.Q4_0.gguf"
        old.touch()
        os.utime(old, (1e9 - age, 1e9 - age))
    opened(small_pair)
    kept = {file.name for file in directory.iterdir()}
    assert kept == {draft_copy.copy_of(str(small)).name, "old0.Q4_0.gguf", "old1.Q4_0.gguf", "old2.Q4_0.gguf"}
    said = CliRunner().invoke(command)
    assert "4 copies of drafts" in said.output
    assert not list(directory.iterdir())


def test_a_draft_on_a_gpu_is_not_copied(monkeypatch: pytest.MonkeyPatch):
    gpu = Device(name="CUDA0", description="", kind="gpu", free=1, total=1, id=None)
    monkeypatch.setattr(placement, "list_devices", lambda: (gpu,))
    for changes, on_cpu in (({}, False), ({"gpu_layers_draft": 0}, True), ({"device_draft": "none"}, True)):
        placed = placement.resolve(Setup(model="m", draft="d", **changes)).draft
        assert placed is not None and placed.on_cpu is on_cpu
