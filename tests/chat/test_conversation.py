"""The one conversation: what listens is told how much of it is as before, and whatever a person does, the disk has the same."""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spectui.chat.history.conversation import CameBack, Conversation
from spectui.chat.messages import ChatMessage, OpenedConversation
from spectui.speculation.records import StopReason
from spectui.store import library
from spectui.store.journal import Journal
from tests.chat.test_session import drained, loaded
from tests.fake_engine import FakeEngine


def said(*texts: str) -> list[ChatMessage]:
    """Prompts and replies by turns."""
    messages: list[ChatMessage] = []
    for number, text in enumerate(texts):
        messages.append(ChatMessage(("user", "assistant")[number % 2], text, parent=messages[-1] if number else None))
    return messages


class Listener:
    """Keeps a list of its own from what it is told, as the transcript does."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self.shown: list[ChatMessage] = []
        talk.listen(self.changed)

    def changed(self, same: int) -> None:
        shown = self._talk.shown
        alike = [one is other for one, other in zip(self.shown, shown, strict=False)]
        assert same == (alike.index(False) if False in alike else len(alike)), "no more is drawn again than has changed"
        self.shown = [*self.shown[:same], *shown[same:]]


def test_an_attempt_takes_its_place_with_its_first_text_and_goes_without() -> None:
    talk = Conversation()
    listener = Listener(talk)
    first, answer, second, end = said("one", "a", "two", "b")
    talk.add([first, answer, second, end])
    edited, again = said("ONE", "")
    talk.begin_attempt([edited, again])
    assert talk.path == [first, answer, second, end] and listener.shown == [*talk.path, edited]
    assert talk.leave_attempt() == CameBack(0, "ONE") and listener.shown == talk.path
    again = ChatMessage("assistant", "", parent=second)
    talk.begin_attempt([again])
    assert listener.shown == talk.path and again.line == [first, answer, second, again]
    talk.keep_attempt()
    assert listener.shown == talk.path == [first, answer, second, again] and talk.ends() == [end]
    talk.undo()
    assert listener.shown == talk.path == [first, answer, second, end] and talk.ends() == [again]


class Chats(RuleBasedStateMachine):
    """A person who does anything at any time. After each step the disk has what is on the screen, and all that was said."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.number = 0
        self.said: dict[str, dict[int, str]] = {}
        """By conversation and message: every text that was shown and has not been deleted."""

    def teardown(self) -> None:
        self.session.close()
        shutil.rmtree(self.directory)

    @initialize()
    def begin(self) -> None:
        self.open(self.directory / "0.db")

    def open(self, file: Path) -> None:
        self.file, self.engine = file, FakeEngine()
        self.session = loaded(self.engine, Journal(file))
        self.listener = Listener(self.session.conversation)

    @property
    def talk(self) -> Conversation:
        return self.session.conversation

    def text(self) -> str:
        self.number += 1
        return f"text {self.number}"

    def idle(self) -> bool:
        return self.session.state == "ready"

    def replying(self) -> bool:
        return self.session.writing is not None

    @precondition(idle)
    @rule()
    def send(self) -> None:
        self.session.send(self.text())

    @precondition(replying)
    @rule(empty=st.booleans())
    def write(self, empty: bool) -> None:
        self.engine.emit_round(plain="" if empty else self.text())
        drained(self.session)

    @precondition(replying)
    @rule(stop=st.sampled_from(StopReason))
    def finish(self, stop: StopReason) -> None:
        self.engine.finish(stop)
        drained(self.session)

    @precondition(replying)
    @rule()
    def fail(self) -> None:
        self.engine.fail("It broke.")
        drained(self.session)

    @rule()
    def stop(self) -> None:
        self.session.stop()
        drained(self.session)

    @precondition(lambda self: not (self.session.busy_reason or self.talk.head is None))
    @rule()
    def regenerate(self) -> None:
        self.session.regenerate()

    @precondition(lambda self: self.session.can_continue)
    @rule()
    def continue_reply(self) -> None:
        self.session.continue_reply()

    @precondition(lambda self: not self.session.no_change and self.talk.prompt_to_edit() is not None)
    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        prompts = [at for at, each in enumerate(self.talk.path) if each.role == "user"]
        self.talk.begin_edit(data.draw(st.sampled_from(prompts)))
        self.session.send(self.text())

    @precondition(lambda self: not self.session.no_change and self.talk.path)
    @rule(data=st.data())
    def go_back(self, data: st.DataObject) -> None:
        self.talk.go_back(data.draw(st.integers(0, len(self.talk.path))))

    @precondition(lambda self: not (self.session.no_change or self.session.conversation.no_undo))
    @rule()
    def undo(self) -> None:
        self.talk.undo()

    @precondition(lambda self: not self.session.no_change and self.session.journal.conversation)
    @rule(data=st.data())
    def turn(self, data: st.DataObject) -> None:
        if branches := self.talk.ends():
            self.talk.turn_to(data.draw(st.sampled_from([each.id for each in branches])))

    @rule()
    def new_chat(self) -> None:
        self.session.new_chat()
        drained(self.session)

    @precondition(idle)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        if stored := self.session.stored.find():
            self.session.resume(self.session.stored.read(data.draw(st.sampled_from([each.id for each in stored]))))

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if stored := self.session.stored.find():
            identity = data.draw(st.sampled_from([each.id for each in stored]))
            self.session.leave(identity)
            self.session.stored.delete(identity)
            drained(self.session)
            self.said.pop(identity, None)

    @rule()
    def crash(self) -> None:
        self.session.journal.flush()
        before, old = [each.content for each in self.talk.path if each.content], self.session
        file = self.directory / f"{self.number}.{len(list(self.directory.iterdir()))}.db"
        for each in self.directory.glob(f"{self.file.name}*"):
            shutil.copy(each, file.with_name(each.name.replace(self.file.name, file.name)))
        open_one = old.journal.conversation
        old.close()
        self.open(file)
        if open_one:
            self.session.resume(OpenedConversation.of(library.open_conversation(file, open_one)))
            if before:
                assert [each.content for each in self.talk.path] == before

    @invariant()
    def the_screen_has_the_conversation(self) -> None:
        assert self.listener.shown == self.talk.shown
        assert all(each.content or each is self.session.writing for each in self.talk.path)
        replies = [each for each in self.talk.path if each.role == "assistant"]
        assert all(reply.parent is not None and reply.parent.role == "user" for reply in replies)

    @invariant()
    def the_engine_was_asked_what_is_shown(self) -> None:
        if (writing := self.session.writing) is not None:
            asked = [message for message in self.engine.generates[-1] if message.role != "system"]
            if asked[-1].role == "assistant":  # it is continued
                asked.pop()
            assert [message.role for message in asked] == ["user", "assistant"] * (len(asked) // 2) + ["user"]
            shown = [message.for_engine().content for message in writing.line[:-1]]
            assert "\n\n".join(message.content for message in asked) == "\n\n".join(shown)
            rounds = [message.rounds for message in writing.line[:-1] if message.role == "assistant"]
            written = [tuple(token.id for round in reply for token in round.tokens) for reply in rounds]
            assert [message.tokens for message in asked if message.role == "assistant"] == written
            assert writing.parent is not None and self.engine.terms[-1].at == writing.parent.created

    @invariant()
    def the_disk_has_what_is_shown_and_all_that_was_said(self) -> None:
        self.session.journal.flush()
        shown = {each.id: each.content for each in self.talk.path if each.content}
        if (identity := self.session.journal.conversation) and shown:
            self.said.setdefault(identity, {}).update(shown)
            stored = library.open_conversation(self.file, identity)
            assert [(each.id, each.text) for each in stored.messages] == list(shown.items())
            others = {each.id: each.text for each in stored.others}
            assert shown | others == self.said[identity]
        with closing(sqlite3.connect(self.file)) as connection:
            rows = dict(connection.execute("SELECT id, text FROM message"))
        assert all(rows[each] == text for texts in self.said.values() for each, text in texts.items())


Chats.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestChats = Chats.TestCase
