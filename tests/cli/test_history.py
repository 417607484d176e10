"""`spectui history` and what `spectui chat` says of conversations that are not there."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from spectui import paths
from spectui.cli import root
from spectui.speculation.records import Round
from spectui.store import library
from spectui.store.database import database_file
from spectui.store.journal import Journal
from spectui.store.prompts import PromptHistory, prompts_file
from spectui.store.rounds import packed
from tests.helpers.terminal import Terminal
from tests.store.journal_helpers import exchange, some_rounds, written


@pytest.fixture(autouse=True)
def _two_exchanges(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_DATA_DIR", str(tmp_path_factory.mktemp("data") / "spectui"))
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path_factory.mktemp("state") / "spectui"))
    written(database_file())


def said(*arguments: str) -> str:
    done = CliRunner().invoke(root, ["history", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_list_search_show_and_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    (summary,) = library.summaries(database_file())
    unpacked = unpacked_chunks(monkeypatch)
    assert said() == said("list") == said("list", "of", "all")
    assert said().startswith(summary.id) and said().endswith("   4  target  first\n")
    assert said("list", "nowhere") == "spectui: Nothing has these words.\n"
    assert said("show", summary.id[:5]).startswith("user:\nfirst\nof all\n\nassistant:\nEin 2 ä!\n")
    assert not unpacked, "nothing of it needs the rounds"
    kept = paths.kept_directory() / "1.npz"
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert said("delete", summary.id) == ""
    assert not kept.exists()
    assert said() == "spectui: Nothing is saved yet.\n"


def test_every_chunk_is_unpacked_once_for_the_export_with_origins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    journal = Journal(database_file())
    exchange(journal, "a long one", some_rounds(1000))
    journal.close()
    unpacked = unpacked_chunks(monkeypatch)
    said("export", library.summaries(database_file(), "long")[0].id, "--format", "json")
    prompt, reply = json.loads((tmp_path / "a-long-one.json").read_text())["messages"]
    assert prompt["text"] == "a long one" and "".join(token["text"] for token in reply["tokens"]) == reply["text"]
    assert reply["stats"]["rounds"] == 1000 and reply["settings"]["ctx_size"] == 512
    assert len(unpacked) == len(set(unpacked)) > 10


def unpacked_chunks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The chunks that are unpacked from here on."""
    chunks = list[bytes]()
    unpack = packed.unpack

    def noted(chunk: bytes) -> tuple[Round, ...]:
        chunks.append(chunk)
        return unpack(chunk)

    monkeypatch.setattr(packed, "unpack", noted)
    return chunks


def test_what_was_said_goes_from_the_prompts_with_its_conversation() -> None:
    prompts = PromptHistory(prompts_file())
    prompts.clear()
    (summary,) = library.summaries(database_file())
    for prompt in ("first\nof all", "second", "of another"):
        prompts.add(prompt)
    said("delete", summary.id)
    assert prompts.load() == ["of another"]


def test_delete_all() -> None:
    written(database_file())
    PromptHistory(prompts_file()).add("of none that is kept")
    refused = CliRunner().invoke(root, ["history", "delete", "--all"])
    assert (refused.exit_code, refused.stderr) == (
        2, "spectui: This deletes 2 conversations and all prompts, and nothing brings them back: add --yes.\n"
    )  # fmt: skip
    assert len(library.summaries(database_file())) == 2 and prompts_file().exists()
    said("delete", "--all", "--yes")
    assert said("delete", "--all") == said() == "spectui: Nothing is saved yet.\n"
    assert not prompts_file().exists()


def test_delete_all_asks_at_a_terminal() -> None:
    for answer, left in (("n", 1), ("y", 0)):
        with Terminal("history", "delete", "--all") as terminal:
            terminal.wait("the question", lambda terminal=terminal: "Go on? [y/N]" in terminal.text)
            terminal.type(f"{answer}\r")
            terminal.child.wait()
        assert (len(library.summaries(database_file())), terminal.child.exitstatus) == (left, 130 if left else 0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["history", "show", "zz"], "No conversations have an id that begins with 'zz'"),
        (["history", "delete"], "Name the conversations to delete"),
        (["history", "delete", "x", "--all"], "Name the conversations to delete"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(root, arguments)
    assert done.exit_code in (1, 2)
    assert says in done.output and done.output.count("\n") == 1


def test_export_writes_into_this_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (summary,) = library.summaries(database_file())
    assert said("export", summary.id[:6]) == f"{tmp_path / 'first.md'}\n"
    said("export", summary.id, "--format", "json")
    assert json.loads((tmp_path / "first.json").read_text())["id"] == summary.id
    again = CliRunner().invoke(root, ["history", "export", summary.id])
    sentence = f"{tmp_path / 'first.md'} exists already: --replace it, or name another with -o."
    assert (again.exit_code, again.stderr) == (2, f"spectui: {sentence}\n")
    said("export", summary.id, "--replace")


def test_export_writes_to_a_named_file_or_to_standard_output(tmp_path: Path) -> None:
    (summary,) = library.summaries(database_file())
    file = tmp_path / "a.json"
    assert said("export", summary.id, "-o", str(file)) == f"{file}\n"
    assert said("export", summary.id, "-o", "-", "--format", "json") == file.read_text()
    assert said("export", summary.id, "-o", "-").startswith("# first\n")
    text = tmp_path / "b.txt"
    said("export", summary.id, "-o", str(text), "--format", "json")
    assert text.read_text() == file.read_text()
    for directory in (text, tmp_path / "missing"):
        lost = CliRunner().invoke(root, ["history", "export", summary.id, "-o", str(directory / "a.md")])
        sentence = f"There is no directory {directory}: make it, or give another name."
        assert (lost.exit_code, lost.stderr) == (1, f"spectui: {sentence}\n")
    assert not (tmp_path / "missing").exists()


def test_export_from_a_removed_directory_is_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    (summary,) = library.summaries(database_file())
    done = CliRunner().invoke(root, ["history", "export", summary.id])
    assert done.exit_code == 1 and "The working directory was removed: " in done.output and done.output.count("\n") == 1
