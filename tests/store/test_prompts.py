"""The prompts on disk go with the conversation that they were sent in."""

from __future__ import annotations

from pathlib import Path

from spectui.store.prompts import PromptHistory


def test_the_prompts_of_deleted_messages_are_off_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    history = PromptHistory(file)
    for prompt in ("secret", "secret too", "see @n.txt and \\@x", "other"):
        history.add(prompt)
    history.forget(["secret", "see @n.txt and @x\n\nn.txt:\n```txt\nnote\n```"])
    assert PromptHistory(file).load() == ["secret too", "other"]
    assert file.stat().st_mode & 0o077 == 0
    history.forget(["secret too", "other"])
    assert file.read_bytes() == b""
    history.clear()
    assert not file.exists()
