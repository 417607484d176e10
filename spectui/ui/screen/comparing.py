"""The chat that decodes a reply once more without drafts, beside the first: what speculation gains is measured, and the text
compared."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from spectui.chat.comparison import OTHERWISE
from spectui.engine.events import Event, Failed, Finished, Prompt, RoundDone
from spectui.ui.keys import spoken
from spectui.ui.screen.chat import ChatScreen


class Comparing(ChatScreen):
    """A chat screen whose last reply can be compared with its plain decoding, which is written on the panel and forgotten."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "compare", "A/B", id="compare", priority=True,
                tooltip="Decode the last prompt again without drafts, and measure"),
    ]  # fmt: skip

    _shown = False  # there is a comparison on the panel

    def action_compare(self) -> None:
        """Decode the last prompt again without drafts, beside the first."""
        if not self.is_free():
            return
        messages = self.session.compare(self.transcript.last_rounds)
        if messages is None or self.session.comparison is None:
            self.notify(self._why_not(), severity="warning", markup=False)
            return
        self.override_knobs(self.session.comparison.knobs)
        self.panel.plain.clear()
        self.panel.plain.start_reply("without drafts")
        self._shown = True
        self.show_page("a/b")
        self.panel.compare.show(self.session.comparison)
        self.engine.generate(messages)
        self._show_state()

    def _why_not(self) -> str:
        if self.session.answered_otherwise:
            return spoken(self.app, f"{OTHERWISE} {{regenerate}} answers once more.")
        return "There is no finished reply to compare."

    def _show_figures(self) -> None:
        """As in the chat; a comparison goes with the reply that it was of."""
        super()._show_figures()
        if self._shown and self.session.comparison is None:
            self._shown = False
            self.panel.compare.show(None)
            self.panel.plain.clear()

    def _take(self, event: Event) -> None:
        """As in the chat; what is of the plain decoding is shown on the panel."""
        comparing = self.session.comparing
        super()._take(event)
        if comparing:
            self._show_plain(event)

    def _show_plain(self, event: Event) -> None:
        match event:
            case RoundDone(round=round):
                self.panel.plain.append_rounds([round])
                return
            case Prompt(thinking=True):
                self.panel.plain.begin_thinking()
            case Finished() | Failed():
                self.return_knobs()
                self.panel.plain.finish_reply()
                self._show_figures()
                self._show_state()
        self.panel.compare.rewrite()
