"""Prompts from files."""

import io
from pathlib import Path

import pytest

from spectui.engine.events import Message
from spectui.errors import UsageError
from spectui.measure.bench.prompt_files import built_in, read


def test_each_line_is_a_prompt(tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("\ufeffwrite a poem\n\nwrite a poem\n")
    first, second = read(file, "be brief")
    assert first.messages == (Message("system", "be brief"), Message("user", "write a poem"))
    assert first.name == "write a poem" and second.name != first.name


def test_what_an_editor_of_windows_saved_is_read(tmp_path):
    for name, content in (("p.txt", "Hello\r\n"), ("p.jsonl", '"Hello"\r\n')):
        (tmp_path / name).write_bytes(("\ufeff" + content).encode())
        assert [each.messages for each in read(tmp_path / name, "")] == [(Message("user", "Hello"),)]


def test_a_line_of_json_may_be_a_conversation(tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text(
        '"hello"\n'
        '{"name": "code", "system": "only code", "prompt": "snake"}\n'
        '[{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>so</think>b"},'
        ' {"role": "user", "content": "c"}]\n'
        '{"messages": [{"role": "system", "content": "own"}, {"role": "user", "content": "d"}]}\n'
    )
    hello, code, talk, own = read(file, "usual")
    assert hello.messages == (Message("system", "usual"), Message("user", "hello"))
    assert (code.name, code.messages[0].content) == ("code", "only code")
    assert [message.role for message in talk.messages] == ["system", "user", "assistant", "user"]
    assert talk.messages[2] == Message("assistant", "b", thought="so")
    assert own.messages[0].content == "own" and len(own.messages) == 2
    assert len({each.digest for each in (hello, code, talk, own)}) == 4


@pytest.mark.parametrize(
    "line",
    ["{", "3", "[]", '{"messages": []}', '{"prompt": 3}', '{"prompt": " "}', '{"name": 1, "prompt": "a"}', "[" * 100_000,
     '[{"role": "user"}]', '[{"role": "assistant", "content": "x"}]', '[{"role": "king", "content": "x"}]'],
)  # fmt: skip
def test_a_senseless_line_is_named(tmp_path, line):
    file = tmp_path / "prompts.jsonl"
    file.write_text(f'"fine"\n{line}\n')
    with pytest.raises(UsageError, match="line 2"):
        read(file, "")


def test_files_without_prompts_are_sentences(tmp_path):
    file = tmp_path / "empty.txt"
    file.write_text("\n \n")
    with pytest.raises(UsageError, match="is empty"):
        read(file, "")
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not text in UTF-8"):
        read(file, "")
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "none.txt", "")


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(UsageError, match="toaster"):
        built_in(["python", "haskell"], "")
    assert [each.name for each in built_in(["chess", "chess"], "")] == ["chess"]


def test_standard_input_has_a_prompt_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\n\ntwo\n")))
    assert [prompt.name for prompt in read(Path("-"), "")] == ["one", "two"]
    with pytest.raises(UsageError, match=r"^Standard input is empty: write one prompt a line\.$"):
        read(Path("-"), "")
