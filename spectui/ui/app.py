"""The terminal application: themes, keys, commands, and the chat screen."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from textual import events
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen

from spectui import paths
from spectui.chat.commands import COMMANDS
from spectui.chat.session import ChatSession
from spectui.config import UiSettings
from spectui.knobs import Knobs, specs, title
from spectui.telemetry.monitor import Monitor
from spectui.ui.dashboard.status import NARROW, ROOMY
from spectui.ui.keys import binding, keymap
from spectui.ui.remembered import Remembered, note, restore
from spectui.ui.screen import commands, controls
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.terminal_watchdog import terminal_restored
from spectui.ui.textual_patches.app import TerminalApp
from spectui.ui.textual_patches.text_area import SteadyTextArea
from spectui.ui.themes import DEFAULT_THEME, ORIGIN_DEFAULTS, read_themes

ENDINGS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

SWITCH_S = 0.0005

UNDOING_S = 1.0
"""So soon after an undo, the key for it does not suspend."""


class SpectuiApp(TerminalApp):
    """The chat's window. It never computes and never waits for the engine."""

    TITLE = "spectui"
    ENABLE_COMMAND_PALETTE = False  # F1 lists all commands
    CSS_PATH = "app.tcss"
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [  # type: ignore[misc]
        (0, "-narrow"),
        (NARROW, "-wide"),
        (ROOMY, "-roomy"),
    ]
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-tiny"), (12, "-short"), (36, "-tall")]  # type: ignore[misc]
    BINDING_GROUP_TITLE = "window"
    BINDINGS: ClassVar[list[BindingType]] = [
        binding(COMMANDS[identity], action)
        for identity, action in (("help", "help"), ("quit", "quit"), ("suspend", "suspend_process"), ("theme", "change_theme"))
    ]

    def __init__(
        self,
        session: ChatSession,
        *,
        theme: str | None = None,
        theme_directories: Sequence[Path] = (),
        keymap: Mapping[str, str] | None = None,
        monitor: Monitor | None = None,
        notices: Sequence[str] = (),
        make_screen: Callable[..., ChatScreen] = ChatScreen,
        remembered: Remembered | None = None,
    ) -> None:
        """`make_screen` makes the first screen, with the first parameters of `ChatScreen`. `remembered`: what was chosen of its
        look; a `theme` comes before that."""
        super().__init__()
        self._session = session
        self._monitor = monitor
        self._notices = list(notices)
        self._make_screen = make_screen
        self.remembered = remembered or Remembered()
        self._chat: ChatScreen | None = None
        themes, problems = read_themes(theme_directories)
        for each in themes:
            self.register_theme(each)
        self._notices += problems
        theme = theme or self.remembered.get("theme", "") or None
        if theme is not None and theme not in self.available_themes:
            self._notices.append(f"There is no theme {theme!r}; the list of commands names them.")
            theme = None
        theme = theme or DEFAULT_THEME
        if theme in self.available_themes:  # spectui's own are files too, and files get lost
            self.theme = theme
        self._rules_theme = self._first_theme = self.theme
        self.stylesheet.set_variables(self.get_css_variables())
        self.key_map = dict(keymap or {})
        """A person's keys, by the ids of bindings."""
        self.set_keymap(self.key_map)

    def refresh_css(self, animate: bool = True) -> None:
        """Parse the CSS with the theme's colours. Before the first screen `__init__` has done it; Textual would parse twice."""
        if self.screen_stack or self.theme != self._rules_theme:
            super().refresh_css(animate)
        else:
            self.stylesheet.update(self, animate=animate)

    def get_default_screen(self) -> Screen[None]:
        """The chat, or the replay of one."""
        screen = self._make_screen(self._session, monitor=self._monitor, notices=self._notices)
        # Textual sets these classes after the first frame: everything would be styled twice, and a narrow window would flash.
        for size, breakpoints in zip(self.size, (self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS), strict=True):
            screen.add_class(next(name for least, name in reversed(breakpoints or ()) if least <= size), update=False)
        screen.call_later(restore, screen, self.remembered)  # before its first frame
        screen.remember = self._remember
        self._chat = screen
        return screen

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The origins' colours for themes that do not set them, such as Textual's own."""
        return ORIGIN_DEFAULTS

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the list of commands has besides keys: commands without one, profiles, knobs, themes, and Textual's own."""
        if isinstance(screen, ChatScreen):
            for command in commands.without_key(screen):
                yield SystemCommand(command.title, command.help, partial(screen.run_action, f"run('{command.id}')"))
            for name in screen.panel.profile_names():
                yield SystemCommand(f"Profile: {name}", "Turn the knobs as saved", partial(controls.use_profile, screen, name))
            for key, _, spec in specs(Knobs):
                if spec.choices or spec.step is not None:  # a text is turned by a profile, or by its own key
                    yield SystemCommand(f"Knob: {title(key)}", spec.help, partial(screen.panel.open_knob, key), discover=False)
        for name in sorted(self.available_themes):
            yield SystemCommand(f"Theme: {name}", "How the window looks", partial(setattr, self, "theme", name), discover=False)
        for own in super().get_system_commands(screen):
            if own.title not in ("Keys", "Quit", "Theme"):  # Help, Quit and Theme have keys
                yield own

    def handle_bindings_clash(self, clashed_bindings: set[Binding], node: DOMNode) -> None:
        """Say which keys of the configuration collide; the configured ones win."""
        names = ", ".join(sorted(binding.id or binding.description for binding in clashed_bindings))
        self.notify(f"The key map assigns a key that {names} used.", severity="warning", markup=False)

    def on_mount(self) -> None:
        """Start the monitor, and end on signals as on Ctrl+Q."""
        if not self.is_headless:
            for number in ENDINGS:
                with suppress(NotImplementedError):  # Windows
                    asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
            self.call_after_refresh(_enable_collector)
        # The engine's thread releases the interpreter in each call, and waits up to this long to get it back from a frame.
        sys.setswitchinterval(SWITCH_S)
        if self._monitor is not None:
            # Its libraries are imported here, because they would delay the first frame.
            self.call_after_refresh(self._monitor.start)

    def watch_app_focus(self, focused: bool) -> None:
        """Focus the prompt when the window gets the focus and no widget has it: a browser's window begins without, and
        its first key must not be lost."""
        screen = self.screen
        if focused and isinstance(screen, ChatScreen) and screen.is_mounted and screen.focused is None:
            screen.set_focus(screen.prompt)

    async def on_event(self, event: events.Event) -> None:
        """Treat a paste as a sign of focus, as Textual treats keys and clicks; and let text go to the prompt."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self.app_focus = True
            screen = self.screen_stack[-1] if self.screen_stack else None
            if isinstance(screen, ChatScreen) and screen.take_text(event):
                return
        await super().on_event(event)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The key that suspends undoes in a text first, while there is something to undo."""
        box = self.focused if action == "suspend_process" and self.screen_stack else None
        return not (isinstance(box, SteadyTextArea) and box.can_undo)

    def action_suspend_process(self) -> None:
        """Go to the shell; not while a person undoes, who presses the key until nothing happens."""
        box = self.focused
        if isinstance(box, SteadyTextArea) and monotonic() - box.undone_at < UNDOING_S:
            box.undone_at = monotonic()
            self.notify("There is nothing more to undo.", timeout=2)
        else:
            super().action_suspend_process()

    def on_unmount(self) -> None:
        """Close the engine, stop the monitor, and write down what was chosen."""
        self._session.engine.close()
        if self._monitor is not None:
            self._monitor.stop()
        self._remember()

    def _remember(self) -> None:
        if self._chat is not None:
            note(self._chat, self.remembered)
        if self.theme != self._first_theme:
            self.remembered.set(theme=self.theme)
        self.remembered.save()

    def action_help(self, words: str = "") -> None:
        """List what can be done, filtered by these words; without words, close the list if it is open."""
        # Imported at first use, which makes the start faster.
        from spectui.ui.dialogs.lists import HelpScreen

        if isinstance(self.screen, HelpScreen) and words:
            self.screen.box.value = words
            self.screen.box.action_end()
        elif isinstance(self.screen, HelpScreen):
            self.screen.action_back()
        else:
            self.push_screen(HelpScreen(self.screen, words), lambda act: act() if act is not None else None)

    def search_themes(self) -> None:
        """List the themes."""
        self.action_help("theme: ")


def _enable_collector() -> None:
    """Enable the garbage collector, and exempt what exists now: it lives as long as the window, and scanning it would pause
    window and engine."""
    gc.freeze()
    gc.enable()


def show(session: ChatSession, look: UiSettings, died: str, notices: Sequence[str] = (), **parts: Any) -> int:
    """Show the window in this terminal until it is closed, and return its code. `died`: the last words in the terminal if this
    process is killed. `parts`: the other parameters of `SpectuiApp`."""
    keys, unmapped = keymap(look.keys)
    app = SpectuiApp(
        session,
        theme=look.theme or None,
        theme_directories=(paths.shipped("themes"), paths.user_themes_directory()),
        keymap=keys,
        notices=[*notices, *unmapped],
        **parts,
    )
    with terminal_restored(died):
        app.run()
    return app.return_code or 0
