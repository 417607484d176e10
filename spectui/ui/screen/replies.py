"""Requests to the model: prompts, regenerating, continuing, and the comparison with plain decoding."""

from __future__ import annotations

import asyncio

from spectui.chat.comparison import Comparison
from spectui.chat.sentences import BROUGHT_BACK
from spectui.engine.events import Event, Failed, Finished, RoundDone
from spectui.ui.dashboard.panel import MEASURED
from spectui.ui.screen.view import ChatView
from spectui.ui.screen.welcome import NUMBERS, Welcome

COMPLETE = "The last reply is complete: it cannot be continued."
NO_MODEL = "No model can answer yet: {models} chooses one. The prompt is kept."


class Replies:
    """Asks the session for replies."""

    def __init__(self, view: ChatView) -> None:
        self._view = view
        self._session = view.session
        self._transcript = view.transcript
        self.held = False
        """A conversation is being read; prompts that are sent now wait for it."""

    # Prompts

    def submit(self, text: str) -> None:
        """Send a prompt as soon as the engine is free."""
        view, session = self._view, self._session
        if view.screen.has_class("-empty") and text in ("", *NUMBERS):
            if text:
                view.prompt.remove_sent(text)
            view.screen.query_one(Welcome).take(NUMBERS.index(text) if text else None)
        elif not text:
            return
        elif session.state in ("no model", "failed"):
            if view.prompt.keep_sent():
                view.say(NO_MODEL)
        elif view.prompt.remove_sent(text):
            session.queue(text)
            self.send_waiting()
            if not session.waiting:
                self._transcript.scroll_to_end()
            view.show_state()

    def send_waiting(self) -> None:
        """Send the longest waiting prompt, if the engine is free."""
        if not self.held and self._session.send_waiting() is not None:
            self._view.show()

    def return_waiting(self) -> None:
        """Put waiting prompts back into the text area."""
        if waiting := self._session.take_back_waiting():
            self._view.prompt.give_back(waiting)
            self._view.show_state()

    # The last reply

    def regenerate(self) -> None:
        """Regenerate the last reply."""
        if not self._view.refuses(self._session.no_regenerating):
            self._session.regenerate()
            self._begun()

    def _begun(self) -> None:
        self._view.show()
        self._transcript.scroll_to_end()

    def continue_last(self) -> None:
        """Continue the last reply where it was stopped."""
        session = self._session
        if self._view.refuses(session.busy_reason):
            return
        if not session.can_continue or not self._transcript.continue_reply():
            self._view.say(COMPLETE)
            return
        session.continue_reply()
        self._begun()

    def drop_oldest(self) -> None:
        """Drop the oldest turns, and go on with the reply that the full context ended, or ask the prompt without room again."""
        session = self._session
        if not self._view.refuses(session.oldest.no_dropping):
            session.oldest.drop_for_next()
            (self.regenerate if session.conversation.unanswered else self.continue_last)()

    def bring_back(self) -> None:
        """Make the dropped turns a part of the next prompt again."""
        if not self._view.refuses(self._session.oldest.no_bringing_back):
            self._session.oldest.bring_back()
            self._view.say(BROUGHT_BACK, "information")
            self._view.show_state()

    # Comparison

    def compare(self) -> None:
        """Decode the last prompt again without drafts, and compare it with the reply."""
        if not self._view.refuses(self._session.no_comparison):
            self._view.run(self._compare(), "compare")

    async def _compare(self) -> None:
        session, panel = self._session, self._view.panel
        reply = session.messages[-1]
        comparison = await asyncio.to_thread(Comparison, reply.rounds)  # `Comparison` reads every round
        if session.no_comparison or session.messages[-1] is not reply:
            return  # a person has gone on meanwhile
        panel.plain.clear()
        panel.plain.start_reply("without drafts", rounds=comparison.rounds)
        session.compare(comparison)
        panel.compare.show(comparison)
        panel.open_page(MEASURED)
        self._view.show_state()

    def show_comparison(self, event: Event) -> None:
        """Show an event of the plain decoding on the panel."""
        panel = self._view.panel
        match event:
            case RoundDone():
                panel.plain.grow()
                return
            case Finished() | Failed():
                panel.plain.finish_reply()
                self._view.show()
        panel.compare.rewrite()
