"""How the chat screen does what the commands of the table ask for, and which of them it can do now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from textual.binding import BindingType

from spectui.chat import commands
from spectui.chat.commands import COMMANDS, SLASH, Command
from spectui.config import nearest
from spectui.ui.dashboard.panel import MEASURED, PAGES
from spectui.ui.keys import binding, format_key
from spectui.ui.prompt.suggestions import Suggestion
from spectui.ui.screen import asking, conversations, reading
from spectui.ui.screen.controls import Controls
from spectui.ui.screen.welcome import Choices, Welcome
from spectui.ui.screen.window import Window
from spectui.ui.widgets.knob import Slider

GROUPS = {title: commands.GROUPS[title] for title in ("panel", "steering", "chat", "messages", "reading")}
"""By the title in the help."""

LISTS = ("conversations", "open", "rename", "delete", "messages", "back", "models")
"""Commands whose words choose from a list, which the window shows."""

BINDINGS: list[BindingType] = [binding(each) for group in GROUPS.values() for each in group if each.keys]


def commands_of(window: Window, controls: Controls) -> dict[str, Command]:
    """The commands that the window does, by id."""
    session, models, panel, action = window.session, window.session.models, window.panel, window.run_action
    does: dict[str, Callable[[], object]] = {
        "panel": panel.toggle,
        "devices": panel.open_devices,
        "placement": controls.change_placement,
        "drafter": partial(controls.switch, "drafter"),
        "policy": partial(controls.switch, "policy"),
        "page": partial(panel.turn, 1),
        **{f"page.{page}": partial(panel.open_by_key, page) for page in PAGES if page != MEASURED},
        "profile": controls.next_profile,
        "save-profile": controls.save_profile,
        "stop": partial(stop, window, controls),
        "interrupt": partial(interrupt, window, controls),
        "colours": partial(reading.toggle_tokens, window),
        "rejected": partial(reading.toggle_rejected, window),
        "inspect": partial(reading.toggle_inspection, window),
        "new-chat": partial(conversations.begin_new, window),
        "models": controls.choose_models,
        "best-settings": controls.measure,
        "last-chat": partial(conversations.open_offer, window),
        **dict.fromkeys(("conversations", "open", "rename", "delete"), partial(conversations.list_conversations, window)),
        "measure-reply": partial(asking.compare, window),
        "export": partial(reading.ask_export, window),
        "edit": partial(asking.edit_last, window),
        **dict.fromkeys(("messages", "back"), partial(asking.list_messages, window)),
        "undo": partial(asking.undo, window),
        "continue": partial(go_on, window, controls),
        "system": partial(asking.show_system_prompt, window),
        "thinking": partial(reading.toggle_thinking, window),
        "copy-code": partial(reading.copy_code, window),
        "page-up": window.transcript.scroll_page_up,
        "page-down": window.transcript.scroll_page_down,
        "editor": window.prompt.action_editor,
        "help": partial(action, "app.help"),
        "quit": partial(action, "app.quit"),
    }
    possible: Mapping[str, Callable[[], bool]] = {
        "interrupt": partial(can_interrupt, window),
        "without-draft": lambda: models.without_draft,
        "load": lambda: session.state == "failed",
        "last-chat": lambda: session.offer is not None,
        "safe-mode": lambda: models.crash is not None and bool(session.setup.model) and not session.setup.server,
        # A server drafts as it was started, and is measured by its own machine.
        **dict.fromkeys(
            ("measure-reply", "best-settings", "drafter", "policy", "devices"), lambda: "drafter" not in models.fixed
        ),
    }
    by_session = {command.id: partial(controls.do, command.id) for command in COMMANDS.values() if command.do is not None}
    return {
        identity: COMMANDS[identity]._replace(run=run, enabled=possible.get(identity, COMMANDS[identity].enabled))
        for identity, run in (by_session | does).items()
    }


def behind_slash(window: Window, commands: Mapping[str, Command]) -> list[Suggestion]:
    """The commands that can be chosen now, by their names behind a slash, each with its key."""
    keys = {each.binding.id: format_key(each.binding.key) for each in window.active_bindings.values()}
    possible = [command for command in commands.values() if command.slash and command.enabled()]
    return [
        Suggestion(f"/{command.slash}", f"{command.help} {keys.get(command.id, '')}".rstrip(), command.id)
        for command in possible
    ]


def do_behind_slash(window: Window, controls: Controls, name: str, words: str) -> str:
    """Do the command of this name with these words. Returns why it cannot; "" if it did."""
    chosen = SLASH.get(name)
    if chosen is None:
        return f"There is no command /{name}{nearest(name, SLASH)}"
    if words and not chosen.arguments:
        return f"/{name} takes no words."
    if not words or chosen.do is None or chosen.id in LISTS:
        window.call_later(window.run_action, f"run('{chosen.id}')")
    else:
        controls.do(chosen.id, words)
    return ""


def go_on(window: Window, controls: Controls) -> None:
    """Go on with the reply that was stopped, or with the conversation that a crash ended."""
    if window.session.offer is not None and not window.session.can_continue:
        conversations.open_offer(window)
    else:
        controls.do("continue")


def can_interrupt(window: Window) -> bool:
    """There is a reply to stop, or selected text that is not the prompt's, which copies its own."""
    possible = window.session.replying or bool(window.get_selected_text())
    return possible and not (window.focused is window.prompt and window.prompt.selected_text)


def interrupt(window: Window, controls: Controls) -> None:
    """Copy the selected text; without any, stop the reply. Textual's own binding of the key for copying is replaced."""
    if window.get_selected_text():
        window.action_copy_text()
    else:
        stop(window, controls)


def stop(window: Window, controls: Controls) -> None:
    """Esc: undo the topmost thing that is open. No text is lost by it. In this order:

    the list above the prompt, a download, what has the focus (a number that is typed, devices that were picked, then the way
    back to the prompt), an edit, waiting prompts, the reply or the loading, the overlay.
    """
    session, focused = window.session, window.focused
    if window.prompt.decline() or any(welcome.stop() for welcome in window.query(Welcome)):
        return
    if isinstance(focused, Slider) and focused.forget():
        return
    if focused is window.panel.devices and controls.leave_picked():
        return
    if window.transcript.inspected is not None:
        reading.end_inspection(window)
        return
    if focused is not None and (focused is window.transcript or window.panel in focused.ancestors):
        window.prompt.focus()
        return
    if session.conversation.editing is not None and not session.waiting and session.state != "loading":
        asking.leave_edit(window)
        return
    if session.waiting:
        window.return_waiting()
    elif session.replying or session.state == "loading":
        session.stop()
        window.show_state()
    else:
        window.remove_class("-overlay")
    (window.query_one(Choices) if window.has_class("-empty") else window.prompt).focus()
