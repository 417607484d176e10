"""`spectui replay`: the chat that ships is played by anybody; bad input in a sentence."""

from pathlib import Path

import pytest

from spectui.chat.player import DEMO, demo_file
from spectui.store import library
from spectui.store.database import VERSION, reading
from tests.cli.programs import one_sentence, spectui
from tests.helpers.terminal import without_engine
from tests.store.journal_helpers import written


@pytest.mark.parametrize(
    ("name", "flags", "code", "sentence"),
    [
        ("chat.jsonl", (), 1, "No conversations have an id that begins with 'chat.jsonl'"),
        (None, ("--speed", "0"), 2, "--speed must be between"),
        (None, ("--speed", "nan"), 2, "--speed must be between"),
        (None, (), 2, "needs a terminal"),
        (None, ("-m", "x"), 2, "There is no flag -m"),
    ],
)
def test_bad_input_is_one_sentence(
    name: str | None, flags: tuple[str, ...], code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTUI_DATA_DIR", str(tmp_path))
    written(tmp_path / "conversations.db")
    (summary,) = library.summaries(tmp_path / "conversations.db")
    assert sentence in one_sentence(spectui("replay", name or summary.id, *flags), code)


def test_the_chat_that_ships_is_played_without_llama_cpp_and_shows_what_the_readme_promises(tmp_path: Path) -> None:
    with without_engine(tmp_path / "modules", "replay", "demo", "--speed", "100") as terminal:
        terminal.wait("its end", lambda: "two cores: ended" in terminal.text and "return len(self.elements)" in terminal.text)
        terminal.press("f4")
        terminal.wait("a token", lambda: "likeliest" in terminal.left)
        terminal.leave()
    replies = [message.reply for message in library.open_conversation(demo_file(), DEMO).messages if message.reply is not None]
    rounds = [round for reply in replies for round in reply.rounds]
    assert {token.origin for round in rounds for token in round.tokens} == {"accepted", "correction", "bonus", "plain"}
    assert {token.source for round in rounds for token in round.drafted} == {"model", "suffix"}
    assert len({round.knobs.draft_max for round in replies[-1].rounds}) == 2, "a knob is turned in a reply"


def test_the_chat_that_ships_can_be_read_where_nothing_can_be_written() -> None:
    with reading(demo_file()) as connection:  # a log would have to be made beside it; nor is it migrated
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        paths = connection.execute(
            "SELECT json_extract(setup, '$.model'), json_extract(setup, '$.draft') FROM reply"
        ).fetchall()
    assert not [path for pair in paths for path in pair if "/" in path]
