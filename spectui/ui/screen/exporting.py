"""The chat that can be taken along: as Markdown or JSON, into the directory that spectui was started in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from spectui.chat.snapshot import as_kept
from spectui.errors import SpectuiError
from spectui.store import export
from spectui.text import printable
from spectui.ui.dialogs.questions import ConfirmScreen, LineScreen
from spectui.ui.screen.chat import ChatScreen


class ExportScreen(LineScreen):
    """Asks for a file name; its end says what is written."""

    VERB = "write"

    def consequence(self, line: str) -> str:
        """Which of the two."""
        if line.lower().endswith(".json"):
            return "JSON, with origins and figures."
        return "Markdown, the text alone (.json: origins and figures too)."


class Exporting(ChatScreen):
    """A chat screen whose conversation can be written to a file."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+x", "export", "Export", id="export", show=False, priority=True,
                tooltip="Write the conversation to a file: Markdown, or JSON with origins and figures"),
    ]  # fmt: skip

    def action_export(self) -> None:
        """Ask for a name, and write it."""
        if not self.session.messages:
            self.notify("Nothing was said yet.", severity="warning", markup=False)
            return
        name = export.file_name(" ".join(printable(self.session.messages[0].content).split()[:8]))

        def export_as(chosen: str | None) -> None:
            if chosen:
                self._export(chosen)

        self.app.push_screen(ExportScreen("Export to this directory as", name, max_length=120), export_as)

    @work(exclusive=True, group="export")
    async def _export(self, name: str, replaces: bool = False) -> None:
        """Beside the UI thread: a long conversation has millions of figures."""
        if not Path(name).suffix:
            name += ".md"
        try:
            conversation = await asyncio.to_thread(as_kept(self.session, self.transcript.rounds_of))
            here = export.working_directory()
            file = await asyncio.to_thread(export.save, conversation, here, name, replace=replaces)
        except export.ExistsError as error:

            def replace(yes: bool | None) -> None:
                if yes:
                    self._export(name, True)

            self.app.push_screen(ConfirmScreen(f"{printable(str(error))} Replace it?", "replace"), replace)
        except (SpectuiError, OSError) as error:
            self.notify(printable(str(error)), severity="error", markup=False)
        else:
            self.notify(f"Written: {printable(str(file))}", markup=False)
