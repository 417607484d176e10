"""What is asked of the model: prompts, replies again and further, earlier messages, and the comparison with plain decoding."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial

from spectui.chat import actions
from spectui.chat.comparison import Comparison
from spectui.chat.history.views import ListedMessage, listed_messages
from spectui.chat.sentences import NO_NAMED_PROMPT, NOTHING_SAID, NOTHING_TO_EDIT
from spectui.chat.session import ChatSession
from spectui.engine.events import Event, Failed, Finished
from spectui.paths import absolute, looks_like_path
from spectui.profiles import named_prompts
from spectui.ui.screen.controls import choose_models, do
from spectui.ui.screen.reading import show_unanswered
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
        window.transcript.action_open_edit()
        return False
    if window.has_class("-empty") and looks_like_path(text) and os.path.exists(absolute(text)):
        window.prompt.text = ""
        choose_models(window, text)
        return False
    if session.state in ("no model", "failed"):
        window.say(NO_MODEL)
        return False
    if window.refuses(session.models.refusal(text)):
        return False
    if session.submit(text):
        window.show_figures()
        window.transcript.scroll_to_end()
    window.show_state()
    return True


MOST_COUNTED = 400_000
"""Characters of a prompt that are counted: more does not fit in most contexts, and takes the engine long."""


async def count(window: Window, text: str) -> None:
    """Count the tokens of the prompt that is being written. What an edited one takes the place of is in the context still."""
    session, tokens = window.session, None
    if text and len(text) <= MOST_COUNTED and session.models.target is not None and session.conversation.editing is None:
        tokens = await asyncio.wrap_future(session.engine.count(text))
    if session.typed != (tokens or 0):
        session.typed = tokens or 0
        window.show_figures()


# Comparison


def compare(window: Window) -> None:
    """Run the last reply and its plain decoding side by side; without one, decode plainly first."""
    comparison = window.session.comparison
    if comparison is not None and not comparison.problem:
        _show_both(window, comparison)
    else:
        compare_anew(window)


def compare_anew(window: Window) -> None:
    """Decode the last prompt again without drafts, and compare it with the reply."""
    if isinstance(comparison := do(window, window.session.compare), Comparison):
        _show_both(window, comparison)


def _show_both(window: Window, comparison: Comparison) -> None:
    from spectui.ui.dialogs.compare import CompareScreen

    window.app.push_screen(CompareScreen(window, comparison, partial(window.call_later, compare_anew, window)))


def show_comparison(window: Window, event: Event) -> None:
    """Show what the plain decoding has written; where a person has left that, by a word at its end."""
    from spectui.ui.dialogs.compare import CompareScreen

    comparison, screen = window.session.comparison, window.app.screen
    if isinstance(screen, CompareScreen):
        screen.update()
    if isinstance(event, Finished | Failed):
        window.show_all()
        if comparison is not None and not comparison.problem and not isinstance(screen, CompareScreen):
            window.say("Decoded without drafts: {compare} shows both side by side.", "information")


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
    window.set_focus(box)
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


def turn_branch(window: Window, index: int, by: int) -> None:
    """Turn to another of the branches at the message with this index."""
    session = window.session
    if not window.refuses(session.no_change):
        do(window, partial(session.conversation.turn_branch, index, by))
        show_unanswered(window)
        window.transcript.show_message(index)


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


def choose_named_prompt(window: Window) -> None:
    """Begin the command in the box, which lists the names."""
    if not window.refuses("" if named_prompts.names() else NO_NAMED_PROMPT):
        window.prompt.put("/as ")


def show_system_prompt(window: Window) -> None:
    """Show and change the system prompt."""
    from spectui.ui.dialogs.questions import SystemPromptScreen

    window.ask(SystemPromptScreen(window.session.setup.system), window.session.set_system)
