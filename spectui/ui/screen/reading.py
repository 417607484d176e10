"""Reading replies: token by token, as text, their code, and as a file."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, cast

from spectui.chat.history.views import exported
from spectui.chat.sentences import NOTHING_SAID
from spectui.chat.text.code_blocks import last_code_blocks
from spectui.errors import ExistsError, SpectuiError
from spectui.speculation.records import Round, Token
from spectui.store import export
from spectui.text import printable
from spectui.ui.screen.window import Window

if TYPE_CHECKING:
    from spectui.ui.textual_patches.app import TerminalApp


# The transcript


def toggle_tokens(window: Window) -> None:
    """Show finished replies as tokens in the colours of their origins, or as text."""
    window.transcript.show_tokens = not window.transcript.show_tokens


def toggle_rejected(window: Window) -> None:
    """Show rejected drafts, or not."""
    window.transcript.show_rejected = not window.transcript.show_rejected
    _look(window)


def toggle_thinking(window: Window) -> None:
    """Unfold or fold the thinking of all replies."""
    window.transcript.show_thinking = not window.transcript.show_thinking


# Tokens and rounds


def toggle_inspection(window: Window) -> None:
    """Put the token cursor on the last token, or remove it."""
    transcript = window.transcript
    if transcript.inspected is not None:
        end_inspection(window)
    elif transcript.inspect_last():
        transcript.focus()
    else:
        window.say("There is no token to inspect yet.")


def show_token(window: Window, token: Token | None, round: Round | None) -> None:
    """Show details of the token under the cursor; None: hide them."""
    window.inspector.show(token, round)
    window.panel.rounds.show_round(round)
    _look(window)
    window.refresh_bindings()
    if token is None:
        window.prompt.focus()


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
