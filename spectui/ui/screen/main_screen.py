"""The one screen of the window."""

from __future__ import annotations

from textual.events import ScreenResume

from spectui.ui.screen.comparing import Comparing
from spectui.ui.screen.conversations import Conversations
from spectui.ui.screen.editing import Editing
from spectui.ui.screen.exporting import Exporting
from spectui.ui.screen.reading import Reading
from spectui.ui.screen.welcome import Welcoming


class MainScreen(Reading, Exporting, Comparing, Editing, Conversations, Welcoming):
    """The chat and what can be done with it. Each part adds one subject's keys and actions to `ChatScreen` and knows of no
    other, but for those about conversations, which rest on `Resuming`: the chat with a memory."""

    _seen = False

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Come to the front. The first time all has just been styled, and to do it again took a twentieth of the start."""
        event.refresh_styles = self._seen
        self._seen = True
