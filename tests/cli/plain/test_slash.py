"""The commands of `spectui chat --plain`: each does what its key does in the window."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.events import Message
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import StopReason
from spectui.store import library
from spectui.store.journal import Journal
from spectui.store.library import last
from tests.cli.plain.test_chat import HEADERS, PAIR, AnsweringEngine, Chat, KnownProfiles
from tests.fake_engine import CPU, GPU, FakeEngine


def kept(file: Path) -> list[str]:
    conversation = last(file)
    assert conversation is not None
    return [message.text for message in conversation.messages]


def test_a_stopped_reply_is_gone_on_with(tmp_path: Path):
    file = tmp_path / "c.db"
    chat = Chat("stop", "/continue", "/continue", "/token", "/export x.json", journal=Journal(file), here=tmp_path)
    whole = "You said STOP.You said YOU SAID STOP.."
    assert [each[:2] for each in chat.engine.generates[1]] == [("user", "stop"), ("assistant", "You said STOP.")]
    assert chat.aside == "stopped\nThere is no reply that was stopped, and no conversation that was cut off.\n"
    assert kept(file) == ["stop", whole]
    assert "Token 10 of 10 is" in chat.out and "Round 3 took" in chat.out
    reply = json.loads((tmp_path / "x.json").read_text())["messages"][1]
    assert "".join(token["text"] for token in reply["tokens"]) == reply["text"] == whole


class Small(AnsweringEngine):
    """Its context holds three messages, and a reply to "fill" fills it."""

    def generate(self, messages: Sequence[Message], at: float | None = None) -> None:
        last = messages[-1]
        if len(messages) < 3 and last.content != "fill":
            super().generate(messages)
            return
        FakeEngine.generate(self, messages)
        if last.role == "user" and len(messages) > 3:
            self.fail("The conversation has 9 tokens.", to_drop=2)
        elif last.role == "user":
            fills = last.content == "fill"
            self.emit_round(plain="half" if fills else "reply")
            self.finish(StopReason.CONTEXT if fills else StopReason.EOS, to_drop=2 if fills else 0)
        else:
            self.finish(StopReason.CONTEXT, to_drop=2)


def test_a_full_context_is_gone_on_with_without_the_oldest_turns(tmp_path: Path):
    file = tmp_path / "c.db"
    lines = ("/drop", "one", "/drop", "fill", "/drop", "/messages", "/undrop", "/undrop", "three", "/drop")
    chat = Chat(*lines, engine=Small(), journal=Journal(file))
    full = "the context of 4096 tokens is full: "
    went_on = "The context was full: it goes on without the oldest turns (1), and reads the others again."
    went_on += " /undrop brings them back."
    room = "The context was not full at the last reply, so nothing is dropped."
    assert [[each.content for each in messages] for messages in chat.engine.generates] == [
        ["one"],
        ["one", "You said ONE.", "fill"],
        ["one", "You said ONE.", "fill", "half"],
        ["fill", "half"],
        ["one", "You said ONE.", "fill", "halfYou said HALF.", "three"],
        ["one", "You said ONE.", "fill", "halfYou said HALF.", "three"],
        ["fill", "halfYou said HALF.", "three"],
    ]
    assert chat.aside.splitlines() == [
        room,
        room,
        f"{full}/drop drops the oldest turns and goes on, /new starts a new chat, /placement with -c sets a larger one",
        went_on,
        "All turns are a part of the next prompt again.",
        "No turns are dropped.",
        "The conversation has 9 tokens. /drop drops the oldest turns and asks again, /edit brings the prompt back to be "
        "shortened, /placement with -c sets a larger context.",
        went_on,
    ]
    assert "1 you, dropped: one\n2 reply, dropped: You said ONE.\n3 you: fill\n" in chat.out
    assert kept(file) == ["one", "You said ONE.", "fill", "halfYou said HALF.", "three", "reply"]


def test_a_prompt_is_edited_and_the_old_way_stays_as_a_branch(tmp_path: Path):
    file = tmp_path / "c.db"
    chat = Chat("one", "two", "/edit other", "/messages", "/back 5", "/messages", journal=Journal(file))
    assert [each.content for each in chat.engine.generates[2]] == ["one", "You said ONE.", "other"]
    listed = [line for line in chat.out.splitlines() if line[:1].isdigit()]
    assert listed[:4] == ["1 you: one", "2 reply: You said ONE.", "3 you: other", "4 reply: You said OTHER."]
    assert listed[4].startswith("5 branch of ") and listed[4].endswith(": You said TWO.")
    assert listed[7:9] == ["3 you: two", "4 reply: You said TWO."]
    assert kept(file) == ["one", "You said ONE.", "two", "You said TWO."]


def test_going_on_from_an_earlier_message(tmp_path: Path):
    file = tmp_path / "c.db"
    chat = Chat("one", "two", "/back 2", "three", "/back 1", "four", "/back x", journal=Journal(file))
    assert [each.content for each in chat.engine.generates[2]] == ["one", "You said ONE.", "three"]
    assert chat.asked == ["four"]
    assert chat.aside.splitlines() == [
        "Going on from message 2: /undo brings back what came after.",
        "The next prompt takes its place.",
        "There is no message x in the list: /messages shows it.",
    ]
    Chat("one", "two", "/back 2", journal=Journal(file))
    assert kept(file) == ["one", "You said ONE."], "as it is opened the next time"


def test_figures_are_of_the_reply_that_is_gone_back_to(tmp_path: Path):
    file = tmp_path / "c.db"
    chat = Chat("one", "stop two", "/back 2", "/stats", "/back 1", "/stats", journal=Journal(file))
    told = [line for line in chat.out.splitlines() if line.startswith("Last reply: ")]
    assert len(told) == 1 and told[0].startswith("Last reply: 5 tokens"), "before the first message there is no reply"
    resumed = Chat("/chats", "/open 1", "/stats", journal=Journal(file))
    assert "Last reply: 5 tokens" in resumed.out


def test_the_system_prompt_belongs_to_the_conversation():
    chat = Chat("/system Be brief.", "/system", "one", "/new", "/system", "two", '/system ""', "three")
    assert [messages[0].content for messages in chat.engine.generates] == ["Be brief.", "two", "two"]
    told = [line for line in chat.out.splitlines() if line.startswith("System")]
    assert told == [f"System prompt: {text}" for text in ("Be brief.", "Be brief.", "none", "none")]


def test_a_system_prompt_is_kept_at_once(tmp_path: Path):
    file = tmp_path / "c.db"
    Chat("one", "/system Be brief.", journal=Journal(file))
    conversation = last(file)
    assert conversation is not None and conversation.system == "Be brief."


def test_a_code_block_is_told_alone():
    chat = Chat("x\\", "```\\", "a\\", "```\\", "```\\", "b\\", "```\\", "y", "/code", "/code 1", "/code 3")
    assert chat.out.splitlines()[-2:] == ["B", "A"]
    assert chat.aside == "There is no code block 3 in the list: /code shows it.\n"
    assert Chat("hello", "/code").aside == "There is no code block in the reply.\n"


def test_conversations_are_found_opened_renamed_and_deleted(tmp_path: Path):
    file = tmp_path / "c.db"
    for prompt in ("tea", "coffee"):
        Chat(prompt, journal=Journal(file))
    chat = Chat("/chats", "/open 2", "more", "/chats TEA", "/rename 1 Green  tea", "/chats", "/delete 2", "/delete 2 yes",
                "/chats", "/open 9", "/rename", journal=Journal(file))  # fmt: skip
    listed = [line for line in chat.out.splitlines() if line[:1].isdigit()]
    titles = [line.partition(":")[0] for line in listed]
    assert titles == ["1 coffee", "2 tea", "1 tea", "1 Green tea", "2 coffee", "1 Green tea"]
    assert listed[2].endswith("4 messages, target, this one")
    assert [each.content for each in chat.engine.generates[0]] == ["tea", "You said TEA.", "more"]
    assert "“coffee” and its 2 messages cannot be brought back: /delete 2 yes deletes them.\n" in chat.aside
    assert chat.aside.endswith("There is no conversation 9 in the list: /chats shows it.\n"
                               "Give the number of a conversation: /chats shows the list.\n")  # fmt: skip
    assert [each.title for each in library.summaries(file)] == ["Green tea"]


def test_deleting_the_open_conversation_begins_a_new_one(tmp_path: Path):
    file = tmp_path / "c.db"
    chat = Chat("secret", "/chats", "/delete 1 yes", "other", journal=Journal(file))
    assert chat.asked == ["other"]
    assert [each.title for each in library.summaries(file)] == ["other"]


def test_without_history_there_is_no_list_and_an_export_all_the_same(tmp_path: Path):
    chat = Chat("/chats", "/export", "add two", "/export", "/export", "/export a/b", "/export x.json", here=tmp_path)
    assert chat.aside.splitlines() == [
        "Chats are not saved: --no-history is on.", "Nothing was said yet.",
        f"{tmp_path / 'add-two.md'} exists already. /export NAME takes another name.",
        "'a/b.md' is no plain file name: give one without directories, such as chat.md.",
    ]  # fmt: skip
    assert (tmp_path / "add-two.md").read_text().endswith("## You\n\nadd two\n\n## Reply\n\nYou said ADD TWO.\n")
    assert len(json.loads((tmp_path / "x.json").read_text())["messages"][1]["tokens"]) == 5


def test_a_knob_that_is_a_text_is_emptied():
    chat = Chat("/set stop \\n\\n", '/set chat-template-kwargs {"a": 1}', "/set draft-max 3", '/set stop ""',
                '/set chat-template-kwargs ""')  # fmt: skip
    assert chat.engine.knobs == Knobs(draft_max=3) and chat.out.startswith("stop \\n\\n: ")
    assert "draft-max must be a whole number" in Chat('/set draft-max ""').aside


def test_knobs_are_kept_and_reset(monkeypatch: pytest.MonkeyPatch):
    saved: list[tuple[str, Knobs]] = []
    monkeypatch.setattr(KnownProfiles, "save", lambda self, name, knobs, setup: saved.append((name, knobs)))
    chat = Chat("/set draft-max 3", "/save my code", "/reset")
    assert saved == [("my code", Knobs(draft_max=3))] and chat.engine.knobs == Knobs()
    assert "spectui chat -P 'my code' starts with it." in chat.aside


def test_devices_are_told_and_chosen():
    chat = Chat("/devices", "/devices draft cuda0", "/devices draft CPU", "/devices both CPU", devices=(CPU, GPU))
    assert chat.out.splitlines()[:2] == [
        "CPU AMD EPYC 9B14, 20.4 GB of 24.0 GB free: no model.",
        "CUDA0 NVIDIA GeForce RTX 3090, 22.8 GB of 24.0 GB free: target and draft.",
    ]
    assert chat.engine.loads[1:] == [replace(PAIR, device_draft="none")]
    assert chat.aside == "/devices takes target or draft and a device of the list.\n"


def test_models_are_loaded_with_other_flags():
    chat = Chat("/placement -ngl 20 -ctk q8_0 -ts 3,1", "/placement", "/placement -ngl 20", "/placement -c few", "hello")
    assert chat.engine.loads[1:] == [replace(PAIR, gpu_layers=20, cache_type_k="q8_0", tensor_split="3,1")]
    assert "Flags of the models: -ngl 20 -ts 3,1 -ctk q8_0.\n" in chat.out
    assert chat.aside == "flag -c: ctx-size must be a whole number, not 'few'.\n"
    assert chat.asked == ["hello"]


def test_the_reply_is_decoded_again_without_drafts_and_compared():
    chat = Chat("/compare", "hello", "/compare", "/set", "more")
    plain, after = chat.engine.turned[1:3]
    assert (plain.drafter, plain.predict, after) == ("off", 5, Knobs())
    assert chat.out.count("5 tokens at 12.5 a second") == 2 and "without: 5 tokens" in chat.out
    assert "measured: cannot be told (within 35 %)\nidentical text: yes, over 5 tokens\n" in chat.out
    assert chat.aside == "There is no finished reply to compare.\n"
    assert chat.asked == ["hello", "You said HELLO.", "more"], "it is no part of the conversation"
    told = re.sub(r" id \d+", "", Chat("plain", "/compare").out)
    assert (
        'no, from token 1 on\nwith drafts: "You"\nwithout: "x"\nwhy: perhaps a near-tie with this seed\'s noise, .950' in told
    )


def test_what_was_written_otherwise_is_not_compared():
    for change in ("/load /models/z.gguf", "/system Be brief."):
        chat = Chat("hello", change, "/compare", "/regenerate", "/compare")
        assert len(chat.engine.generates) == 3
        assert chat.aside.startswith("The last reply used another model") and chat.aside.count("\n") == 1
        assert "identical text: yes" in chat.out
    assert len(Chat("hello", "/nodraft", "/compare").engine.generates) == 2


@pytest.mark.parametrize("command", ["/compare", "/continue", "/regenerate"])
def test_what_needs_a_model_says_that_there_is_none(command: str):
    chat = Chat("stop", "/load missing", command, interactive=True)
    assert chat.aside.splitlines()[-1] == "No model can answer yet: /load TARGET DRAFT chooses one."


def test_where_a_token_came_from():
    told = Chat("hello", "/token 5", "/token -2", "/token 1", "/token 9").out.splitlines()
    assert told[1].startswith('Token 5 of 5 is ".": correction in place of " x" by model; target 0.950, draft unknown.')
    assert told[2].startswith("The target's likeliest: ")
    assert told[3] == "Round 1 took 200 ms: draft 33, verify 161, sampling 2; 1 of 2 drafted tokens accepted."
    assert told[4].startswith('Token 4 of 5 is "HELLO": accepted, drafted by model; target 0.950, draft 0.900.')
    assert told[7].startswith('Token 1 of 5 is "You": accepted')
    for none in ("9", "-6", "0", "x"):
        assert Chat("hello", f"/token {none}").aside == "/token takes a number up to 5, or from -1 back.\n"
    assert Chat("/token").aside == "There is no reply yet.\n"


def test_figures_say_whether_drafting_pays_and_why_not():
    assert "No drafts: the drafter is off." in Chat("/set drafter off", "plain", "/stats").out


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "edit"
    script.write_text("#!/bin/sh\nprintf ' and more\\n' >> \"$1\"\n")
    script.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(script))


def test_prompts_are_written_in_an_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    editor(tmp_path, monkeypatch)
    chat = Chat("/editor some", "/edit", interactive=True)
    assert [messages[-1].content for messages in chat.engine.generates] == ["some and more", "some and more and more"]
    assert Chat("/editor").aside == "An editor needs a terminal.\n"
    assert Chat("/edit").aside == "There is no prompt to edit.\n"


def test_an_edit_that_cannot_be_sent_changes_nothing(tmp_path: Path):
    (tmp_path / "image.png").write_bytes(b"\xff")
    chat = Chat("one", "/edit see @image.png", "two", interactive=True, here=tmp_path)
    assert [each.content for each in chat.engine.generates[-1]] == ["one", "You said ONE.", "two"]


@pytest.mark.parametrize(("lines", "sent"), [(("see @n.txt",), "see @n.txt\n\nn.txt:\n```txt\nnote\n```"),
                                             (("x", "/edit @n.txt"), "@n.txt\n\nn.txt:\n```txt\nnote\n```"),
                                             (("\\@n.txt",), "@n.txt")])  # fmt: skip
def test_a_person_attaches_files_and_a_pipe_does_not(tmp_path: Path, lines: Sequence[str], sent: str):
    (tmp_path / "n.txt").write_text("note")
    assert Chat(*lines, interactive=True, here=tmp_path).asked == [sent]
    assert Chat(lines[-1], here=tmp_path).engine.generates[-1:] in ([], [(Message("user", lines[-1]),)])


@pytest.mark.parametrize("line", ["see @dot", "/edit see @dot"])
def test_a_model_of_this_machine_gets_no_image(tmp_path: Path, line: str):
    (tmp_path / "dot").write_bytes(b"\xff\xd8\xff")
    chat = Chat("one", line, interactive=True, here=tmp_path)
    assert chat.asked == ["one"] and "images go to servers only" in chat.aside


def test_knobs_are_told_and_turned():
    chat = Chat("/set draft-max 24", "/set temperature", "/profile code", "/set temperature", "/profile")
    assert chat.engine.knobs == Knobs(draft_max=24, temperature=0.2)
    assert chat.out.splitlines() == [
        "draft-max 24: most tokens drafted in a round",
        "temperature 0.8: how freely tokens are chosen: 0 always takes the likeliest",
        "temperature 0.2: how freely tokens are chosen: 0 always takes the likeliest",
        "Profiles: code.",
    ]
    assert all(f"{name} " in Chat("/set").out for name in ("drafter", "policy", "p-min", "seed"))


def test_models_are_listed_and_loaded_by_number_or_file():
    chat = Chat("/models", "/load 1 2", "/load other.gguf", "/nodraft", "/load", "hello")
    assert chat.out.splitlines()[:3] == [
        "1 big: qwen2, 1.5B, Q8_0, 2.0 GB, context 32 768 tokens; drafts of its vocabulary: 2.",
        "2 small: qwen2, 0.5B, Q4_0, 400 MB, context 32 768 tokens; no draft of its vocabulary here.",
        "3 torn[31m: 0 MB; it is damaged.",
    ]
    alone = Setup(model="other.gguf")
    assert chat.engine.loads[1:] == [Setup(model=HEADERS[0].path, draft=HEADERS[1].path), alone, alone, alone]
    assert len(Chat("/models SMALL").out.splitlines()) == 1
