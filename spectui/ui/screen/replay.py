"""The chat screen of a replay: it sends the conversation's prompts by itself, and sends nothing to a model."""

from __future__ import annotations

from collections.abc import Set
from time import monotonic
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType

from spectui.chat.commands import GROUPS
from spectui.chat.player import ConversationPlayer, Turn
from spectui.chat.session import ChatSession
from spectui.knobs import Knobs
from spectui.text import one_line
from spectui.ui.screen.chat import ChatScreen

NO_MODEL = "This is a replay: no model is loaded, so nothing can be asked or turned. spectui chat begins a chat."

LOOKING = {command.id for group in ("reading", "panel", "window") for command in GROUPS[group]}
"""Commands that only look at what is there."""

REPLAY: list[BindingType] = [
    Binding("space", "pause", "Pause", id="pause", tooltip="Pause the replay, or play on"),
    Binding("plus,equals_sign", "faster(2)", "Faster", id="faster", tooltip="Play twice as fast"),
    Binding("minus", "faster(0.5)", "Slower", id="slower", tooltip="Play half as fast"),
    Binding("full_stop", "step", "Round", id="step", tooltip="Pause, and play one round"),
]


class OnlookingScreen(ChatScreen):
    """Shows what was asked elsewhere. The text area takes no text, so that plain keys are commands."""

    AUTO_FOCUS = "#transcript"
    PLAIN_KEYS = ""
    """What they do, in the place of the text."""
    ALLOWED: ClassVar[Set[str]] = {*LOOKING, "stop", "interrupt"}
    """The commands that there are."""

    def on_mount(self) -> None:
        super().on_mount()
        self.prompt.disabled = True
        self.prompt.placeholder = self.PLAIN_KEYS

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Messages and models stay as they are."""
        return (action != "run" or parameters[0] in self.ALLOWED) and super().check_action(action, parameters)

    def take_text(self, event: events.Key | events.Paste) -> bool:
        """Nothing is typed."""
        return False


class ReplayScreen(OnlookingScreen):
    """Plays a conversation."""

    BINDINGS: ClassVar[list[BindingType]] = REPLAY
    BINDING_GROUP_TITLE = "replay"
    PLAIN_KEYS = "Space pauses, + and - change the speed, . plays one round"

    def __init__(self, session: ChatSession, *, player: ConversationPlayer, **parts: Any) -> None:
        super().__init__(session, **parts)
        self.player = player
        self._played_until = monotonic()
        self._shown_knobs: Knobs | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self.show_state()

    def _tick(self) -> None:
        now = monotonic()
        self.player.advance(now - self._played_until)
        self._played_until = now
        was_over = self.player.ended
        super()._tick()
        turn = self.player.turn
        if turn is not None and self.session.state == "ready" and not self.player.events:
            self._play(turn)
        if self.session.knobs is not self._shown_knobs:
            self._shown_knobs = self.session.knobs
            self.panel.show_knobs()
        if was_over != self.player.ended:
            self.show_state()

    def _play(self, turn: Turn) -> None:
        """Send the prompt, without the turns that its prompt had no room for."""
        if self.session.submit(turn.prompt):
            self.show_all()
        if turn.made is not None and turn.made.dropped != self.session.oldest.dropped:
            self.session.oldest.leave_out(turn.made.dropped)

    def why_fixed(self, key: str) -> str:
        """Nothing can be turned."""
        return NO_MODEL

    @property
    def way_on(self) -> str:
        """That this is a replay, and its speed."""
        speed = f"{self.player.speed:g}x"
        state = "ended" if self.player.ended else f"paused, {speed}" if self.player.paused else speed
        return f"replay of {one_line(self.player.title)}: {state}"

    # Keys

    def action_pause(self) -> None:
        """Pause, or play on."""
        self.player.paused = not self.player.paused
        self.show_state()

    def action_faster(self, factor: float) -> None:
        """Change the speed."""
        self.player.faster(factor)
        self.show_state()

    def action_step(self) -> None:
        """Pause, and play one round."""
        self.player.paused = True
        self.player.step()
        self.show_state()

    def on_key(self, event: events.Key) -> None:
        """A typed key shows why no model can answer."""
        if event.is_printable and event.key not in self.active_bindings:
            event.stop()
            self.say(NO_MODEL)

    def on_paste(self, event: events.Paste) -> None:
        """The same for a paste."""
        event.stop()
        self.say(NO_MODEL)
