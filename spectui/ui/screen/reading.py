"""Reading replies: token by token, as text, their code, and as a file."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, cast

from spectui.chat.history.snapshot import exported
from spectui.chat.sentences import NOTHING_SAID
from spectui.errors import ExistsError, SpectuiError
from spectui.speculation.records import Round, Token
from spectui.store import export
from spectui.text import printable
from spectui.ui.screen.view import ChatView

if TYPE_CHECKING:
    from spectui.ui.textual_patches.app import TerminalApp


class Reading:
    """Shows the conversation in other ways, without changing it."""

    def __init__(self, view: ChatView) -> None:
        self._view = view
        self._session = view.session
        self._transcripts = (view.transcript, view.panel.plain)

    # The transcript

    def toggle_tokens(self) -> None:
        """Show finished replies as tokens in the colours of their origins, or as text."""
        shown = not self._view.transcript.show_tokens
        for transcript in self._transcripts:
            transcript.show_tokens = shown

    def toggle_rejected(self) -> None:
        """Show rejected drafts, or not."""
        self._view.transcript.show_rejected = not self._view.transcript.show_rejected
        self._look()

    def toggle_thinking(self) -> None:
        """Unfold or fold the thinking of all replies."""
        shown = not self._view.transcript.show_thinking
        for transcript in self._transcripts:
            transcript.show_thinking = shown

    def scroll(self, pages: int) -> None:
        """Scroll the transcript without leaving the prompt."""
        if pages < 0:
            self._view.transcript.scroll_page_up()
        else:
            self._view.transcript.scroll_page_down()

    # Tokens and rounds

    def toggle_inspection(self) -> None:
        """Put the token cursor on the last token, or remove it."""
        transcript = self._view.transcript
        if transcript.inspected is not None:
            self.end_inspection()
        elif transcript.inspect_last():
            transcript.focus()
        else:
            self._view.say("There is no token to inspect yet.")

    def show_token(self, token: Token | None, round: Round | None) -> None:
        """Show details of the token under the cursor; None: hide them."""
        self._view.inspector.show(token, round)
        self._view.panel.rounds.show_round(round)
        self._look()
        if token is None:
            self._view.prompt.focus()

    def _look(self) -> None:
        transcript = self._view.transcript
        self._session.engine.looked_at = transcript.show_rejected or transcript.inspected is not None

    def mark_round(self, round: Round | None) -> None:
        """Mark the round that was chosen on the panel."""
        self._view.inspector.show(None, None)
        if round is None or not self._view.transcript.mark_round(round):
            self._view.transcript.end_inspection()

    def end_inspection(self) -> None:
        """Remove the token cursor."""
        self._view.transcript.end_inspection()
        self.show_token(None, None)

    # Code

    def copy_code(self) -> None:
        """Copy the last code block of the last reply that can be seen, as far as it is written; or of one above it."""
        # Imported on use: the library for Markdown takes a twentieth of the window's start.
        from spectui.chat.text.code_blocks import last_code_blocks

        blocks = last_code_blocks(self._session.messages[: self._view.transcript.last_seen + 1])
        if self._view.refuses("" if blocks else "There is no code block in the reply."):
            return
        lines = blocks[-1].count("\n") + 1
        what = f"code block {len(blocks)} of {len(blocks)}, {lines} line{'' if lines == 1 else 's'}"
        cast("TerminalApp", self._view.app).copy_to_clipboard(blocks[-1], what)

    # Export

    def ask_export(self) -> None:
        """Ask for a name, and write the conversation to a file of that name."""
        from spectui.ui.dialogs.questions import LineScreen

        if self._view.refuses("" if self._session.messages else NOTHING_SAID):
            return

        def consequence(name: str) -> str:
            if name.lower().endswith(".json"):
                return "JSON, with origins and figures."
            return "Markdown, the text alone (.json: origins and figures too)."

        ask, proposed = "Export to this directory as", export.file_name(self._session.journal.title)
        question = LineScreen(ask, proposed, verb="write", consequence=consequence, max_length=120)
        self._view.ask(question, self._export)

    def _export(self, name: str, replace: bool = False) -> None:
        # In a worker thread, because a long conversation has millions of figures.
        self._view.run(self._write(name, replace=replace), "export")

    async def _write(self, name: str, *, replace: bool) -> None:
        from spectui.ui.dialogs.questions import ConfirmScreen

        try:
            file = await asyncio.to_thread(exported(self._session, name, replace=replace))
        except ExistsError as error:
            question = ConfirmScreen(f"{printable(str(error))} Replace it?", "replace")
            self._view.ask(question, partial(self._export, name))
        except (SpectuiError, OSError) as error:
            self._view.complain(error)
        else:
            self._view.screen.notify(f"Written: {printable(str(file))}", markup=False)
