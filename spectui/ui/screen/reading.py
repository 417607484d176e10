"""Reading replies: token by token, as text, their code, and as a file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from spectui.chat.history.snapshot import exported
from spectui.chat.sentences import NOTHING_SAID
from spectui.errors import ExistsError, SpectuiError
from spectui.speculation.records import Round, Token
from spectui.store import export
from spectui.text import printable
from spectui.ui.transcript.inspector import Inspector
from spectui.ui.transcript.transcript import Transcript

if TYPE_CHECKING:
    from spectui.ui.screen.chat import ChatScreen
    from spectui.ui.textual_patches.app import TerminalApp


class Reading:
    """Shows the conversation in other ways, without changing it."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen

    # The transcript

    def toggle_tokens(self) -> None:
        """Show finished replies as tokens in the colours of their origins, or as text."""
        shown = not self._screen.transcript.show_tokens
        for transcript in self._screen.query(Transcript):
            transcript.show_tokens = shown

    def toggle_rejected(self) -> None:
        """Show rejected drafts, or not."""
        self._screen.transcript.show_rejected = not self._screen.transcript.show_rejected
        self._look()

    def toggle_thinking(self) -> None:
        """Unfold or fold the thinking of all replies."""
        shown = not self._screen.transcript.show_thinking
        for transcript in self._screen.query(Transcript):
            transcript.show_thinking = shown

    def scroll(self, pages: int) -> None:
        """Scroll the transcript without leaving the prompt."""
        if pages < 0:
            self._screen.transcript.scroll_page_up()
        else:
            self._screen.transcript.scroll_page_down()

    # Tokens and rounds

    def toggle_inspection(self) -> None:
        """Put the token cursor on the last token, or remove it."""
        transcript = self._screen.transcript
        if transcript.inspected is not None:
            self.end_inspection()
        elif transcript.inspect_last():
            transcript.focus()
        else:
            self._screen.say("There is no token to inspect yet.")

    def show_token(self, token: Token | None, round: Round | None) -> None:
        """Show details of the token under the cursor; None: hide them."""
        self._screen.query_one(Inspector).show(token, round)
        self._screen.panel.rounds.show_round(round)
        self._look()
        if token is None:
            self._screen.prompt.focus()

    def _look(self) -> None:
        transcript = self._screen.transcript
        self._screen.session.engine.looked_at = transcript.show_rejected or transcript.inspected is not None

    def mark_round(self, round: Round | None) -> None:
        """Mark the round that was chosen on the panel."""
        self._screen.query_one(Inspector).show(None, None)
        if round is None or not self._screen.transcript.mark_round(round):
            self._screen.transcript.end_inspection()

    def end_inspection(self) -> None:
        """Remove the token cursor."""
        self._screen.transcript.end_inspection()
        self.show_token(None, None)

    # Code

    def copy_code(self) -> None:
        """Copy the last code block of the last reply that can be seen, as far as it is written; or of one above it."""
        # Imported on use: the library for Markdown takes a twentieth of the window's start.
        from spectui.chat.text.prose import last_code_blocks

        screen = self._screen
        blocks = last_code_blocks(screen.session.messages[: screen.transcript.last_seen + 1])
        if not blocks:
            screen.say("There is no code block in the reply.")
            return
        lines = blocks[-1].count("\n") + 1
        what = f"code block {len(blocks)} of {len(blocks)}, {lines} line{'' if lines == 1 else 's'}"
        cast("TerminalApp", screen.app).copy_to_clipboard(blocks[-1], what)

    # Export

    def ask_export(self) -> None:
        """Ask for a name, and write the conversation to a file of that name."""
        from spectui.ui.dialogs.export_name import ExportScreen

        if not self._screen.session.messages:
            self._screen.say(NOTHING_SAID)
            return

        def export_as(chosen: str | None) -> None:
            if chosen:
                self._export(chosen)

        ask = ExportScreen("Export to this directory as", export.file_name(self._screen.session.title), max_length=120)
        self._screen.app.push_screen(ask, export_as)

    def _export(self, name: str, *, replace: bool = False) -> None:
        # In a worker thread, because a long conversation has millions of figures.
        self._screen.run_worker(self._write(name, replace=replace), exclusive=True, group="export")

    async def _write(self, name: str, *, replace: bool) -> None:
        from spectui.ui.dialogs.questions import ConfirmScreen

        try:
            file = await asyncio.to_thread(exported(self._screen.session, name, replace=replace))
        except ExistsError as error:

            def answer(yes: bool | None) -> None:
                if yes:
                    self._export(name, replace=True)

            self._screen.app.push_screen(ConfirmScreen(f"{printable(str(error))} Replace it?", "replace"), answer)
        except (SpectuiError, OSError) as error:
            self._screen.complain(error)
        else:
            self._screen.notify(f"Written: {printable(str(file))}", markup=False)
