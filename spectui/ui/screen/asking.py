"""What is asked of the model: prompts, replies again and further, earlier messages, and the comparison with plain decoding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spectui.chat import actions
from spectui.chat.history.views import ListedMessage, listed_messages
from spectui.chat.sentences import NOTHING_SAID, NOTHING_TO_EDIT
from spectui.chat.session import ChatSession
from spectui.engine.events import Event, Failed, Finished, RoundDone
from spectui.ui.dashboard.panel import MEASURED
from spectui.ui.screen.controls import do
from spectui.ui.screen.conversations import show_unanswered
from spectui.ui.screen.welcome import NUMBERS, Welcome
from spectui.ui.screen.window import Window

NO_MODEL = "No model can answer yet: {models} chooses one. The prompt is kept."


# Prompts


def submit(window: Window, text: str) -> bool:
    """Send a prompt as soon as the engine is free. False if it stays in the box."""
    session = window.session
    if window.has_class("-empty") and text in ("", *NUMBERS):
        window.prompt.text = ""
        window.query_one(Welcome).take(NUMBERS.index(text) if text else None)
        return False
    if not text:
        return False
    if session.state in ("no model", "failed"):
        window.say(NO_MODEL)
        return False
    if session.submit(text):
        window.show_figures()
        window.transcript.scroll_to_end()
    window.show_state()
    return True


# Comparison


def compare(window: Window) -> None:
    """Decode the last prompt again without drafts, and compare it with the reply."""
    if not window.refuses(window.session.no_comparison):
        panel, comparison = window.panel, window.session.compare()
        panel.plain.clear()
        panel.plain.start_reply("without drafts", 0, comparison.rounds)
        panel.compare.show(comparison)
        panel.open_page(MEASURED)
        window.show_state()


def show_comparison(window: Window, event: Event) -> None:
    """Show an event of the plain decoding on the panel."""
    panel = window.panel
    match event:
        case RoundDone():
            panel.plain.grow()
            return
        case Finished() | Failed():
            panel.plain.finish_reply()
            window.show_all()
    panel.compare.rewrite()


# Earlier messages


def edit_last(window: Window) -> None:
    """Put the last prompt into the text area, to replace it; at the next call the one before, and so on."""
    talk = window.session.conversation
    prompt = talk.prompt_to_edit()
    if prompt is not None:
        edit(window, prompt)
    elif talk.editing is None:
        window.say(NOTHING_TO_EDIT)


def edit(window: Window, index: int) -> None:
    """Put the message with this index into the text area, to replace it."""
    talk, box = window.session.conversation, window.prompt
    if window.refuses(window.session.no_change):
        return
    if box.text.strip() and (talk.editing is None or not box.untouched):
        window.say("Send or clear what is in the box first.")
        return
    box.text = ""
    box.give_back(talk.begin_edit(index))
    box.focus()
    window.show_state()


def edit_again(window: Window, index: int, text: str) -> None:
    """Put an edited prompt back into the text area, unless that has text."""
    box = window.prompt
    if not box.text:
        edit(window, index)
        box.text = ""
        box.give_back(text)
        window.show_state()


def undo(window: Window) -> None:
    """Turn back to the messages before the last regenerating, editing or going back."""
    _turn(window, actions.undo)


def _turn(window: Window, act: Callable[[ChatSession, str], str], words: str = "") -> None:
    """Turn to other messages, and show where they end."""
    if do(window, partial(act, window.session, words)) is not None:
        show_unanswered(window)
        window.transcript.scroll_to_end()


def leave_edit(window: Window) -> None:
    """End the edit; the message stays as it is, and what was written is in the history of prompts."""
    window.session.conversation.leave_edit()
    window.prompt.put_away()
    window.show_state()


def list_messages(window: Window, at: int | None = None) -> None:
    """List the messages and the other branches, with message `at` highlighted."""
    if window.refuses(window.session.no_change):
        return
    # Dialogs are imported when a key opens them, so that the window starts sooner.
    from spectui.ui.dialogs.conversations import MessagesScreen

    listed = list(listed_messages(window.session))

    def chosen(message: ListedMessage) -> None:
        if message.verb == "edit":
            edit(window, message.number)
        else:
            _turn(window, actions.back, str(listed.index(message) + 1))

    if not window.refuses("" if listed else NOTHING_SAID):
        window.ask(MessagesScreen(listed, at), chosen)


def show_system_prompt(window: Window) -> None:
    """Show and change the system prompt."""
    from spectui.ui.dialogs.questions import SystemPromptScreen

    window.ask(SystemPromptScreen(window.session.setup.system), window.session.set_system)
