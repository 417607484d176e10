"""Exports have the text without rejected drafts, or all origins and figures, and go to no file but the one that was named."""

import json
import resource
from pathlib import Path

import pytest

from spectui.engine.events import RoundDone
from spectui.errors import ExistsError, SpectuiError
from spectui.speculation.statistics import Statistics
from spectui.store.export import document, file_name, markdown, rendered, save
from spectui.store.records import StoredConversation
from spectui.store.rounds.packed import PackedRounds
from spectui.store.rounds.packing import pack
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import last, some_rounds, written


@pytest.fixture
def conversation(tmp_path: Path) -> StoredConversation:
    written(tmp_path / "conversations.db")
    return last(tmp_path / "conversations.db")


def test_each_round_is_a_line(conversation: StoredConversation) -> None:
    rows = [json.loads(line) for line in rendered(conversation, ".jsonl").splitlines()]
    rounds = [(number, round) for number in (1, 3) for round in some_rounds(3 if number == 1 else 2)]
    assert [(row["message"], row["index"]) for row in rows] == [(number, round.index) for number, round in rounds]
    one, round = rows[2], some_rounds()[2]
    assert [(token["text"], token["fate"]) for token in one["drafted"]] == [(each.text, each.fate) for each in round.drafted]
    assert round.likeliest is not None
    assert [tuple(choice.values()) for choice in one["likeliest"][1]] == round.likeliest.at(1)
    assert rows[0]["reason"]["kind"] == "unlikely" and one["knobs"]["seed"] == round.knobs.seed


def test_markdown_has_the_messages(conversation: StoredConversation) -> None:
    text = markdown(conversation)
    assert text.startswith("# first\n\ntarget · ")
    assert "## System\n\nBe brief.\n\n## You\n\nfirst\nof all\n\n## Reply\n\nEin 2 ä!\n xy\n\n## You\n\nsecond" in text
    assert "z" not in text.split("## Reply")[1], "a rejected draft is no text"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("a\n```python\nx = 1", "\n```"), ("````md\n```\nx\n```\n~~~~", "\n````"), ("~~~\n```\n", "\n~~~"),
        ("```\nx\n```", ""), ("```\nx\n`````  \nb", ""), ("``` a ``` b", ""), ("    ```\nx", ""),
    ],
)  # fmt: skip
def test_a_code_block_that_a_message_leaves_open_ends_with_it(conversation: StoredConversation, text: str, end: str) -> None:
    first, *others = conversation.messages
    exported = markdown(conversation._replace(messages=(first._replace(text=text), *others)))
    stripped = text.strip("\n")
    assert f"## You\n\n{stripped}{end}\n\n## Reply" in exported


def test_json_has_origins_and_figures(conversation: StoredConversation) -> None:
    table = json.loads(document(conversation))
    assert table["schema"] == "spectui.conversation/1" and table["system"] == "Be brief."
    prompt, reply, *_ = table["messages"]
    assert prompt["text"] == "first\nof all" and "tokens" not in prompt
    assert [token["origin"] for token in reply["tokens"]] == [
        "plain", "accepted", "accepted", "bonus", "accepted", "correction",
    ]  # fmt: skip
    figures = Statistics.of(some_rounds())
    assert reply["stats"]["rejected"] == figures.rejected == 1 and reply["stats"]["tokens_per_s"] == figures.tokens_per_s
    assert reply["settings"]["model"] == "/models/target.gguf" and reply["stop_reason"] == "eos"


@pytest.mark.parametrize(
    "text",
    ["<think>\nso\n</think>\n\nFour.", "<|channel|>analysis<|message|>so<|start|>assistant<|channel|>final<|message|>Four."],
)
def test_what_a_reply_thought_is_apart_from_its_answer(conversation: StoredConversation, text: str) -> None:
    prompt, reply, *_ = conversation.messages
    assert reply.reply is not None
    thought = reply._replace(text=text)
    changed = conversation._replace(messages=(prompt, thought))
    assert markdown(changed).endswith("## Reply\n\n<details><summary>Thinking</summary>\n\nso\n\n</details>\n\nFour.\n")
    table = json.loads(document(changed))["messages"][1]
    assert (table["text"], table["thinking"], table["answer"]) == (text, "so", "Four.")


def test_what_the_tokens_note_is_believed_before_marks(conversation: StoredConversation) -> None:
    prompt, reply, *_ = conversation.messages
    assert reply.reply is not None
    engine = FakeEngine()
    for text, thought in (("<think>", True), ("so</think>\n\n", True), ("<think> opens.", False)):
        engine.emit_round(plain=text, thought=thought)
    rounds = PackedRounds.of_chunks([pack([each.round for each in engine.events if isinstance(each, RoundDone)])])
    thought_message = reply._replace(text="<think>so</think>\n\n<think> opens.", reply=reply.reply._replace(rounds=rounds))
    changed = conversation._replace(messages=(prompt, thought_message))
    assert markdown(changed).endswith("<summary>Thinking</summary>\n\nso\n\n</details>\n\n<think> opens.\n")


@pytest.mark.parametrize(
    "name",
    [
        "../x.md",
        "/nowhere/x.md",
        "a/b.md",
        "a\\b.md",
        "..",
        ".hidden",
        "C:x",
        "con.md",
        "x\n.md",
        " ",
        "x\u202edm.",
        "\x9b2J.md",
    ],
)
def test_a_name_cannot_leave_the_directory(conversation: StoredConversation, tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with pytest.raises(SpectuiError):
        save(conversation, home, name)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("title", "name"),
    [("../../etc/passwd", "etc-passwd.md"), ("", "conversation.md"), ("Größe 日本?", "Größe-日本.md"),
     ("nul", "conversation-nul.md"), ("\x1b[31m", "31m.md"), ("x" * 300, "x" * 60 + ".md")],
)  # fmt: skip
def test_a_title_makes_a_plain_name(conversation: StoredConversation, tmp_path: Path, title: str, name: str) -> None:
    assert file_name(title) == name
    assert save(conversation, tmp_path, name).parent == tmp_path


def test_a_file_is_replaced_only_on_request(conversation: StoredConversation, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "x.md").symlink_to(victim)
    with pytest.raises(ExistsError):
        save(conversation, tmp_path, "x.md")
    save(conversation, tmp_path, "x.md", replace=True)
    assert victim.read_text() == "precious" and "# first" in (tmp_path / "x.md").read_text()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".spectui")]


@pytest.mark.parametrize("replace", [False, True])
def test_a_failed_export_leaves_no_file(conversation: StoredConversation, tmp_path: Path, replace: bool) -> None:
    home = tmp_path / "home"
    home.mkdir()
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, old[1]))
    try:
        with pytest.raises(SpectuiError, match="cannot be written: File too large"):
            save(conversation, home, "x.md", replace=replace)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert list(home.iterdir()) == []


def test_a_directory_of_that_name_is_not_replaced(conversation: StoredConversation, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "x.md").mkdir(parents=True)
    with pytest.raises(SpectuiError, match="cannot be written"):
        save(conversation, home, "x.md", replace=True)
    assert [path.name for path in home.iterdir()] == ["x.md"]


def test_a_directory_that_is_none_gives_a_sentence(conversation: StoredConversation, tmp_path: Path) -> None:
    (tmp_path / "nowhere").touch()
    with pytest.raises(SpectuiError, match=r"There is no directory .*nowhere: make it"):
        save(conversation, tmp_path / "nowhere", "x.md")
