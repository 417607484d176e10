"""The chat screen of a replay: it sends the recorded prompts by itself, and sends nothing to a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType

from spectui.chat.recorded import Send, recorded_step, take_over
from spectui.chat.session import ChatSession
from spectui.engine.events import Asked
from spectui.knobs import Knobs, Setup
from spectui.text import one_line
from spectui.traces.player import TracePlayer
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.screen.commands import GROUPS
from spectui.ui.screen.controls import Controls

NO_MODEL = "This is a replay: no model is loaded, so nothing can be asked or turned. spectui chat begins a chat."

_NEED_A_MODEL = (
    "regenerate", "continue", "measure-reply", "edit", "messages", "system", "new-chat", "last-chat", "conversations", "models",
    "best-settings", "load", "without-draft", "safe-mode", "devices", "drafter", "policy", "profile", "save-profile", "reset",
)  # fmt: skip
"""Commands of the chat that a replay does not have."""

REPLAY: list[BindingType] = [
    Binding("space", "pause", "Pause", id="pause", tooltip="Pause the replay, or play on"),
    Binding("plus,equals_sign", "faster(2)", "Faster", id="faster", tooltip="Play twice as fast"),
    Binding("minus", "faster(0.5)", "Slower", id="slower", tooltip="Play half as fast"),
    Binding("full_stop", "step", "Round", id="step", tooltip="Pause, and play one round"),
]


class _FixedControls(Controls):
    """The controls of a replay: knobs and models stay as recorded."""

    def turn(self, key: str, value: float | str) -> None:
        if getattr(self._session.knobs, key) != value:
            self._panel.show_knobs(self._session.knobs)  # the control may show another value already
            self._view.say(NO_MODEL)

    def use_models(self, setup: Setup) -> None:
        self._view.say(NO_MODEL)

    def change_placement(self) -> None:
        self._view.say(NO_MODEL)

    def pick_device(self, role: Any, device: str) -> None:
        self._view.say(NO_MODEL)


class ReplayScreen(ChatScreen):
    """Plays a trace. The text area takes no text, so that plain keys can steer."""

    AUTO_FOCUS = "#transcript"
    CONTROLS = _FixedControls
    BINDINGS: ClassVar[list[BindingType]] = REPLAY
    BINDING_GROUPS: ClassVar[Mapping[str, Any]] = {**GROUPS, "replay": REPLAY}

    def __init__(self, session: ChatSession, *, player: TracePlayer, file: Path, **parts: Any) -> None:
        super().__init__(session, **parts)
        self.player = player
        self._file = file
        self.view.way = self._way
        for identity in _NEED_A_MODEL:
            self.commands[identity] = self.commands[identity]._replace(enabled=lambda: False)
        self._played_until = monotonic()
        self._shown_knobs: Knobs | None = None
        self._sent: Asked | None = None  # the last prompt

    def on_mount(self) -> None:
        """The text area takes no text."""
        super().on_mount()
        self.prompt.disabled = True
        self.prompt.placeholder = "Space pauses, + and - change the speed, . plays one round"
        self.view.show_state()

    def _tick(self) -> None:
        now = monotonic()
        self.player.advance(now - self._played_until)
        self._played_until = now
        was_over = self.player.ended
        super()._tick()
        asked = self.player.asked
        if asked is not None and asked is not self._sent and self.session.state == "ready" and not self.player.events:
            self._sent = asked
            self._ask(asked)
        if self.session.knobs is not self._shown_knobs:
            self._shown_knobs = self.session.knobs
            self.panel.show_knobs(self.session.knobs)
        if was_over != self.player.ended:
            self.view.show_state()

    def _ask(self, asked: Asked) -> None:
        """Do what was recorded. What the conversation had before a prompt, and is not here, is shown first."""
        match recorded_step(self.session, asked.messages, plainly=self.player.asked_plainly):
            case "continue":
                self.replies.continue_last()
            case "compare":
                self.replies.compare()
            case Send() as step:
                self._send(step)

    def _send(self, step: Send) -> None:
        if self.session.messages and not step.same:
            self.conversations.begin_new()
        take_over(self.session, step)
        self.replies.send_waiting()

    def _way(self) -> str:
        """That this is a replay, and its speed."""
        speed = f"{self.player.speed:g}x"
        state = "ended" if self.player.ended else f"paused, {speed}" if self.player.paused else speed
        return f"replay of {one_line(self._file.name)}: {state}"

    # Keys

    def action_pause(self) -> None:
        """Pause, or play on."""
        self.player.paused = not self.player.paused
        self.view.show_state()

    def action_faster(self, factor: float) -> None:
        """Change the speed."""
        self.player.faster(factor)
        self.view.show_state()

    def action_step(self) -> None:
        """Pause, and play one round."""
        self.player.paused = True
        self.player.step()
        self.view.show_state()

    def take_text(self, event: events.Key | events.Paste) -> bool:
        """The keys are the replay's."""
        return False

    def on_key(self, event: events.Key) -> None:
        """A typed key shows why no model can answer."""
        if event.is_printable and event.key not in self.active_bindings:
            event.stop()
            self.view.say(NO_MODEL)

    def on_paste(self, event: events.Paste) -> None:
        """The same for a paste."""
        event.stop()
        self.view.say(NO_MODEL)
