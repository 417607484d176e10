"""The window of `spectui serve`: the requests in a list, and the reply of one of them as it comes."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import Static

from spectui.chat.commands import GROUPS
from spectui.chat.session import ChatSession
from spectui.engine.requests import Request
from spectui.serve.watching import WatchedEngine, in_words
from spectui.text import one_line, printable
from spectui.ui.screen.replay import OnlookingScreen

ROWS = 6

SERVE: list[BindingType] = [
    Binding("p", "choose(-1)", "Previous", id="previous", tooltip="Show the request before"),
    Binding("n", "choose(1)", "Next", id="next", tooltip="Show the request after"),
    Binding("f", "follow", "Follow", id="follow", tooltip="Show what is being written now"),
]


class ServeScreen(OnlookingScreen):
    """Shows requests, and turns the knobs that they do not set themselves."""

    BINDINGS: ClassVar[list[BindingType]] = SERVE
    BINDING_GROUP_TITLE = "serve"
    PLAIN_KEYS = "p and n choose a request, f follows what is written, Esc ends the shown one"
    ALLOWED = OnlookingScreen.ALLOWED | {command.id for command in GROUPS["steering"]} - {"devices", "placement", "schema"}

    def __init__(self, session: ChatSession, *, watched: WatchedEngine, where: str, **parts: Any) -> None:
        """`where`: the server's address."""
        super().__init__(session, **parts)
        self._watched, self._where = watched, where
        self._list = Static(id="requests")
        self._follows = True
        self._wanted: Request | None = None  # what is to be shown as soon as the window is free

    def on_mount(self) -> None:
        """The list stands above the text."""
        super().on_mount()
        self.query_one("#main").mount(self._list, before=0)

    def _tick(self) -> None:
        watched = self._watched
        if self._follows:
            running = watched.requests.running
            if running is not None and running is not (self._wanted or watched.shown):
                self._show_request(running)
        watched.advance()
        super()._tick()
        if self._wanted is not None and self.session.state == "ready" and not watched.events:
            watched.shown, self._wanted = self._wanted, None
            last = watched.shown.messages[-1]
            self.session.submit(printable(last.content) or "(no text)")
            self.show_all()
        self._list.update(self._rows())

    def _show_request(self, seen: Request) -> None:
        """Show this one next."""
        self._wanted = seen
        self._watched.leave()
        self._drain()
        self.session.new_chat()

    @property
    def _at(self) -> int:
        """The place in the list of what is shown, or is to be; else the last one."""
        seen, shown = self._watched.requests.seen, self._wanted or self._watched.shown
        return seen.index(shown) if shown in seen else len(seen) - 1

    def _rows(self) -> Text:
        seen, shown = self._watched.requests.seen, self._wanted or self._watched.shown
        if not seen:
            return Text(f"{self._where} waits for its first request.")
        start = max(0, min(self._at - ROWS // 2, len(seen) - ROWS))
        lines = Text(no_wrap=True, overflow="ellipsis")
        for one in seen[start : start + ROWS]:
            marked, style = ("> ", "bold") if one is shown else ("  ", "")
            lines.append(f"{marked}{one_line(in_words(one))}\n", style)
        return lines

    async def action_run(self, identity: str) -> None:
        """Esc ends the request that is shown, wherever the focus is."""
        if identity == "stop" and self.session.replying:
            self.session.stop()
        else:
            await super().action_run(identity)

    @property
    def way_on(self) -> str:
        """Where it listens, and how many wait."""
        waiting = len(self._watched.requests.waiting)
        return f"{self._where}" + (f", {waiting} wait" if waiting else "")

    def action_choose(self, step: int) -> None:
        """Show another request."""
        seen, self._follows = self._watched.requests.seen, False
        chosen = seen[max(0, min(self._at + step, len(seen) - 1))] if seen else None
        if chosen is not None and chosen is not (self._wanted or self._watched.shown):
            self._show_request(chosen)

    def action_follow(self) -> None:
        """Show what is written now, from now on."""
        self._follows = True
