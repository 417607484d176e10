"""How the chat screen does what the commands of the table ask for, and which of them it can do now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from textual.binding import BindingType

from spectui.chat import commands
from spectui.chat.commands import COMMANDS, Command
from spectui.ui.dashboard.panel import MEASURED, PAGES
from spectui.ui.keys import binding, format_key
from spectui.ui.prompt.suggestions import Suggestion
from spectui.ui.screen.controls import Controls
from spectui.ui.screen.conversations import Conversations
from spectui.ui.screen.messages import Messages
from spectui.ui.screen.reading import Reading
from spectui.ui.screen.replies import Replies
from spectui.ui.screen.view import ChatView
from spectui.ui.screen.welcome import Choices, Welcome
from spectui.ui.widgets.slider import Slider

GROUPS = {title: commands.GROUPS[title] for title in ("panel", "steering", "chat", "messages", "reading")}
"""By the title in the help."""

BINDINGS: list[BindingType] = [binding(each) for group in GROUPS.values() for each in group if each.keys]


class ScreenCommands(dict[str, Command]):
    """The commands that the screen does, by id."""

    def __init__(
        self,
        view: ChatView,
        controls: Controls,
        replies: Replies,
        messages: Messages,
        conversations: Conversations,
        reading: Reading,
    ) -> None:
        self._view = view
        self._controls = controls
        self._replies = replies
        self._messages = messages
        self._reading = reading
        session, models, panel, action = view.session, view.session.models, view.panel, view.screen.run_action
        does: Mapping[str, Callable[[], object]] = {
            "panel": panel.toggle,
            "devices": panel.open_devices,
            "placement": controls.change_placement,
            "drafter": partial(controls.switch, "drafter"),
            "policy": partial(controls.switch, "policy"),
            "page": partial(panel.turn, 1),
            **{f"page.{page}": partial(panel.open_by_key, page) for page in PAGES if page != MEASURED},
            "think": controls.switch_thinking,
            "profile": controls.next_profile,
            "save-profile": controls.save_profile,
            "reset": controls.reset,
            "stop": self._stop,
            "interrupt": self._interrupt,
            "colours": reading.toggle_tokens,
            "rejected": reading.toggle_rejected,
            "inspect": reading.toggle_inspection,
            "regenerate": replies.regenerate,
            "new-chat": conversations.begin_new,
            "without-draft": lambda: controls.show_loading(models.load_without_draft()),
            "load": lambda: controls.show_loading(models.load_again()),
            "models": controls.choose_models,
            "best-settings": controls.measure,
            "last-chat": conversations.open_offer,
            "safe-mode": lambda: controls.show_loading(models.load_safely()),
            **dict.fromkeys(("conversations", "open", "rename", "delete"), conversations.list),
            "measure-reply": replies.compare,
            "export": reading.ask_export,
            "edit": messages.edit_last,
            **dict.fromkeys(("messages", "back"), messages.list),
            "undo": messages.undo,
            "continue": replies.continue_last,
            "drop": replies.drop_oldest,
            "undrop": replies.bring_back,
            "system": messages.show_system_prompt,
            "thinking": reading.toggle_thinking,
            "copy-code": reading.copy_code,
            "page-up": partial(reading.scroll, -1),
            "page-down": partial(reading.scroll, 1),
            "editor": view.prompt.action_editor,
            "help": partial(action, "app.help"),
            "quit": partial(action, "app.quit"),
        }
        possible: Mapping[str, Callable[[], bool]] = {
            "interrupt": self._can_interrupt,
            "without-draft": lambda: models.without_draft,
            "load": lambda: session.state == "failed",
            "last-chat": lambda: session.offer is not None,
            "safe-mode": lambda: models.crash is not None and bool(session.setup.model),
        }
        for identity, run in does.items():
            command = COMMANDS[identity]
            self[identity] = command._replace(run=run, enabled=possible.get(identity, command.enabled))

    def behind_slash(self) -> list[Suggestion]:
        """The commands that can be chosen now, by their names behind a slash, each with its key."""
        active = self._view.screen.active_bindings.values()
        keys = {each.binding.id: format_key(each.binding.key) for each in active}
        possible = [each for each in self.values() if each.slash and each.enabled()]
        return [
            Suggestion(f"/{each.slash}", f"{each.help} {keys.get(each.id, '')}".rstrip(), each.id) for each in possible
        ]

    def _can_interrupt(self) -> bool:
        """There is a reply to stop, or selected text that is not the prompt's, which copies its own."""
        screen, prompt = self._view.screen, self._view.prompt
        possible = self._view.session.replying or bool(screen.get_selected_text())
        return possible and not (screen.focused is prompt and prompt.selected_text)

    def _interrupt(self) -> None:
        """Copy the selected text; without any, stop the reply. Textual's own binding of the key for copying is replaced."""
        if self._view.screen.get_selected_text():
            self._view.screen.action_copy_text()
        else:
            self._stop()

    def _stop(self) -> None:
        """Do the first of these that there is something for: close the suggestions, forget a number typed at a slider or
        picked devices, leave an edit, take waiting prompts back into the text area, stop the reply or the loading, remove the
        token cursor, close the overlay. No text is lost by it."""
        view, screen, session = self._view, self._view.screen, self._view.session
        if view.prompt.decline() or any(each.stop() for each in screen.query(Welcome)):
            return
        slider = screen.focused if isinstance(screen.focused, Slider) else None
        if slider is not None and slider.forget():
            return
        if view.panel.devices.has_focus and self._controls.leave_picked():
            return
        editing = session.conversation.editing is not None and slider is None
        if editing and not session.waiting and session.state != "loading":
            self._messages.leave_edit()
            return
        if session.waiting:
            self._replies.return_waiting()
        elif session.replying or session.state == "loading":
            session.stop()
            view.show_state()
        elif view.transcript.inspected is not None:
            self._reading.end_inspection()
        else:
            screen.remove_class("-overlay")
        (screen.query_one(Choices) if screen.has_class("-empty") else view.prompt).focus()
