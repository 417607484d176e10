"""The chat that can be taken along: as Markdown or JSON, into the directory that spectui was started in."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from spectui.errors import SpectuiError
from spectui.store import export, library
from spectui.store.records import Conversation, Reply, StoredMessage
from spectui.ui.chat import ChatScreen
from spectui.ui.dialogs import ConfirmScreen, LineScreen
from spectui.ui.figures import printable


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
            conversation = await self._as_kept()
            file = await asyncio.to_thread(export.save, conversation, Path.cwd(), name, replace=replaces)
        except export.ExistsError as error:

            def replace(yes: bool | None) -> None:
                if yes:
                    self._export(name, True)

            self.app.push_screen(ConfirmScreen(f"{printable(str(error))} Replace it?", "replace"), replace)
        except (SpectuiError, OSError) as error:
            self.notify(printable(str(error)), severity="error", markup=False)
        else:
            self.notify(f"Written: {printable(str(file))}", markup=False)

    async def _as_kept(self) -> Conversation:
        """The conversation as it stands in the window, without a reply in progress."""
        journal = self.session.journal
        if journal.file is not None and journal.conversation:
            path = set(journal.path)
            await asyncio.to_thread(journal.flush)
            kept = await asyncio.to_thread(library.open_conversation, journal.file, journal.conversation)
            return replace(kept, messages=tuple(each for each in kept.messages if each.id in path))
        now = time.time()
        messages = tuple(
            StoredMessage(place, None, each.role, each.content, now, self._reply_at(place))
            for place, each in enumerate(self.session.messages)
        )
        title = " ".join(self.session.messages[0].content.split()[:8])
        return Conversation("", title, now, now, self.session.setup.system, self.session.name, messages)

    def _reply_at(self, place: int) -> Reply | None:
        rounds = self.transcript.rounds_of(place)
        return Reply(self.session.setup, None, None, None, None, rounds) if rounds else None
