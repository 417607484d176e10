"""Lists conversations, opens one, and resumes the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from spectui.chat.messages import OpenedConversation, ReadMessage
from spectui.chat.sentences import NOT_SAVED, UNANSWERED, crash_advice
from spectui.engine.events import Loading
from spectui.errors import SpectuiError
from spectui.text import printable
from spectui.ui.keys import with_keys
from spectui.ui.screen.window import Window
from spectui.ui.transcript.source import SourceReader

Read = Callable[[ReadMessage], OpenedConversation]
"""Reads a conversation, and shows each message meanwhile. Takes a while."""


def list_conversations(window: Window) -> None:
    """List the conversations."""
    from spectui.ui.dialogs.conversations import ConversationsScreen

    stored = window.session.stored
    if window.refuses("" if stored.saved else NOT_SAVED):
        return

    async def delete(identity: str) -> None:
        if window.session.leave(identity):
            _show_new(window)
        window.prompt.forget(await asyncio.to_thread(stored.delete, identity))

    window.ask(ConversationsScreen(stored, delete), partial(choose, window))


def choose(window: Window, identity: str) -> None:
    """Open the conversation of this id; "": begin a new one."""
    stored = window.session.stored
    if not identity:
        begin_new(window)
    elif not stored.is_open(identity):
        open_conversation(window, partial(stored.read, identity))


def fold_chats(window: Window) -> None:
    """Fold the chats beside the text, or show them; where there is no room for them, list them."""
    if window.session.stored.saved and (window.has_class("-roomy") or window.has_class("-double")):
        window.toggle_class("-no-chats")
        window.prompt.focus()
    else:
        list_conversations(window)


def open_conversation(window: Window, read: Read) -> None:
    """Open the conversation that `read` returns; waiting prompts go back into the text area."""
    window.return_waiting()
    window.run(partial(show_conversation, window, read), "open")


def open_offer(window: Window) -> None:
    """Resume the conversation that a crash ended."""
    if (offer := window.session.take_offer()) is not None:
        open_conversation(window, partial(OpenedConversation.of, offer))


async def show_conversation(window: Window, read: Read) -> None:
    """Read a conversation in a worker thread, and resume it unless a person does something else meanwhile."""
    session, loop = window.session, asyncio.get_running_loop()

    def progress(share: float) -> None:
        loop.call_soon_threadsafe(window.opening_line.update_loading, Loading("the conversation", share))

    reader = window.opening = SourceReader(progress)
    session.held = True
    opened = None
    try:
        opened = await asyncio.to_thread(read, reader)
    except SpectuiError as error:
        window.complain(error)
    if window.opening is not reader:
        return  # a person has begun a new chat, or opened another, meanwhile
    if opened is not None:
        session.resume(opened)
    _end_opening(window)
    if opened is None:
        window.return_waiting()
        return
    show_unanswered(window)
    window.show_all()
    session.send_waiting()


def _end_opening(window: Window) -> None:
    window.opening, window.session.held = None, False
    window.opening_line.end()


def begin_new(window: Window) -> None:
    """Begin a new chat; a reply in progress is stopped, and waiting prompts go back into the text area."""
    window.session.new_chat()
    _show_new(window)


def _show_new(window: Window) -> None:
    _end_opening(window)
    window.return_waiting()
    window.transcript.clear()
    window.show_all()


def follow(window: Window, same: int) -> None:
    """The conversation has changed after its first `same` messages: show it as it is now."""
    session, transcript = window.session, window.transcript
    if transcript.is_attached:  # the window does not close
        sources = window.opening.sources if window.opening is not None else {}
        talk = session.conversation
        branches = {} if window.prompt.disabled else talk.branches()  # a recorded chat, or another's request, does not turn
        transcript.follow(talk.shown, same, session.writing, sources, branches)
        window.chats.follow()


def show_unanswered(window: Window) -> None:
    """Say how to have the last prompt answered, if it is not."""
    if window.session.conversation.unanswered is not None:
        window.transcript.add_notice(with_keys(window.app, UNANSWERED))


def show_crash(window: Window) -> None:
    """Show how spectui crashed the last time, and what to do about it."""
    session = window.session
    if (crash := session.models.crash) is not None:
        advice = crash_advice(session.setup, offer=session.offer is not None, held=session.models.held, details=True)
        window.transcript.add_error(printable(f"{crash.sentence} {with_keys(window.app, advice)}".strip()))
