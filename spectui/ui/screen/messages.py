"""Earlier messages: edit and send anew, list messages and branches, the system prompt."""

from __future__ import annotations

import asyncio

from spectui.chat.history.message_list import ListedMessage, listed_messages
from spectui.chat.sentences import NOTHING_SAID, NOTHING_TO_EDIT, WENT_BACK
from spectui.errors import SpectuiError
from spectui.store.records import StoredMessage
from spectui.ui.screen.conversations import Conversations
from spectui.ui.screen.view import ChatView


class Messages:
    """Changes the conversation. The earlier messages stay on disk, as a branch."""

    def __init__(self, view: ChatView, conversations: Conversations) -> None:
        self._view = view
        self._session = view.session
        self._conversations = conversations
        self._original = ""  # the edited prompt's text before the edit

    def edit_last(self) -> None:
        """Put the last prompt into the text area, to replace it; at the next call the one before, and so on."""
        talk = self._session.conversation
        prompt = talk.prompt_to_edit()
        if prompt is not None:
            self.edit(prompt)
        elif talk.editing is None:
            self._view.say(NOTHING_TO_EDIT)

    def edit(self, index: int) -> None:
        """Put the message with this index into the text area, to replace it."""
        talk, box = self._session.conversation, self._view.prompt
        if self._view.refuses(self._session.no_change):
            return
        if box.text.strip() and (talk.editing is None or box.text != self._original):
            self._view.say("Send or clear what is in the box first.")
            return
        box.put_sent(talk.begin_edit(index))
        self._original = box.text
        box.focus()
        self._view.show_state()

    def edit_again(self, index: int, text: str) -> None:
        """Put an edited prompt back into the text area, unless that has text."""
        box = self._view.prompt
        if not box.text:
            self.edit(index)
            box.put_sent(text)
            self._view.show_state()

    def undo(self) -> None:
        """Turn back to the messages before the last regenerating, editing or going back."""
        if not self._view.refuses(self._session.no_undo):
            self._session.conversation.undo()
            self._turned()

    def _turned(self) -> None:
        self._conversations.show_unanswered()
        self._view.transcript.scroll_to_end()
        self._view.show()

    def leave_edit(self) -> None:
        """End the edit; the message stays as it is, and what was written is in the history of prompts."""
        self._session.conversation.leave_edit()
        self._view.prompt.put_away()
        self._view.show_state()

    def list(self, at: int | None = None) -> None:
        """List the messages and the other branches, with message `at` highlighted."""
        if not self._view.refuses(self._session.no_change):
            self._view.run(self._list(at), "messages")

    async def _list(self, at: int | None) -> None:
        # Dialogs are imported when a key opens them, so that the window starts sooner.
        from spectui.ui.dialogs.messages import MessagesScreen

        session, branches = self._session, list[StoredMessage]()
        try:
            branches = await asyncio.to_thread(session.stored.branches)
        except SpectuiError as error:
            self._view.complain(error)
        if session.no_change or not self._view.screen.is_current:
            return  # a person has gone on meanwhile
        listed = list(listed_messages(session, branches))
        if not listed:
            self._view.say(NOTHING_SAID)
            return

        def chosen(message: ListedMessage) -> None:
            match message:
                case ListedMessage("edit", index):
                    self.edit(index)
                case ListedMessage("back", length):
                    session.conversation.go_back(length)
                    self._view.say(WENT_BACK, "information")
                    self._turned()
                case ListedMessage("branch", end) if session.conversation.turn_to(end):
                    self._turned()
                case ListedMessage("branch", end):
                    self._conversations.open(lambda reader: session.stored.read_branch(end, reader))

        self._view.ask(MessagesScreen(listed, at), chosen)

    def show_system_prompt(self) -> None:
        """Show and change the system prompt."""
        from spectui.ui.dialogs.system_prompt import SystemPromptScreen

        self._view.ask(SystemPromptScreen(self._session.setup.system), self._session.set_system)
