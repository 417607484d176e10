"""`--trace` of run and chat: what the engine did stands in the file, and no fault of the file ends the chat."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectui.engine.events import Asked, Finished, Loaded, RoundDone
from spectui.traces.reader import Trace
from tests.cli.programs import one_sentence, spectui
from tests.llama.ggufs import write_model

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Flags for a pair of tiny models."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("big", "small"):
        write_model(folder / name, template=TEMPLATE)
    flags = ("-m", str(folder / "big"), "-md", str(folder / "small"), "-c", "256", "-t", "1", "--no-profile")
    return (*flags, "-n", "12", "--policy", "fixed", "--p-min", "0", "--draft-max", "3", "--seed", "5")


def test_a_run_is_traced(models: tuple[str, ...], tmp_path: Path):
    done = spectui("run", *models, "-p", "hello", "--trace", str(tmp_path / "t"))
    assert done.returncode == 0, done.stderr
    events = list(Trace(tmp_path / "t"))
    loaded, asked, finished = (next(e for e in events if isinstance(e, kind)) for kind in (Loaded, Asked, Finished))
    assert (loaded.target.path, loaded.draft.path) == ("big", "small")
    assert [message.content for message in asked.messages] == ["hello"]
    assert finished.text.strip() == done.stdout.decode().strip()
    rounds = [event.round for event in events if isinstance(event, RoundDone)]
    assert sum(len(round.tokens) for round in rounds) == 12
    assert all(len(round.drafted) == 3 for round in rounds[:-3])
    assert str(tmp_path.parent) not in (tmp_path / "t").read_text()  # no directory of the person's


def test_what_passes_cost_is_in_the_trace(models: tuple[str, ...], tmp_path: Path):
    flags = [flag for flag in models if flag != "--no-profile"]
    assert spectui("run", *flags, "-p", "hello", "--trace", str(tmp_path / "t")).returncode == 0
    loaded = next(event for event in Trace(tmp_path / "t") if isinstance(event, Loaded))
    assert loaded.costs is not None and {1, 2, 4} <= loaded.costs.passes.keys() and loaded.costs.next > 0


def test_a_chat_in_a_pipe_is_traced(models: tuple[str, ...], tmp_path: Path):
    done = spectui("chat", "--plain", *models, "--trace", str(tmp_path / "t"), input=b"hello\nand now?\n")
    assert done.returncode == 0, done.stderr
    asked = [event.messages for event in Trace(tmp_path / "t") if isinstance(event, Asked)]
    assert [message.content for message in asked[1]][::2] == ["hello", "and now?"]


@pytest.mark.parametrize("command", [("run", "-p", "hello"), ("chat", "--plain")])
def test_a_full_disk_ends_the_trace_and_not_the_reply(models: tuple[str, ...], command: tuple[str, ...]):
    done = spectui(*command, *models, "--trace", "/dev/full", input=b"hello\n")
    assert done.returncode == 0
    assert done.stderr.decode().count("The trace /dev/full is not complete: No space left on device.") == 1
    assert done.stdout.strip()


@pytest.mark.parametrize("command", [("run", "-p", "hello"), ("chat", "--plain")])
def test_a_file_that_is_no_trace_is_left_alone(models: tuple[str, ...], command: tuple[str, ...], tmp_path: Path):
    (tmp_path / "notes").write_text("mine\n")
    done = spectui(*command, *models, "--trace", str(tmp_path / "notes"))
    assert "exists already and is no trace" in one_sentence(done, 2)
    assert (tmp_path / "notes").read_text() == "mine\n"
