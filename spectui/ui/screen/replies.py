"""Requests to the model: prompts, regenerating, continuing, and the comparison with plain decoding."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spectui.chat.comparison import Comparison
from spectui.chat.sentences import BROUGHT_BACK, NO_TEXT
from spectui.engine.events import Event, Failed, Finished, Prompt, RoundDone
from spectui.ui.dashboard.panel import MEASURED
from spectui.ui.screen.welcome import NUMBERS, Choices, Welcome
from spectui.ui.widgets.slider import Slider

if TYPE_CHECKING:
    from spectui.ui.screen.chat import ChatScreen

COMPLETE = "The last reply is complete: it cannot be continued."
NO_MODEL = "No model can answer yet: {models} chooses one. The prompt is kept."


class Replies:
    """Asks the session for replies."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._comparison_shown = False

    # Prompts

    def submit(self, text: str) -> None:
        """Send a prompt as soon as the engine is free."""
        screen = self._screen
        if screen.has_class("-empty") and text in ("", *NUMBERS):
            if text:
                screen.prompt.remove_sent(text)
            screen.query_one(Welcome).take(NUMBERS.index(text) if text else None)
        elif not text:
            return
        elif screen.session.state in ("no model", "failed"):
            if screen.prompt.keep_sent():
                screen.say(NO_MODEL)
        elif screen.prompt.remove_sent(text):
            screen.session.queue(text)
            self.send_waiting()
            if not screen.session.waiting:
                screen.transcript.scroll_to_end()
            screen.show_state()

    def send_waiting(self) -> None:
        """Send the longest waiting prompt, if the engine is free."""
        if not self._screen.conversations.opening and self._screen.session.send_waiting() is not None:
            self._begun()

    def return_waiting(self) -> None:
        """Put waiting prompts back into the text area."""
        if waiting := self._screen.session.take_back_waiting():
            self._screen.prompt.give_back(waiting)
            self._screen.show_state()

    def _begun(self) -> None:
        self._screen.show_figures()
        self._screen.show_state()

    def finish(self, note: str = "") -> None:
        """The reply has ended, with a note. If it has no text and was in place of others, they are there again, and an edited
        prompt is edited again."""
        screen, came_back = self._screen, self._screen.session.take_back()
        if came_back is None:
            screen.transcript.finish_reply()
            if note:
                screen.transcript.add_notice(note)
            return
        screen.say(NO_TEXT)
        if came_back.prompt:
            screen.messages.edit_again(came_back.at, came_back.prompt)

    def is_free(self) -> bool:
        """Whether the engine can answer; if not, show why."""
        reason = self._screen.session.busy_reason
        if reason:
            self._screen.say(reason)
        return not reason

    # The last reply

    def regenerate(self) -> None:
        """Regenerate the last reply."""
        session = self._screen.session
        if reason := session.no_regenerating:
            self._screen.say(reason)
            return
        session.regenerate()
        self._begun()
        self._screen.transcript.scroll_to_end()

    def continue_last(self) -> None:
        """Continue the last reply where it was stopped."""
        session = self._screen.session
        if not self.is_free():
            return
        if not session.can_continue or not self._screen.transcript.continue_reply():
            self._screen.say(COMPLETE)
            return
        session.continue_reply()
        self._begun()
        self._screen.transcript.scroll_to_end()

    def drop_oldest(self) -> None:
        """Drop the oldest turns, and go on with the reply that the full context ended, or ask the prompt without room again."""
        session = self._screen.session
        if reason := session.oldest.no_dropping:
            self._screen.say(reason)
            return
        session.oldest.drop_for_next()
        (self.regenerate if session.conversation.unanswered else self.continue_last)()

    def bring_back(self) -> None:
        """Make the dropped turns a part of the next prompt again."""
        if reason := self._screen.session.oldest.no_bringing_back:
            self._screen.say(reason)
            return
        self._screen.session.oldest.bring_back()
        self._screen.say(BROUGHT_BACK, "information")
        self._screen.show_state()

    def stop(self) -> None:
        """Do the first of these that there is something for: close the suggestions, forget a number typed at a slider or
        picked devices, leave an edit, take waiting prompts back into the text area, stop the reply or the loading, remove the
        token cursor, close the overlay. No text is lost by it."""
        screen, session = self._screen, self._screen.session
        if screen.prompt.decline() or any(each.stop() for each in screen.query(Welcome)):
            return
        slider = screen.focused if isinstance(screen.focused, Slider) else None
        if slider is not None and slider.forget():
            return
        if screen.panel.devices.has_focus and screen.controls.leave_picked():
            return
        if (
            session.conversation.editing is not None
            and slider is None
            and not session.waiting
            and session.state != "loading"
        ):
            screen.messages.leave_edit()
            return
        if session.waiting:
            self.return_waiting()
        elif session.replying or session.state == "loading":
            session.stop()
        elif screen.transcript.inspected is not None:
            screen.reading.end_inspection()
        else:
            screen.remove_class("-overlay")
        (screen.query_one(Choices) if screen.has_class("-empty") else screen.prompt).focus()

    # Comparison

    def compare(self) -> None:
        """Decode the last prompt again without drafts, and compare it with the reply."""
        if reason := self._screen.session.no_comparison:
            self._screen.say(reason)
        else:
            self._screen.run_worker(self._compare(), exclusive=True, group="compare")

    async def _compare(self) -> None:
        session, panel = self._screen.session, self._screen.panel
        reply = session.messages[-1]
        comparison = await asyncio.to_thread(Comparison, reply.rounds)  # `Comparison` reads every round
        if session.no_comparison or session.messages[-1] is not reply:
            return  # a person has gone on meanwhile
        panel.plain.clear()
        panel.plain.start_reply("without drafts", rounds=comparison.rounds)
        self._comparison_shown = True
        session.compare(comparison)
        panel.compare.show(comparison)
        self._screen.pages.show(MEASURED)
        self._screen.show_state()

    def show_comparison(self, event: Event) -> None:
        """Show an event of the plain decoding on the panel."""
        panel = self._screen.panel
        match event:
            case RoundDone():
                panel.plain.grow()
                return
            case Prompt(thinking=True):
                panel.plain.begin_thinking()
            case Finished() | Failed():
                panel.plain.finish_reply()
                self._screen.show_figures()
                self._screen.show_state()
        panel.compare.rewrite()

    def hide_old_comparison(self) -> None:
        """Hide a comparison if its reply is not the last one any more."""
        if self._comparison_shown and self._screen.session.comparison is None:
            self._comparison_shown = False
            self._screen.panel.clear()
