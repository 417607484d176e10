"""Helpers for tests with a journal: fill it, and read it back."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic

from spectui.chat.messages import OpenedConversation
from spectui.engine.events import Finished, RoundDone
from spectui.knobs import Setup
from spectui.speculation.records import Reason, Round
from spectui.store import library
from spectui.store.database import database_file, identity
from spectui.store.journal import Journal
from spectui.store.records import OpenMessage, StoredConversation, unknown_reply
from spectui.store.recovery.rescue import Rescued, begin_anew
from spectui.store.rounds.packing import pack, unpack
from tests.fake_engine import FakeEngine

SETUP = Setup(model="/models/target.gguf", draft="/models/draft.gguf", ctx_size=512)
TABLES = ("conversation", "message", "reply", "chunk")


def some_rounds(number: int = 3) -> list[Round]:
    """Rounds of the fake engine with every origin and fate, rounded as they are on disk."""
    engine = FakeEngine()
    engine.read_prompt(7, 7)
    for index in range(number):
        match index % 3:
            case 0:
                engine.emit_round(plain="Ein", reason=Reason("unlikely", 0, 16, None, 0.61, 1.0, (1.0, 1.51), (0.0, 0.45)))
            case 1:
                engine.emit_round(" 2", " ä", bonus="!\n", source="suffix")
            case _:
                engine.emit_round(" x", correction="y", rejected=["z"], ignored=["w", "\t"])
    return list(unpack(pack([event.round for event in engine.events if isinstance(event, RoundDone)])))


def text_of(rounds: Sequence[Round]) -> str:
    return "".join(token.text for round in rounds for token in round.tokens)


def write_prompt(journal: Journal, text: str, system: str = "", target: str = "target") -> OpenMessage:
    """Write a prompt behind what was said last."""
    log = journal._log
    prompt = OpenMessage("user", text, parent=log.messages.get(log.head) if log is not None else None)
    journal.prompt(prompt, system, target)
    return prompt


def begin_reply(journal: Journal, prompt: OpenMessage, setup: Setup = SETUP) -> OpenMessage:
    """Begin a reply to this prompt."""
    reply = OpenMessage("assistant", "", parent=prompt, reply=unknown_reply()._replace(setup=setup))
    journal.begin_reply(reply)
    return reply


def exchange(journal: Journal, prompt: str, rounds: Sequence[Round], stop: str = "eos") -> None:
    """Write a prompt and its reply."""
    begin_reply(journal, write_prompt(journal, prompt, "Be brief."))
    for round in rounds:
        journal.add_round(round)
    journal.end_reply(stop, finished())


def resume(journal: Journal, conversation: StoredConversation) -> Sequence[OpenMessage]:
    """Go on with a conversation from the disk; returns the messages of its path."""
    opened = OpenedConversation.of(conversation)
    journal.resume(conversation, (*opened.messages, *opened.others))
    return opened.messages


def finished() -> Finished:
    engine = FakeEngine()
    engine.read_prompt(7, 7)
    engine.finish()
    (event,) = (event for event in engine.events if isinstance(event, Finished))
    return event


def written(file: Path) -> Journal:
    """A journal that has written two exchanges, and is closed."""
    journal = Journal(file)
    exchange(journal, "first\nof all", some_rounds())
    exchange(journal, "second", some_rounds(2), "cancelled")
    journal.close()
    return journal


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    deadline = monotonic() + 120
    while not condition():
        assert monotonic() < deadline, "the condition did not become true"
        threading.Event().wait(0.005)


def last(file: Path | None = None) -> StoredConversation:
    """The conversation that was written to last, of this file or of spectui's own."""
    conversation = library.last(file or database_file())
    assert conversation is not None
    return conversation


def ends(conversation: StoredConversation) -> list[str]:
    """The texts of the last messages of all branches."""
    messages = (*conversation.messages, *conversation.others)
    followed = {message.parent for message in messages}
    return [message.text for message in messages if message.id not in followed]


def assert_set_aside(file: Path) -> None:
    """A chat that begins with this damaged file gives a notice, and is written to a new file."""
    journal = Journal(file)
    exchange(journal, "one", some_rounds())
    journal.close()
    assert "is damaged: it is now" in journal.notices[0]
    assert library.summaries(file)[0].title == "one"


def begun_anew(file: Path) -> Rescued:
    """Set this damaged file aside, and begin a new one."""
    rescued = begin_anew(file, identity(file))
    assert rescued is not None
    return rescued


def lose(file: Path) -> None:
    """Make the whole file unreadable."""
    file.write_bytes(b"\xff" * file.stat().st_size)
    for suffix in ("-wal", "-shm"):
        beside = file.with_name(file.name + suffix)
        if beside.exists():
            beside.write_bytes(b"\xff" * beside.stat().st_size)


@contextmanager
def damaging(file: Path, table: str) -> Iterator[sqlite3.Connection]:
    """Changes that the table's own rules would refuse."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        loose = sql.replace(" STRICT, WITHOUT", " WITHOUT").removesuffix(" STRICT")
        set_sql = "UPDATE sqlite_master SET sql = ? WHERE name = ?"
        connection.execute(set_sql, (loose, table))
        connection.execute("PRAGMA writable_schema = RESET")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        yield connection
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(set_sql, (sql, table))
        connection.execute("PRAGMA writable_schema = RESET")
