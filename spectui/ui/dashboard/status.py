"""Around the text: the models and their context, what loads, what the colours mean, the main figures, and the latest chats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from spectui.chat.figures.format import count, decimal, percent, size
from spectui.chat.figures.records import Figures
from spectui.chat.history.conversations import StoredConversations
from spectui.chat.session import ChatSession
from spectui.engine.events import Loading
from spectui.errors import SpectuiError
from spectui.text import printable
from spectui.ui.dashboard.reply import speed
from spectui.ui.widgets.lines import MUTED, FigureLines, Line, gauge

ORIGINS = ("accepted", "correction", "bonus", "plain")
BAR, LOADING_BAR = 12, 20
NO_ROOM = "the prompt does not fit"
NARROW = 100
"""Columns below which a window has no room for the panel beside the chat."""
ROOMY = 150
"""Columns from which a window has room for the chats beside the text."""


class TitleLine(Widget):
    """`target ⟵ drafted by draft` and the context's bar. Below 100 columns `StatusLine` shows the context."""

    DEFAULT_CSS = """
    TitleLine { height: 1; padding: 0 1; background: $panel; pointer: pointer; }
    """

    _figures = Figures()

    def __init__(self, session: ChatSession, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._session = session

    def update_figures(self, figures: Figures) -> None:
        """Draw the context again if it has changed."""
        before, self._figures = self._figures, figures
        if (figures.n_context, figures.n_ctx, figures.typed) != (before.n_context, before.n_ctx, before.typed):
            self.refresh()

    async def on_click(self) -> None:
        """Choose other models."""
        await self.screen.run_action("run('models')")

    def render(self) -> Content:
        """The line."""
        width = self.size.width
        right = self._room() if self.app.size.width >= NARROW else Content("")
        left = self._names(max(0, width - right.cell_length - 2))
        return Content.assemble(left, " " * max(0, width - left.cell_length - right.cell_length), right)

    def _names(self, width: int) -> Content:
        target, draft = self._session.name, self._session.models.drafter
        if not target:
            return Content.styled("spectui", "bold").truncate(width)
        middle = "  ⟵ drafted by  " if draft else "  without a draft"
        if draft and cell_len(target + middle + draft) > width:
            middle = "  ⟵  "
        room = max(0, width - cell_len(middle))
        target = shorten(target, max(room // 2, room - cell_len(draft)) if draft else room)
        return Content.assemble((target, "bold"), (middle, MUTED), (shorten(draft, room - cell_len(target)), "bold"))

    def _room(self) -> Content:
        figures = self._figures
        if figures.n_ctx is None:
            return Content("")
        share = figures.context_share if figures.share_with_typed is None else figures.share_with_typed
        typed = f" + {count(figures.typed)}" if figures.typed else ""
        used = Content.assemble(("ctx ", MUTED), f"{count(figures.n_context)}{typed} / {count(figures.n_ctx)} ")
        if share is not None and share > 1 and typed:
            return Content.assemble(used, (NO_ROOM, "$error"))
        return Content.assemble(used, gauge(share, BAR), f" {percent(share):>5}")


class LoadingLine(Label):
    """`loading target 1.9 GB ▕███▌   ▏ 62 %`. Hidden unless something loads."""

    DEFAULT_CSS = """
    LoadingLine { width: 1fr; height: 1; padding: 0 1; display: none; }
    """

    def begin(self) -> None:
        """Show that something is about to load."""
        self.display = True
        self.update(Content.styled("loading", MUTED))

    def update_loading(self, loading: Loading) -> None:
        """Show the progress."""
        self.display = True
        what = (printable(loading.what), "bold"), f" {size(loading.bytes)}  " if loading.bytes else "  "
        bar, share = gauge(loading.progress, LOADING_BAR), f" {percent(loading.progress):>5}"
        self.update(Content.assemble(("loading ", MUTED), *what, bar, share))

    def end(self) -> None:
        """Hide the line."""
        self.display = False


def shorten(name: str, width: int) -> str:
    """A name in at most `width` cells, without its middle: models differ at both ends of their names."""
    if cell_len(name) <= width:
        return name
    if width < 3:
        return set_cell_size(name, max(0, width))
    tail = (width - 1) // 2
    return set_cell_size(name, width - 1 - tail) + "…" + name[-tail:]


class Legend(FigureLines):
    """One line under the transcript: each origin, drawn as its tokens are, with the reply's count."""

    DEFAULT_CSS = """
    Legend { height: 1; padding: 0 1; }
    """

    def build_lines(self) -> list[Line]:
        """The line."""
        line: Line = []
        for origin in ORIGINS:
            line += [("▌", origin), (origin, origin), (f" {count(self.figures.reply.origins.get(origin, 0)):<7}", "label")]
        return [line]


class StatusLine(FigureLines):
    """`27.4 t/s   about 1.7x plain   93 % accepted, 4.8 a pass   ctx 29 %`"""

    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; }
    """

    def build_lines(self) -> list[Line]:
        """The line."""
        share = self.figures.share_with_typed
        more = "" if share is None else f" → {percent(share)}"
        context = (f"ctx {percent(self.figures.context_share)}{more}", "label")
        if share is not None and share > 1:
            context = NO_ROOM, "big"
        gap, reply = ("   ", "label"), self.figures.reply
        yields: Line = [(percent(reply.acceptance), "value"), (" accepted, ", "label"),
                        (decimal(reply.tokens_per_pass), "value"), (" a pass", "label")]  # fmt: skip
        return [[*speed(self.figures), gap, *yields, gap, context]]


MOST = 200
"""Conversations that are listed; the search finds the others."""


class ChatsPane(OptionList):
    """Titles, the latest on top. Enter or a click opens one."""

    HELP = """\
## Chats

The latest conversations: a click, or arrows and **Enter**, opens one; **{stop}** leads back to the prompt. **{chats}** folds
them away, and **{conversations}** searches, renames and deletes.
"""
    DEFAULT_CSS = """
    ChatsPane, ChatsPane:focus {
        display: none; width: 30; height: 1fr; border: none; border-right: solid $foreground 20%; padding: 1 0 0 1;
        background: $background; text-wrap: nowrap; text-overflow: ellipsis; scrollbar-size-vertical: 1;
        & > .option-list--option-highlighted { background: $foreground 0%; text-style: none; color: $foreground; }
    }
    ChatsPane:focus > .option-list--option-highlighted { background: $primary 15%; }
    """

    def __init__(self, stored: StoredConversations, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._stored = stored
        self.choose: Callable[[str], object] = lambda identity: None
        """Opens the conversation of this id."""

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open it, and lead back to the prompt."""
        self.choose(event.option_id or "")
        self.screen.set_focus(self.screen.query_one("#prompt"))

    def on_show(self) -> None:
        """List what has come while it was hidden."""
        self.follow()

    def follow(self) -> None:
        """List the conversations as they are now, if they are seen."""
        if self.display and self.is_attached and self._stored.saved:
            self.run_worker(self._list, exclusive=True)  # type: ignore[arg-type]  # mypy cannot choose among the forms that Textual takes

    async def _list(self) -> None:
        with suppress(SpectuiError):  # the list that is opened by a key says it
            summaries = await asyncio.to_thread(self._stored.find)
            at = self.highlighted
            self.clear_options()
            for summary in summaries[:MOST]:
                mark = "▸ " if self._stored.is_open(summary.id) else "  "
                self.add_option(Option(Content(f"{mark}{printable(summary.title) or '(no title)'}"), summary.id))
            self.highlighted = min(at or 0, self.option_count - 1) if self.option_count else None
