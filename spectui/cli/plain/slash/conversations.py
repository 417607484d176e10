"""Commands about the conversations on disk."""

from __future__ import annotations

from datetime import datetime

from spectui.chat.history.snapshot import exported
from spectui.chat.sentences import NOT_SAVED, NOTHING_SAID, nothing_found
from spectui.cli.plain.slash.command import Chat, Run, numbered
from spectui.errors import ExistsError, UsageError
from spectui.store import export
from spectui.store.records import Summary


def _chats(chat: Chat, rest: str) -> None:
    chat.found = chat.session.stored.find(rest)
    for number, each in enumerate(chat.found, 1):
        when = datetime.fromtimestamp(each.updated).strftime("%Y-%m-%d %H:%M")
        here = ", this one" if chat.session.stored.is_open(each.id) else ""
        chat.output(f"{number} {each.title or '(no title)'}: {when}, {each.messages} messages, {each.target}{here}")
    if not chat.found:
        chat.notice(nothing_found(rest))


def _open(chat: Chat, rest: str) -> None:
    chosen = _chosen(chat, rest)
    if chat.session.stored.is_open(chosen.id):
        raise UsageError("This is the conversation that is open.")
    chat.resume(chat.session.stored.read(chosen.id))


def _rename(chat: Chat, rest: str) -> None:
    word, _, title = rest.partition(" ")
    chosen = _chosen(chat, word)
    title = chat.session.stored.rename(chosen.id, title)
    if not title:
        raise UsageError("/rename takes a number and a title.")
    chat.notice(f"{chosen.title} is now {title}.")


def _delete(chat: Chat, rest: str) -> None:
    word, _, sure = rest.partition(" ")
    chosen = _chosen(chat, word)
    if sure.strip() != "yes":
        raise UsageError(f"“{chosen.title}” and its {chosen.messages} messages cannot be brought back: /delete {word} yes"
                         " deletes them.")  # fmt: skip
    chat.session.leave(chosen.id)
    chat.forget(chat.session.stored.delete(chosen.id))
    chat.notice(f"“{chosen.title}” is deleted.")


def _export(chat: Chat, rest: str) -> None:
    if not chat.session.messages:
        raise UsageError(NOTHING_SAID)
    try:
        file = exported(chat.session, rest or export.file_name(chat.session.title))()
    except ExistsError as error:
        raise UsageError(f"{error} /export NAME takes another name.") from error
    chat.output(f"Written: {file}")


def _chosen(chat: Chat, word: str) -> Summary:
    chat.refuse("" if chat.session.stored.saved else NOT_SAVED)  # there was no list
    return numbered(chat.found, word, "conversation", "chats")


RUN: dict[str, Run] = {
    "chats": _chats,
    "open": _open,
    "rename": _rename,
    "delete": _delete,
    "export": _export,
}  # fmt: skip
