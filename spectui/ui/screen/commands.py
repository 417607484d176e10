"""How the chat screen does what the commands of the table ask for, and which of them it can do now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual.binding import BindingType

from spectui.chat import commands
from spectui.ui.dashboard.panel import MEASURED, PAGES
from spectui.ui.keys import binding, format_key
from spectui.ui.prompt.suggestions import Suggestion

if TYPE_CHECKING:
    from spectui.ui.screen.chat import ChatScreen


def _shows(page: str) -> Callable[[ChatScreen], object]:
    return lambda screen: screen.pages.show_by_key(page)


def _can_interrupt(screen: ChatScreen) -> bool:
    """There is a reply to stop, or selected text that is not the prompt's, which copies its own."""
    possible = screen.session.replying or bool(screen.get_selected_text())
    return possible and not (screen.focused is screen.prompt and screen.prompt.selected_text)


def _interrupt(screen: ChatScreen) -> None:
    """Copy the selected text; without any, stop the reply. Textual's own binding of the key for copying is replaced."""
    if screen.get_selected_text():
        screen.action_copy_text()
    else:
        screen.replies.stop()


RUN: Mapping[str, Callable[[ChatScreen], object]] = {
    "panel": lambda screen: screen.pages.toggle(),
    "devices": lambda screen: screen.pages.show_devices(),
    "placement": lambda screen: screen.controls.change_placement(),
    "drafter": lambda screen: screen.controls.switch("drafter"),
    "policy": lambda screen: screen.controls.switch("policy"),
    "page": lambda screen: screen.pages.turn(1),
    **{f"page.{page}": _shows(page) for page in PAGES if page != MEASURED},
    "think": lambda screen: screen.controls.switch_thinking(),
    "profile": lambda screen: screen.controls.next_profile(),
    "save-profile": lambda screen: screen.controls.save_profile(),
    "reset": lambda screen: screen.controls.reset(),
    "stop": lambda screen: screen.replies.stop(),
    "interrupt": _interrupt,
    "colours": lambda screen: screen.reading.toggle_tokens(),
    "rejected": lambda screen: screen.reading.toggle_rejected(),
    "inspect": lambda screen: screen.reading.toggle_inspection(),
    "regenerate": lambda screen: screen.replies.regenerate(),
    "new-chat": lambda screen: screen.conversations.begin_new(),
    "without-draft": lambda screen: screen.controls.load_without_draft(),
    "load": lambda screen: screen.controls.load_again(),
    "models": lambda screen: screen.controls.choose_models(),
    "best-settings": lambda screen: screen.controls.measure(),
    "last-chat": lambda screen: screen.conversations.open_offer(),
    "safe-mode": lambda screen: screen.controls.load_safely(),
    **dict.fromkeys(("conversations", "open", "rename", "delete"), lambda screen: screen.conversations.list()),
    "measure-reply": lambda screen: screen.replies.compare(),
    "export": lambda screen: screen.reading.ask_export(),
    "edit": lambda screen: screen.messages.edit_last(),
    **dict.fromkeys(("messages", "back"), lambda screen: screen.messages.list()),
    "undo": lambda screen: screen.messages.undo(),
    "continue": lambda screen: screen.replies.continue_last(),
    "drop": lambda screen: screen.replies.drop_oldest(),
    "undrop": lambda screen: screen.replies.bring_back(),
    "system": lambda screen: screen.messages.show_system_prompt(),
    "thinking": lambda screen: screen.reading.toggle_thinking(),
    "copy-code": lambda screen: screen.reading.copy_code(),
    "page-up": lambda screen: screen.reading.scroll(-1),
    "page-down": lambda screen: screen.reading.scroll(1),
    "editor": lambda screen: screen.prompt.action_editor(),
    "help": lambda screen: screen.app.run_action("help"),
    "quit": lambda screen: screen.app.run_action("quit"),
}
"""By id."""

ENABLED: Mapping[str, Callable[[ChatScreen], bool]] = {
    "interrupt": _can_interrupt,
    "without-draft": lambda screen: screen.session.models.without_draft,
    "load": lambda screen: screen.session.state == "failed",
    "last-chat": lambda screen: screen.session.offer is not None,
    "safe-mode": lambda screen: screen.session.models.crash is not None and bool(screen.session.setup.model),
}
"""By id; the others always are."""


GROUPS = {title: commands.GROUPS[title] for title in ("panel", "chat", "messages", "reading")}
"""By the title in the help."""

BINDINGS: list[BindingType] = [binding(each) for group in GROUPS.values() for each in group if each.keys]


def behind_slash(screen: ChatScreen) -> list[Suggestion]:
    """The commands that can be chosen now, by their names behind a slash, each with its key."""
    keys = {each.binding.id: format_key(each.binding.key) for each in screen.active_bindings.values()}
    possible = [each for each in commands.SLASH.values() if each.id not in ENABLED or ENABLED[each.id](screen)]
    return [Suggestion(f"/{each.slash}", f"{each.help} {keys.get(each.id, '')}".rstrip(), each.id) for each in possible]
