"""The window of `spectui serve`: the requests in a list, and the reply of one of them as it comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Static

from spectui.chat.session import ChatSession
from spectui.serve.watching import Watched, WatchedEngine
from spectui.text import one_line, printable
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.screen.commands import OWN_GROUPS
from spectui.ui.screen.replay import LOOKING

ROWS = 6

SERVE: list[BindingType] = [
    Binding("p", "choose(-1)", "Previous", id="previous", tooltip="Show the request before"),
    Binding("n", "choose(1)", "Next", id="next", tooltip="Show the request after"),
    Binding("f", "follow", "Follow", id="follow", tooltip="Show what is being written now"),
]

_STEERING = {command.id for command in OWN_GROUPS["steering"]} - {"tune", "compare", "models", "devices"}


class ServeScreen(ChatScreen):
    """Shows requests, and turns the knobs that they do not set themselves."""

    AUTO_FOCUS = "#transcript"
    BINDINGS: ClassVar[list[BindingType]] = SERVE
    BINDING_GROUPS: ClassVar[Mapping[str, Any]] = {**OWN_GROUPS, "serve": SERVE}

    def __init__(self, session: ChatSession, *, watched: WatchedEngine, where: str, **parts: Any) -> None:
        """`where`: the server's address."""
        super().__init__(session, **parts)
        self._watched, self._where = watched, where
        self._list = Static(id="requests")
        self._follows = True
        self._wanted: Watched | None = None  # what is to be shown as soon as the window is free

    def on_mount(self) -> None:
        """The list stands above the text; the text area takes no text."""
        super().on_mount()
        self.query_one("#main").mount(self._list, before=0)
        self.prompt.disabled = True
        self.prompt.placeholder = "p and n choose a request, f follows what is written, Esc ends the shown one"

    def _tick(self) -> None:
        watched = self._watched
        if self._follows:
            running = next((seen for seen in reversed(watched.seen) if seen.request.state == "running"), None)
            if running is not None and running is not watched.shown and running is not self._wanted:
                self._show_request(running)
        watched.advance()
        super()._tick()
        if self._wanted is not None and self.session.state == "ready" and not watched.events:
            watched.shown, self._wanted = self._wanted, None
            last = watched.shown.request.messages[-1]
            self.session.submit(printable(last.content) or "(no text)")
            self.show_all()
        self._list.update(self._rows())

    def _show_request(self, seen: Watched) -> None:
        """Show this one next."""
        self._wanted = seen
        self._watched.leave()
        self._drain()
        self.session.new_chat()

    def _rows(self) -> Text:
        shown = self._watched.shown or self._wanted
        rows = [*self._watched.seen]
        at = rows.index(shown) if shown in rows else len(rows) - 1
        start = max(0, min(at - ROWS // 2, len(rows) - ROWS))
        lines = Text(no_wrap=True, overflow="ellipsis")
        for seen in rows[start : start + ROWS]:
            marked = "> " if seen is shown else "  "
            lines.append(f"{marked}{one_line(seen.in_words)}\n", "bold" if seen is shown else "")
        return lines if rows else Text(f"{self._where} waits for its first request.")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Messages and models stay as they are; knobs turn."""
        asks = action == "run" and parameters[0] not in {*LOOKING, *_STEERING, "stop", "interrupt"}
        return not asks and super().check_action(action, parameters)

    async def action_run(self, identity: str) -> None:
        """Esc ends the request that is shown, wherever the focus is."""
        if identity == "stop" and self.session.replying:
            self.session.stop()
        else:
            await super().action_run(identity)

    def take_text(self, event: events.Key | events.Paste) -> bool:
        """Keys are commands: nothing is typed."""
        return False

    @property
    def way_on(self) -> str:
        """Where it listens, and how many wait."""
        waiting = len(self._watched.requests.waiting)
        return f"{self._where}" + (f", {waiting} wait" if waiting else "")

    def action_choose(self, step: int) -> None:
        """Show another request."""
        rows = [*self._watched.seen]
        shown = self._wanted or self._watched.shown
        if rows:
            at = rows.index(shown) + step if shown in rows else len(rows) - 1
            self._follows = False
            if rows[at := max(0, min(at, len(rows) - 1))] is not shown:
                self._show_request(rows[at])

    def action_follow(self) -> None:
        """Show what is written now, from now on."""
        self._follows = True
