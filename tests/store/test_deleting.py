"""A deleted conversation is gone for good: also if another process writes it meanwhile, and whatever happens to the file."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from spectui.store import library
from spectui.store.database import connect, identity, set_aside
from spectui.store.journal import Journal
from tests.store.journal_helpers import TABLES, begin_reply, exchange, finished, last, resume, some_rounds, until, write_prompt

DELETE = """
import sys
from pathlib import Path
from spectui.store import library
library.delete(Path(sys.argv[1]), sys.argv[2])
"""
DELETED = "Another spectui has deleted this conversation: what is said in it from now on is not saved on disk."


def counts(file: Path) -> dict[str, int]:
    with closing(connect(file)) as connection:
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}


def remove(file: Path) -> None:
    for path in file.parent.iterdir():
        path.unlink()


@pytest.mark.parametrize("lose", [remove, lambda file: set_aside(file, identity(file))])
def test_a_deleted_chat_is_not_written_into_a_new_file(file: Path, lose: object) -> None:
    journal = Journal(file)
    exchange(journal, "a secret", some_rounds())
    deleted = journal.conversation
    journal.clear()
    journal.flush()
    library.delete(file, deleted)
    assert b"a secret" not in b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert callable(lose)
    lose(file)
    exchange(journal, "harmless", some_rounds(1))
    assert journal.close() == ""
    assert [each.title for each in library.summaries(file)] == ["harmless"]
    assert counts(file) == {"conversation": 1, "message": 2, "reply": 1, "chunk": 1}


def test_deleting_what_another_process_writes_leaves_nothing(file: Path) -> None:
    journal = Journal(file)
    begin_reply(journal, write_prompt(journal, "a secret"))
    some = some_rounds(60)
    for round in some[:30]:
        journal.add_round(round)
    journal.flush()
    subprocess.run([sys.executable, "-c", DELETE, str(file), journal.conversation], check=True)
    for round in some[30:]:
        journal.add_round(round)
    journal.end_reply("eos", finished())
    exchange(journal, "another secret", some_rounds())
    until(lambda: journal.notices)
    assert list(journal.notices) == [DELETED]
    assert set(counts(file).values()) == {0}
    journal.clear()
    exchange(journal, "a new chat", some_rounds(1))
    assert journal.close() == "" and list(journal.notices) == [DELETED]
    assert [each.title for each in library.summaries(file)] == ["a new chat"]


def test_a_chat_that_was_resumed_and_then_deleted_elsewhere_stays_deleted(file: Path) -> None:
    journal = Journal(file)
    exchange(journal, "a secret", some_rounds())
    journal.clear()
    journal.flush()
    resume(journal, last(file))
    library.delete(file, journal.conversation)
    exchange(journal, "more of it", some_rounds())
    assert journal.close() == "" and list(journal.notices) == [DELETED]
    assert set(counts(file).values()) == {0}


def test_deleting_costs_other_conversations_nothing(file: Path) -> None:
    journal = Journal(file)
    for prompt in ("one", "two", "three"):
        journal.clear()
        exchange(journal, prompt, some_rounds())
    journal.close()
    (chosen,) = (each for each in library.summaries(file) if each.title == "two")
    assert library.delete(file, chosen.id) == ["two"]
    assert counts(file) == {"conversation": 2, "message": 4, "reply": 2, "chunk": 2}
    kept = library.summaries(file)
    assert [each.title for each in kept] == ["three", "one"]
    assert all(len(bytes.fromhex(each.id)) == 8 for each in kept), "two machines may share the file"
