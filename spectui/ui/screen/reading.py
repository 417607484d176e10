"""Reading conversations: listed, opened and resumed; token by token, as text, their code, and as a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from spectui.chat.history.views import exported
from spectui.chat.messages import OpenedConversation, ReadMessage
from spectui.chat.sentences import NOT_SAVED, NOTHING_SAID, UNANSWERED, crash_advice
from spectui.chat.text.code_blocks import last_code_blocks
from spectui.engine.events import Loading
from spectui.errors import ExistsError, SpectuiError
from spectui.speculation.records import Round, Token
from spectui.store import export
from spectui.text import printable
from spectui.ui.keys import with_keys
from spectui.ui.screen.window import Window
from spectui.ui.transcript.source import SourceReader

if TYPE_CHECKING:
    from spectui.ui.textual_patches.app import TerminalApp


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
    if window.session.stored.saved and window.has_class("-roomy"):
        window.toggle_class("-no-chats")
        window.set_focus(window.prompt)
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


# The transcript


def toggle(window: Window, what: str) -> None:
    """Turn a switch of the transcript: `show_tokens`, `show_rejected` or `show_thinking`."""
    setattr(window.transcript, what, not getattr(window.transcript, what))
    _look(window)


# Tokens and rounds


def toggle_inspection(window: Window) -> None:
    """Put the token cursor on the last token, or remove it."""
    transcript = window.transcript
    if transcript.inspected is not None:
        end_inspection(window)
    elif transcript.inspect_last():
        window.set_focus(transcript)
    else:
        window.say("There is no token to inspect yet.")


def show_token(window: Window, token: Token | None, round: Round | None) -> None:
    """Show details of the token under the cursor; None: hide them."""
    window.inspector.show(token, round)
    window.panel.rounds.show_round(round)
    _look(window)
    window.refresh_bindings()
    if token is None:
        window.set_focus(window.prompt)


def _look(window: Window) -> None:
    transcript = window.transcript
    window.session.engine.wants_probabilities = transcript.show_rejected or transcript.inspected is not None


def mark_round(window: Window, round: Round | None) -> None:
    """Mark the round that was chosen on the panel."""
    window.inspector.show(None, None)
    window.transcript.mark_round(round)


def end_inspection(window: Window) -> None:
    """Remove the token cursor."""
    window.transcript.mark_round(None)
    show_token(window, None, None)


# Copying


def copy_code(window: Window) -> None:
    """Copy the last code block of the last reply that can be seen, as far as it is written; or of one above it."""
    blocks = last_code_blocks(window.session.messages[: window.transcript.last_seen + 1])
    if not window.refuses("" if blocks else "There is no code block in the reply."):
        copy(window, blocks[-1], f"code block {len(blocks)} of {len(blocks)}")


def copy_reply(window: Window) -> None:
    """Copy what the last reply that can be seen answers, as far as it is written."""
    seen = window.session.messages[: window.transcript.last_seen + 1]
    replies = [message for message in seen if message.role == "assistant"]
    text = printable(replies[-1].for_engine().content).strip("\n") if replies else ""
    if not window.refuses("" if text else "There is no reply to copy."):
        copy(window, text, "the reply")


def copy(window: Window, text: str, what: str) -> None:
    """Copy a text, and say what it is."""
    lines = text.count("\n") + 1
    cast("TerminalApp", window.app).copy_to_clipboard(text, f"{what}, {lines} line{'' if lines == 1 else 's'}")


# Export


def ask_export(window: Window) -> None:
    """Ask for a name, and write the conversation to a file of that name."""
    from spectui.ui.dialogs.questions import LineScreen

    if window.refuses("" if window.session.messages else NOTHING_SAID):
        return

    def consequence(name: str) -> str:
        if name.lower().endswith(".json"):
            return "JSON, with origins and figures."
        return "Markdown, the text alone (.json: origins and figures too)."

    ask, proposed = "Export to this directory as", export.file_name(window.session.journal.title)
    question = LineScreen(ask, proposed, verb="write", consequence=consequence, max_length=120)
    window.ask(question, lambda name: window.run(partial(_export, window, name), "export"))


async def _export(window: Window, name: str, replace: bool = False) -> None:
    from spectui.ui.dialogs.questions import ConfirmScreen

    try:
        # In a worker thread, because a long conversation has millions of figures.
        file = await asyncio.to_thread(exported(window.session, name, replace=replace))
    except ExistsError as error:
        question = ConfirmScreen(f"{printable(str(error))} Replace it?", "replace")
        window.ask(question, lambda _: window.run(partial(_export, window, name, replace=True), "export"))
    except (SpectuiError, OSError) as error:
        window.complain(error)
    else:
        window.notify(f"Written: {printable(str(file))}", markup=False)
