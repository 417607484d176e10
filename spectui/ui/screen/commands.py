"""What the commands of the table do on the screen, where it is more than what they do to the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from textual.binding import BindingType

from spectui.chat import actions
from spectui.chat.actions import Remark
from spectui.chat.commands import COMMANDS, GROUPS, SLASH, Command
from spectui.config import nearest
from spectui.text import printable
from spectui.ui.dashboard.panel import PAGES, SidePanel
from spectui.ui.keys import binding, format_key
from spectui.ui.prompt.suggestions import Suggestion, matching
from spectui.ui.screen import asking, controls, reading
from spectui.ui.screen.welcome import Choices, Welcome
from spectui.ui.screen.window import Window
from spectui.ui.widgets.rows import Slider

LISTS = ("conversations", "open", "rename", "delete", "messages", "back", "models")
"""Commands whose words choose from a list, which the window shows."""

BY_ARROWS = ("rounds", "settings")
"""Pages that get the focus when a key opens them."""

BINDINGS: list[BindingType] = [
    binding(command)
    for title, group in GROUPS.items()
    for command in group
    if command.keys and title not in ("prompt", "window")
]


# What they do


def go_on(window: Window) -> None:
    """Go on with the reply that was stopped, or with the conversation that a crash ended."""
    if window.session.offer is not None and not window.session.can_continue:
        reading.open_offer(window)
    else:
        controls.do(window, partial(actions.continue_reply, window.session, ""))


def interrupt(window: Window) -> None:
    """Copy the selected text; without any, stop the reply. Textual's own binding of the key for copying is replaced."""
    if window.get_selected_text():
        window.action_copy_text()
    else:
        stop(window)


def stop(window: Window) -> None:
    """Esc: undo the topmost thing that is open. No text is lost by it."""
    session, focused, panel = window.session, window.focused, window.panel
    fetching = [welcome for welcome in window.query(Welcome) if welcome.is_fetching]
    if window.prompt.suggests:
        window.prompt.decline()
    elif fetching:
        fetching[0].stop()
    elif isinstance(focused, Slider) and focused.is_typing:
        focused.forget()
    elif focused in (panel.devices, panel.context) and window.picked is not None:
        controls.leave_picked(window)
    elif window.transcript.inspected is not None:
        reading.end_inspection(window)
    elif window.find_line.display:
        window.find_line.close()
        window.set_focus(window.prompt)
    elif focused is not None and (focused in (window.transcript, window.chats) or panel in focused.ancestors):
        window.set_focus(window.prompt)
    elif session.conversation.editing is not None and not session.waiting and session.state != "loading":
        asking.leave_edit(window)
    else:
        if session.waiting:
            window.return_waiting()
        elif session.replying or session.state == "loading":
            session.stop()
            window.show_state()
        else:
            window.remove_class("-overlay")
        window.set_focus(window.query_one(Choices) if window.has_class("-empty") else window.prompt)


def _of_panel(does: Callable[[SidePanel], object]) -> Callable[[Window], object]:
    return lambda window: does(window.panel)


ON_SCREEN: Mapping[str, Callable[[Window], object]] = {
    "panel": _of_panel(SidePanel.toggle),
    "devices": _of_panel(SidePanel.open_devices),
    "page": _of_panel(SidePanel.turn),
    **{f"page.{page}": _of_panel(partial(SidePanel.open_page, page=page, focus=page in BY_ARROWS)) for page in PAGES},
    "placement": controls.change_placement,
    **{key: partial(controls.switch, key=key) for key in ("drafter", "policy")},
    "profile": controls.next_profile,
    "save-profile": controls.save_profile,
    "stop": stop,
    "interrupt": interrupt,
    "colours": partial(reading.toggle, what="show_tokens"),
    "rejected": partial(reading.toggle, what="show_rejected"),
    "inspect": reading.toggle_inspection,
    "new-chat": reading.begin_new,
    "models": controls.choose_models,
    "tune": controls.tune,
    "last-chat": reading.open_offer,
    "chats": reading.fold_chats,
    **dict.fromkeys(("conversations", "open", "rename", "delete"), reading.list_conversations),
    "compare": asking.compare,
    "export": reading.ask_export,
    "edit": asking.edit_last,
    **dict.fromkeys(("messages", "back"), asking.list_messages),
    "undo": asking.undo,
    "continue": go_on,
    "system": asking.show_system_prompt,
    "as": asking.choose_named_prompt,
    "thinking": partial(reading.toggle, what="show_thinking"),
    "find": lambda window: window.find_line.open(),
    "copy-reply": reading.copy_reply,
    "copy-code": reading.copy_code,
    "page-up": lambda window: window.transcript.scroll_page_up(),
    "page-down": lambda window: window.transcript.scroll_page_down(),
    "editor": lambda window: window.prompt.action_editor(),
    "help": lambda window: window.run_action("app.help"),
    "quit": lambda window: window.run_action("app.quit"),
}
"""By id."""


# What is done now


def run(window: Window, identity: str) -> object:
    """Do what the command of this id asks for."""
    if identity in ON_SCREEN:
        return ON_SCREEN[identity](window)
    act = COMMANDS[identity].do
    return controls.do(window, partial(act, window.session, "")) if act is not None else None


def can_interrupt(window: Window) -> bool:
    """There is a reply to stop, or selected text that is not the prompt's, which copies its own."""
    possible = window.session.replying or bool(window.get_selected_text())
    return possible and not (window.focused is window.prompt and window.prompt.selected_text)


def is_possible(window: Window, command: Command) -> bool:
    """A command can be chosen now."""
    return command.possible(window.session) and (command.id != "interrupt" or can_interrupt(window))


def without_key(window: Window) -> Iterator[Command]:
    """The commands that can be chosen now and have no key, or whose key a map gave to another. Those that choose from a list
    by words alone are done in the list."""
    bound = {active.binding.id for active in window.active_bindings.values()}
    for command in COMMANDS.values():
        is_done_here = (command.id in ON_SCREEN or command.do is not None) and (command.keys or command.id not in LISTS)
        if is_done_here and command.id not in bound and window.check_action("run", (command.id,)):
            yield command


def behind_slash(window: Window, text: str) -> list[Suggestion]:
    """The commands that this begins and that can be chosen now, each with its key; behind a name and a blank, the words that
    can follow."""
    name, blank, begun = text.removeprefix("/").partition(" ")
    if blank:
        words = SLASH[name].words(window.session) if name in SLASH else {}
        return [Suggestion(f"/{name} {word}", about) for word, about in words.items() if word.startswith(begun)]
    keys = {each.binding.id: format_key(each.binding.key) for each in window.active_bindings.values()}
    possible = [command for command in SLASH.values() if window.check_action("run", (command.id,))]
    listed = [
        Suggestion(f"/{command.slash}", f"{command.help} {keys.get(command.id, '')}".rstrip(), command.id)
        for command in possible
    ]
    return matching(listed, name)


def do_behind_slash(window: Window, name: str, words: str) -> str:
    """Do the command of this name with these words. Returns why it cannot; "" if it did."""
    chosen = SLASH.get(name)
    if chosen is None:
        return f"There is no command /{name}{nearest(name, SLASH)}"
    if words and not chosen.arguments:
        return f"/{name} takes no words."
    if not words or chosen.do is None or chosen.id in LISTS:
        window.call_later(window.run_action, f"run('{chosen.id}')")
    elif (answer := controls.do(window, partial(chosen.do, window.session, words))) and not isinstance(answer, Remark):
        window.transcript.add_notice(printable(str(answer)))
    return ""
