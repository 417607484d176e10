"""Two spectui use one file of conversations: neither loses a conversation."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from spectui.store import library
from spectui.store.database import StoreError
from spectui.store.journal import Journal
from tests.store.journal_helpers import exchange, some_rounds, until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "conversations.db"


def prompts(file: Path) -> list[list[str]]:
    """The prompts of each conversation whose replies have all ended."""
    with suppress(StoreError):
        kept = [library.open_conversation(file, each.id) for each in library.summaries(file)]
        return sorted([message.text for message in each.messages[::2]] for each in kept if not each.unfinished)
    return []


CLOSE = """
import sys
from pathlib import Path
from spectui.store.database import connect
connect(Path(sys.argv[1])).close()
"""


def test_another_process_does_not_delete_the_log_of_an_open_file(file: Path) -> None:
    """A second connection of this process must not end the locks of the first."""
    journal = Journal(file)
    exchange(journal, "one", some_rounds())
    until(lambda: prompts(file) == [["one"]])
    library.rename(file, journal.conversation, "another title")
    subprocess.run([sys.executable, "-c", CLOSE, str(file)], check=True)
    exchange(journal, "two", some_rounds())
    journal.flush()
    assert prompts(file) == [["one", "two"]]
    subprocess.run([sys.executable, "-c", CLOSE, str(file)], check=True)
    assert journal.close() == ""
    assert prompts(file) == [["one", "two"]]
