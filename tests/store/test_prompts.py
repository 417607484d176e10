"""The prompts on disk go with the conversation that they were sent in, however many there are."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spectui.store import prompts
from spectui.store.prompts import LONGEST, MOST, MOST_BYTES, PromptHistory, with_slash, without_slash


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "prompts.jsonl"


def test_the_prompts_of_deleted_messages_are_off_the_disk(file: Path) -> None:
    history = PromptHistory(file)
    for prompt in ("secret", "secret too", "see @n.txt and \\@x", "other", "//etc is secret"):
        history.add(prompt)
    history.forget(["secret", "see @n.txt and @x\n\nn.txt:\n```txt\nnote\n```", "/etc is secret", "other\nwords"])
    assert PromptHistory(file).load() == ["secret too", "other"]
    assert file.stat().st_mode & 0o077 == 0
    history.forget(["secret too", "other"])
    assert file.read_bytes() == b""
    history.clear()
    assert not file.exists()


@pytest.mark.parametrize("prompt", ["/", "//", "// a comment", "/// of Rust", "//!", "a // b", "//\nb", "//A"])
def test_a_comment_of_code_is_sent_whole(prompt: str) -> None:
    assert without_slash(prompt) == with_slash(prompt) == prompt


@pytest.mark.parametrize("message", ["/help", "/etc/passwd?", "//help", "help", ""])
def test_a_slash_keeps_another_from_being_a_command(message: str) -> None:
    assert without_slash(with_slash(message)) == message
    assert not with_slash(message).startswith("/") or with_slash(message).startswith("//")


def test_the_longest_prompts_do_not_let_the_file_grow_without_bound(file: Path) -> None:
    history = PromptHistory(file)
    for number in range(20):
        history.add(f"{number:03} " + "🙂" * (LONGEST - 4))
        assert file.stat().st_size <= MOST_BYTES
    assert history.load()[-1].startswith("019 ") and len(history.load()) > 1


def test_the_latest_prompts_are_loaded(file: Path) -> None:
    file.write_bytes(b"".join(b'"%d"\n' % number for number in range(2 * MOST)))
    assert PromptHistory(file).load() == [str(number) for number in range(MOST, 2 * MOST)]


def test_a_line_that_is_no_prompt_costs_only_itself(file: Path) -> None:
    longer = b'"' + b"x" * (24 * prompts.LONGEST) + b'"\n'
    file.write_bytes(b'"one"\n' + longer + b'{\n\xff\n{"a": 1}\n["a", 1]\n"\\u001b]0;x"\n["a", "\\u001bb", ""]\n"half')
    history = PromptHistory(file)
    assert history.load() == ["one", "]0;x", "ab"]
    history.forget(["one"])
    assert history.load() == ["]0;x", "ab"]


def test_a_prompt_that_is_sent_while_others_are_deleted_is_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two spectui have the file open."""
    history = PromptHistory(file)
    for prompt in ("secret", "other"):
        history.add(prompt)
    adding = threading.Thread(target=PromptHistory(file).add, args=("meanwhile",))
    replacing = prompts.replacing

    @contextmanager
    def slowly(name: Path) -> Iterator[Path]:
        with replacing(name) as part:
            yield part
            adding.start()
            adding.join(0.1)  # it waits until the file is replaced

    monkeypatch.setattr(prompts, "replacing", slowly)
    history.forget(["secret"])
    adding.join()
    assert history.load() == ["other", "meanwhile"]
