"""`spectui replay`: bad input in a sentence."""

from pathlib import Path

import pytest

from spectui.store import library
from tests.cli.programs import one_sentence, spectui
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
