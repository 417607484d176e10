"""The one table of the chat screen's keys, in the groups in which the help shows them."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from spectui.ui.dashboard.panel import PAGES


def _key(keys: str, action: str, name: str, identity: str, tooltip: str, *, show: bool = True) -> Binding:
    """A key that works wherever the focus is, also where the prompt's text area would take it. `identity` is its name in
    `[ui.keys]`; `show`: on the window's last line too."""
    return Binding(keys, action, name, id=identity, tooltip=tooltip, show=show, priority=True)


PANEL: list[BindingType] = [
    _key("f6", "panel", "Panel", "panel", "Show or hide figures, sliders and devices"),
    _key("f7", "devices", "Devices", "devices", "Choose devices for the models"),
    _key("alt+d", "placement", "Placement", "placement", "Load the models with other flags: layers, context, cells, split",
         show=False),
    _key("f8", "switch('drafter')", "Drafter", "drafter", "Who drafts: turn on by one", show=False),
    _key("f9", "switch('policy')", "Policy", "policy", "How long drafts are: turn on by one", show=False),
    _key("f10,ctrl+t", "page(1)", "Page", "page", "See the panel's next page"),
    *(
        _key(f"alt+{number}", f"show_page('{page}')", f"Page: {page}", f"page.{page.replace('/', '')}",
             f"See the panel's page: {page}", show=False)
        for number, page in enumerate(PAGES, 1)
    ),
    _key("alt+h", "switch_thinking", "Think", "think", "Have the model think before its replies, or not", show=False),
    _key("alt+p", "next_profile", "Next profile", "profile", "Turn the knobs to the next profile of the configuration",
         show=False),
    _key("alt+s", "save_profile", "Save profile", "save-profile", "Save the knobs in the configuration, under a name",
         show=False),
    _key("alt+0", "reset_knobs", "Reset knobs", "reset", "Turn every knob back to its default", show=False),
]  # fmt: skip

CHAT: list[BindingType] = [
    _key("escape", "stop", "Stop", "stop", "Stop the reply, or the loading"),
    _key("ctrl+c", "interrupt", "Stop", "interrupt", "Stop the reply; where text is selected, copy it", show=False),
    _key("f2", "colours", "Colours", "colours", "Colour tokens by their origin"),
    _key("f3", "ghosts", "Ghosts", "ghosts", "Show drafted tokens that were rejected"),
    _key("f4", "inspect", "Inspect", "inspect", "Put a cursor on the tokens: where each came from"),
    _key("ctrl+r", "again", "Again", "regenerate", "Answer the last prompt once more"),
    _key("ctrl+n", "new_chat", "New", "new-chat", "Begin a new chat"),
    _key("ctrl+d", "without_draft", "No draft", "without-draft", "Go on with the target alone"),
    _key("ctrl+l", "load", "Load again", "load", "Try to load the models once more"),
    # Alt+M comes first, because Ctrl+L loads again after a failed load.
    _key("alt+m,ctrl+l", "models", "Models", "models", "Choose target and draft out of the files on this machine",
         show=False),
    _key("alt+r", "measure", "Measure", "measure", "Measure the pair: bench, costs, tune and compare", show=False),
    _key("ctrl+o", "go_on", "Go on", "go-on", "Go on with the last conversation"),
    _key("ctrl+s", "safe_way", "Safe way", "safe-way", "Load the models in the way that asks least of llama.cpp"),
    _key("f12,alt+c", "conversations", "Chats", "conversations", "List, search, rename and delete conversations"),
    _key("f5", "compare", "A/B", "compare", "Decode the last prompt again without drafts, and measure"),
    _key("alt+x", "export", "Export", "export",
         "Write the conversation to a file: Markdown, or JSON with origins and figures", show=False),
]  # fmt: skip

MESSAGES: list[BindingType] = [
    _key("alt+e", "edit", "Edit", "edit", "Edit the last prompt and send it anew; once more: the one before", show=False),
    _key("alt+l", "messages", "Messages", "messages", "List the messages and branches, to edit one or go on from it",
         show=False),
    _key("alt+z", "undo_turn", "Undo", "undo", "Bring back what was said before the last regenerating, editing or going back",
         show=False),
    _key("alt+g", "continue", "Continue", "continue", "Go on with a reply that was stopped or reached its limit",
         show=False),
    _key("alt+j", "drop", "Drop", "drop", "Where the context is full: drop the oldest turns, and go on", show=False),
    _key("alt+u", "undrop", "Bring back", "undrop", "Make dropped turns a part of the prompt again", show=False),
    _key("alt+y", "system_prompt", "System prompt", "system", "What the model is told before this conversation",
         show=False),
]  # fmt: skip

READING: list[BindingType] = [
    _key("alt+v", "read", "Read", "read", "See the reply as Markdown, with code highlighted and thinking folded",
         show=False),
    _key("alt+t", "thinking", "Thinking", "thinking", "Unfold what the model thought, or fold it", show=False),
    _key("alt+k", "copy_code", "Copy code", "copy-code", "Copy the last code block that can be seen", show=False),
    _key("pageup", "scroll(-1)", "Page up", "page-up", "Read back", show=False),
    _key("pagedown", "scroll(1)", "Page down", "page-down", "Read on", show=False),
]  # fmt: skip

GROUPS = {"panel": PANEL, "chat": CHAT, "messages": MESSAGES, "reading": READING}
"""By the title in the help."""

BINDINGS: list[BindingType] = [each for group in GROUPS.values() for each in group]

LAST_LINE = ("send", "stop", "without-draft", "load", "quit", "help", "panel", "page", "inspect", "compare", "ghosts",
             "colours", "regenerate")  # fmt: skip
"""The keys on the window's last line, most important first, because a narrow window has room for a few. Others follow."""
