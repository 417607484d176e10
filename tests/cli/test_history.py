"""`spectui history` and what `spectui chat` says of conversations that are not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from spectui.cli import root
from spectui.store import library
from spectui.store.database import database_file
from spectui.store.prompts import PromptHistory, prompts_file
from tests.store.journal_helpers import written


@pytest.fixture(autouse=True)
def _two_exchanges(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_DATA_DIR", str(tmp_path_factory.mktemp("data") / "spectui"))
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path_factory.mktemp("state") / "spectui"))
    written(database_file())


def said(*arguments: str) -> str:
    done = CliRunner().invoke(root, ["history", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_list_search_show_and_delete() -> None:
    (summary,) = library.summaries(database_file())
    assert said() == said("list") == said("list", "of", "all")
    assert said().startswith(summary.id) and said().endswith("   4  target  first\n")
    assert said("list", "nowhere") == ""
    assert said("show", summary.id[:5]).startswith("user:\nfirst\nof all\n\nassistant:\nEin 2 ä!\n")
    assert said("delete", summary.id) == ""
    assert said() == ""


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
    said("delete", "--all")
    assert said() == ""
    assert not prompts_file().exists()


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
    assert again.exit_code != 0 and "is there already. --force replaces it." in str(again.output) + str(again.exception)
    said("export", summary.id, "--force")


def test_export_from_a_removed_directory_is_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    (summary,) = library.summaries(database_file())
    done = CliRunner().invoke(root, ["history", "export", summary.id])
    assert done.exit_code == 1 and "The working directory was removed: " in done.output and done.output.count("\n") == 1
