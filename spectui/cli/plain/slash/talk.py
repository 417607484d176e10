"""Commands about what is said: once more, otherwise, from an earlier message on."""

from __future__ import annotations

from spectui.chat.history.message_list import ListedMessage, listed_messages
from spectui.chat.messages import OpenedConversation
from spectui.chat.sentences import BROUGHT_BACK, NOTHING_SAID, NOTHING_TO_EDIT
from spectui.chat.text.code_blocks import last_code_blocks
from spectui.cli.plain.slash.command import Chat, Run, numbered
from spectui.errors import UsageError
from spectui.text import printable

_SHOWN = 100  # characters of a message in the list


def _new(chat: Chat, rest: str) -> None:
    chat.session.new_chat()
    chat.notice("A new chat.")


def _regenerate(chat: Chat, rest: str) -> None:
    chat.refuse(chat.session.no_regenerating)
    chat.answer(chat.session.regenerate)


def _continue(chat: Chat, rest: str) -> None:
    if chat.session.can_continue:
        chat.answer(chat.session.continue_reply)
    elif (offer := chat.session.take_offer()) is not None:
        chat.resume(OpenedConversation.of(offer))
    else:
        chat.must_be_ready()
        raise UsageError("There is no reply that was stopped, and no conversation that was cut off.")


def _drop(chat: Chat, rest: str) -> None:
    session = chat.session
    chat.refuse(session.oldest.no_dropping)
    session.oldest.drop_for_next()
    chat.answer(session.regenerate if session.conversation.unanswered else session.continue_reply)


def _undrop(chat: Chat, rest: str) -> None:
    chat.refuse(chat.session.oldest.no_bringing_back)
    chat.session.oldest.bring_back()
    chat.notice(BROUGHT_BACK)


def _edit(chat: Chat, rest: str) -> None:
    chat.must_be_ready()
    talk = chat.session.conversation
    prompt = talk.prompt_to_edit()
    if prompt is None:
        raise UsageError(NOTHING_TO_EDIT)
    text = chat.with_files(rest) if rest else chat.edited(talk.path[prompt].content)
    if text.strip():
        talk.begin_edit(prompt)
        chat.ask(text)


def _editor(chat: Chat, rest: str) -> None:
    chat.must_be_ready()
    text = chat.edited(rest)
    if text.strip():
        chat.ask(text)


def _messages(chat: Chat, rest: str) -> None:
    for number, each in enumerate(_listed(chat), 1):
        chat.output(f"{number} {each.label}: {_line(each.text)}")
    if not chat.session.messages:
        chat.notice(NOTHING_SAID)


def _back(chat: Chat, rest: str) -> None:
    talk = chat.session.conversation
    match numbered(_listed(chat), rest, "message", "messages"):
        case ListedMessage("edit", index):
            talk.go_back(index)
            chat.notice("The next prompt takes its place.")
        case ListedMessage("back", length):
            talk.go_back(length)
            chat.notice(f"Going on from message {rest}.")
        case ListedMessage("branch", message) if talk.turn_to(message):
            _show_last(chat)
        case ListedMessage("branch", message):
            chat.resume(chat.session.stored.read_branch(message))


def _undo(chat: Chat, rest: str) -> None:
    chat.refuse(chat.session.no_undo)
    chat.session.conversation.undo()
    _show_last(chat)


def _show_last(chat: Chat) -> None:
    if chat.session.messages:
        chat.notice("Going on from this message:")
        chat.output(chat.session.messages[-1].content)


def _listed(chat: Chat) -> list[ListedMessage]:
    return list(listed_messages(chat.session, chat.session.stored.branches()))


def _line(text: str) -> str:
    line = " ".join(printable(text).split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _system(chat: Chat, rest: str) -> None:
    if rest:
        chat.session.set_system("" if rest == '""' else rest)
    chat.output(f"System prompt: {chat.session.setup.system or 'none'}")


def _code(chat: Chat, rest: str) -> None:
    blocks = last_code_blocks(chat.session.messages)
    if not blocks:
        raise UsageError("There is no code block in the reply.")
    chat.output(numbered(blocks, rest or str(len(blocks)), "code block", "code"))


RUN: dict[str, Run] = {
    "new": _new,
    "regenerate": _regenerate,
    "edit": _edit,
    "editor": _editor,
    "continue": _continue,
    "undo": _undo,
    "drop": _drop,
    "undrop": _undrop,
    "messages": _messages,
    "back": _back,
    "system": _system,
    "code": _code,
}  # fmt: skip
