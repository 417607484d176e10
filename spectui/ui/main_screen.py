"""The one screen of the window."""

from __future__ import annotations

from textual.events import ScreenResume

from spectui.ui.comparing import Comparing
from spectui.ui.conversations import Conversations
from spectui.ui.editing import Editing
from spectui.ui.exporting import Exporting
from spectui.ui.reading import Reading
from spectui.ui.welcome import Welcoming


class MainScreen(Reading, Exporting, Comparing, Editing, Conversations, Welcoming):
    """The chat and what can be done with it. Each part adds one subject's keys and actions to `ChatScreen` and knows of no
    other, but for those about conversations, which rest on `Resuming`: the chat with a memory."""

    _seen = False

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Come to the front. The first time all has just been styled, and to do it again took a twentieth of the start."""
        event.refresh_styles = self._seen
        self._seen = True
