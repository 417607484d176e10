"""Commands about what is said: once more, otherwise, from an earlier message on."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from spectui.chat import stored
from spectui.chat.messages import OpenedConversation
from spectui.chat.sentences import NOTHING_ASKED
from spectui.chat.text.prose import last_code_blocks
from spectui.cli.plain.slash.command import Command, numbered
from spectui.errors import UsageError
from spectui.text import printable

if TYPE_CHECKING:
    from spectui.cli.plain.chat import PlainChat

_SHOWN = 100  # characters of a message in the list


def _new(chat: PlainChat, rest: str) -> None:
    chat.session.new_chat()
    chat.say("A new chat.")


def _regenerate(chat: PlainChat, rest: str) -> None:
    chat.must_be_ready()
    if not chat.session.can_regenerate:
        raise UsageError(NOTHING_ASKED)
    chat.answer(chat.session.regenerate)


def _continue(chat: PlainChat, rest: str) -> None:
    if chat.session.can_continue:
        chat.answer(chat.session.continue_reply)
    elif (offer := chat.session.take_offer()) is not None:
        chat.resume(OpenedConversation.of(offer))
    else:
        chat.must_be_ready()
        raise UsageError("There is no reply that was stopped, and no conversation that was cut off.")


def _edit(chat: PlainChat, rest: str) -> None:
    chat.must_be_ready()
    prompt = chat.session.prompt_to_edit()
    if prompt is None:
        raise UsageError("There is no prompt to edit.")
    text = chat.with_files(rest) if rest else chat.edited(chat.session.messages[prompt].content)
    if text.strip():
        chat.session.editing = prompt
        chat.ask(text)


def _editor(chat: PlainChat, rest: str) -> None:
    chat.must_be_ready()
    text = chat.edited(rest)
    if text.strip():
        chat.ask(text)


def _messages(chat: PlainChat, rest: str) -> None:
    for number, each in enumerate(chat.session.messages, 1):
        chat.tell(f"{number} {'you' if each.role == 'user' else 'reply'}: {_line(each.content)}")
    for number, branch in enumerate(stored.branches(chat.session.journal), len(chat.session.messages) + 1):
        when = datetime.fromtimestamp(branch.created).strftime("%Y-%m-%d %H:%M")
        chat.tell(f"{number} branch of {when}: {_line(branch.text)}")
    if not chat.session.messages:
        chat.say("Nothing was said yet.")


def _back(chat: PlainChat, rest: str) -> None:
    session, branches = chat.session, stored.branches(chat.session.journal)
    number = numbered(range(len(session.messages) + len(branches)), rest, "message", "messages")
    if number >= len(session.messages):
        chat.resume(stored.open_branch(session.journal, branches[number - len(session.messages)].id))
        return
    prompt = session.messages[number].role == "user"
    length = number if prompt else number + 1
    session.turn_back(length)
    chat.say("The next prompt takes its place." if prompt else f"Going on from message {rest}.")


def _line(text: str) -> str:
    line = " ".join(printable(text).split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _system(chat: PlainChat, rest: str) -> None:
    if rest:
        chat.session.set_system("" if rest == '""' else rest)
    chat.tell(f"System prompt: {chat.session.setup.system or 'none'}")


def _code(chat: PlainChat, rest: str) -> None:
    blocks = last_code_blocks(chat.session.messages)
    if not blocks:
        raise UsageError("There is no code block in the reply.")
    chat.tell(numbered(blocks, rest or str(len(blocks)), "code block", "code"))


COMMANDS = {
    "new": Command(_new, "", "begin a new chat"),
    "regenerate": Command(_regenerate, "", "answer the last prompt once more"),
    "edit": Command(_edit, "[TEXT]", "send this in place of the last prompt; alone: change that in $EDITOR"),
    "editor": Command(_editor, "[TEXT]", "write a prompt in $EDITOR"),
    "continue": Command(_continue, "", "go on with a reply that was stopped, or with the conversation that was cut off"),
    "messages": Command(_messages, "", "list this conversation's messages and its other branches"),
    "back": Command(_back, "NUMBER", "go on from a message of the list, ask a prompt of it otherwise, or turn to a branch"),
    "system": Command(_system, "[TEXT]", 'say or set this conversation\'s system prompt; "" for none'),
    "code": Command(_code, "[NUMBER]", "the last reply's last code block, or another, alone"),
}  # fmt: skip
