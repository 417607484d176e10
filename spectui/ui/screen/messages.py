"""Earlier messages: edit and send anew, list messages and branches, the system prompt."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spectui.chat.history.message_list import ListedMessage, listed_messages
from spectui.chat.sentences import NOTHING_SAID, NOTHING_TO_EDIT, WENT_BACK
from spectui.errors import SpectuiError
from spectui.store.records import StoredMessage

if TYPE_CHECKING:
    from spectui.ui.screen.chat import ChatScreen


class Messages:
    """Changes the conversation. The earlier messages stay on disk, as a branch."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._original = ""  # the edited prompt's text before the edit

    def edit_last(self) -> None:
        """Put the last prompt into the text area, to replace it; at the next call the one before, and so on."""
        talk = self._screen.session.conversation
        prompt = talk.prompt_to_edit()
        if prompt is not None:
            self.edit(prompt)
        elif talk.editing is None:
            self._screen.say(NOTHING_TO_EDIT)

    def edit(self, index: int) -> None:
        """Put the message with this index into the text area, to replace it."""
        talk, box = self._screen.session.conversation, self._screen.prompt
        if not self._may_change():
            return
        if box.text.strip() and (talk.editing is None or box.text != self._original):
            self._screen.say("Send or clear what is in the box first.")
            return
        box.put_sent(talk.begin_edit(index))
        self._original = box.text
        box.focus()
        self._screen.show_state()

    def edit_again(self, index: int, text: str) -> None:
        """Put an edited prompt back into the text area, unless that has text."""
        box = self._screen.prompt
        if not box.text:
            self.edit(index)
            box.put_sent(text)
            self._screen.show_state()

    def undo(self) -> None:
        """Turn back to the messages before the last regenerating, editing or going back."""
        if reason := self._screen.session.no_undo:
            self._screen.say(reason)
            return
        self._screen.session.conversation.undo()
        self._turned()

    def _turned(self) -> None:
        self._screen.conversations.show_unanswered()
        self._screen.transcript.scroll_to_end()
        self._screen.show_figures()
        self._screen.show_state()

    def leave_edit(self) -> None:
        """End the edit; the message stays as it is, and what was written is in the history of prompts."""
        self._screen.session.conversation.leave_edit()
        self._screen.prompt.put_away()
        self._screen.show_state()

    def _may_change(self) -> bool:
        reason = self._screen.session.no_change
        if reason:
            self._screen.say(reason)
        return not reason

    def list(self, at: int | None = None) -> None:
        """List the messages and the other branches, with message `at` highlighted."""
        if self._may_change():
            self._screen.run_worker(self._list(at), exclusive=True, group="messages")

    async def _list(self, at: int | None) -> None:
        # Dialogs are imported when a key opens them, so that the window starts sooner.
        from spectui.ui.dialogs.messages import MessagesScreen

        session, branches = self._screen.session, list[StoredMessage]()
        try:
            branches = await asyncio.to_thread(session.stored.branches)
        except SpectuiError as error:
            self._screen.complain(error)
        if session.no_change or not self._screen.is_current:
            return  # a person has gone on meanwhile
        listed = list(listed_messages(session, branches))
        if not listed:
            self._screen.say(NOTHING_SAID)
            return

        def chosen(message: ListedMessage | None) -> None:
            match message:
                case ListedMessage("edit", index):
                    self.edit(index)
                case ListedMessage("back", length):
                    session.conversation.go_back(length)
                    self._screen.say(WENT_BACK, "information")
                    self._turned()
                case ListedMessage("branch", end) if session.conversation.turn_to(end):
                    self._turned()
                case ListedMessage("branch", end):
                    self._screen.conversations.open(lambda reader: session.stored.read_branch(end, reader))

        self._screen.app.push_screen(MessagesScreen(listed, at), chosen)

    def show_system_prompt(self) -> None:
        """Show and change the system prompt."""
        from spectui.ui.dialogs.system_prompt import SystemPromptScreen

        def chosen(text: str | None) -> None:
            if text is not None:
                self._screen.session.set_system(text)

        self._screen.app.push_screen(SystemPromptScreen(self._screen.session.setup.system), chosen)
