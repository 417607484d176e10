"""The one table of commands: what a person can have done, by a key, in the list of commands, or behind a slash.

The window's keys, its last line and its list of commands come from it, and so do the plain chat's commands and the tables in
the documents. `do` has what a command does to a session (`chat.actions`); what it does on the screen, the window adds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from spectui.chat import actions
from spectui.chat.actions import wordless
from spectui.chat.device_choice import devices
from spectui.chat.messages import thinks
from spectui.chat.session import ChatSession
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, specs, title
from spectui.profiles import named_prompts


class Command(NamedTuple):
    """`id` is its name in `[ui.keys]` and, as {id}, in sentences.

    `keys`: the window's, as Textual names them; "" if it has none. `slash`: its name behind a slash; "" if it has none there.
    `arguments`: what can follow that in the plain chat, and `plain`: what it does there, where that is not `help`. `do` does
    it to a session, with the words after it (see `chat.actions`). `possible`: whether its key acts now. `words`: what can
    follow in the window, each with a line about it.
    """

    id: str
    title: str
    help: str
    keys: str = ""
    slash: str = ""
    arguments: str = ""
    plain: str = ""
    do: Callable[[ChatSession, str], str] | None = None
    possible: Callable[[ChatSession], bool] = lambda session: True
    words: Callable[[ChatSession], Mapping[str, str]] = lambda session: {}

    @property
    def behind_slash(self) -> str:
        """What it does, as the plain chat tells it."""
        return self.plain or self.help[0].lower() + self.help[1:]

    @property
    def usage(self) -> str:
        """The command as it is typed in the plain chat."""
        return f"/{self.slash} {self.arguments}".rstrip()


def _drafts_here(session: ChatSession) -> bool:
    """A server drafts as it was started, and is measured by its own machine."""
    return "drafter" not in session.models.fixed


def _crashed_here(session: ChatSession) -> bool:
    """Models of this machine have ended spectui the last time."""
    return session.models.crash is not None and bool(session.setup.model) and not session.setup.server


def _profiles(session: ChatSession) -> Mapping[str, str]:
    try:
        return dict.fromkeys(session.user_knobs.profiles.names(), "")
    except SpectuiError:
        return {}  # the configuration cannot be read, which the command says


def _page(number: int, page: str) -> Command:
    return Command(f"page.{page}", f"Page: {page}", f"See the panel's page: {page}", f"alt+{number}")


PANEL = (
    Command("panel", "Panel", "Show or hide figures, sliders and devices", "f6"),
    Command("page", "Page", "See the panel's next page", "f10,ctrl+t"),
    _page(1, "now")._replace(slash="stats", plain="how fast it is, and whether drafting pays", do=actions.stats),
    *(_page(number, page) for number, page in enumerate(("rounds", "details", "machine"), 2)),
    Command("page.settings", "Knobs", "Turn knobs: the panel's page of settings", "alt+5", "set", "[KNOB [VALUE]]",
            'say or turn knobs, which act at once; "" for none', do=actions.set_knob,
            words=lambda session: {title(key): spec.help for key, _, spec in specs(Knobs)}),
)  # fmt: skip

STEERING = (
    Command("devices", "Devices", "Choose devices for the models", "f7", "devices",
            "[target|draft DEVICE]", "say or choose what the models run on", do=devices,
            possible=_drafts_here),
    Command("placement", "Placement", "Load the models with other flags: layers, context, cells, split", "alt+d", "placement",
            "[FLAGS]", "load the models with other flags, such as -ngl 20 -c 8192; alone: say them", do=actions.placement),
    Command("drafter", "Drafter", "Who drafts: turn on by one", "f8", possible=_drafts_here),
    Command("policy", "Policy", "How long drafts are: turn on by one", "f9", possible=_drafts_here),
    Command("think", "Think", "Have the model think before its replies, or not", "alt+h", "think", "[on|off]",
            do=actions.think, words=lambda session: {"on": "", "off": ""}),
    Command("end-thinking", "Answer now", "End the thinking now, keep it, and have the answer", "alt+n",
            do=actions.end_thinking, possible=lambda session: thinks(session.writing)),
    Command("schema", "Schema", "Let replies be free of the JSON schema again", slash="schema", arguments="[FILE]",
            plain="have replies obey the JSON schema of a file; alone: no more", do=actions.schema),
    Command("profile", "Next profile", "Turn the knobs to the next profile of the configuration", "alt+p", "profile", "[NAME]",
            "list profiles, or turn the knobs to one", do=actions.profile, words=_profiles),
    Command("save-profile", "Save profile", "Save the knobs in the configuration, under a name", "alt+s", "save", "NAME",
            do=actions.save),
    Command("reset", "Reset knobs", "Turn every knob back to its default", "alt+0", "reset", do=actions.reset),
)  # fmt: skip

CHAT = (
    Command("stop", "Stop", "Stop the reply, or the loading", "escape"),
    Command("interrupt", "Stop", "Stop the reply; where text is selected, copy it", "ctrl+c"),
    Command("regenerate", "Regenerate", "Answer the last prompt once more", "ctrl+r", "regenerate",
            do=wordless(ChatSession.regenerate)),
    Command("new-chat", "New", "Begin a new chat", "ctrl+n", "new",
            do=wordless(ChatSession.new_chat, "A new chat.")),
    Command("without-draft", "No draft", "Go on with the target alone", "ctrl+d", "nodraft",
            do=wordless(lambda session: session.models.load_others(session.setup.model, None)),
            possible=lambda session: session.models.without_draft),
    Command("load", "Load again", "Try to load the models once more", "ctrl+l", "load", "[TARGET [DRAFT]]",
            "load other models, by number or file; alone: these again", do=actions.load,
            possible=lambda session: session.state == "failed"),
    # Alt+M comes first, because Ctrl+L loads again after a failed load.
    Command("models", "Models", "Choose target and draft out of the files on this machine", "alt+m,ctrl+l", "models", "[WORDS]",
            "list the models of this machine, and which can draft for which"),
    Command("tune", "Tune", "Find the best settings for the loaded models", "alt+r", possible=_drafts_here),
    Command("last-chat", "Last chat", "Open the last conversation again", "ctrl+o",
            possible=lambda session: session.offer is not None),
    Command("safe-mode", "Safe mode", "Load the models in the way that asks least of llama.cpp", "ctrl+s", "safe",
            do=wordless(lambda session: session.models.load_safely()), possible=_crashed_here),
    Command("chats", "Chats", "Fold the chats beside the text, or show them; in a window without room, list them", "f12"),
    Command("conversations", "All chats", "List, search, rename and delete conversations", "alt+c", "chats", "[WORDS]",
            "list the conversations, or those that have these words", do=actions.chats),
    Command("open", "Open", "Go on with a conversation of the list", slash="open", arguments="NUMBER", do=actions.open_chat),
    Command("rename", "Rename", "Give a conversation of the list another title", slash="rename", arguments="NUMBER TITLE",
            do=actions.rename),
    Command("delete", "Delete", "Delete a conversation of the list, on disk too", slash="delete", arguments="NUMBER yes",
            do=actions.delete),
    Command("compare", "Compare", "Decode the last prompt without drafts, and run both side by side", "f5", "compare",
            plain="decode the last prompt again without drafts, and compare", do=wordless(ChatSession.compare),
            possible=_drafts_here),
)  # fmt: skip

MESSAGES = (
    Command("edit", "Edit", "Edit the last prompt and send it anew; once more: the one before", "alt+e", "edit", "[TEXT]",
            "send this in place of the last prompt; alone: change that in $EDITOR", do=actions.edit),
    Command("messages", "Messages", "List the messages and branches, to edit one or go on from it", "alt+l", "messages",
            plain="list this conversation's messages and its other branches", do=actions.messages),
    Command("back", "Back", "Go on from a message of the list, ask a prompt of it otherwise, or turn to a branch",
            slash="back", arguments="NUMBER", do=actions.back),
    Command("undo", "Undo", "Bring back what was said before the last regenerating, editing or going back", "alt+z", "undo",
            do=actions.undo),
    Command("continue", "Continue", "Go on with a reply that was stopped or reached its limit", "alt+g", "continue", "",
            "go on with a reply that was stopped, or with the conversation that was cut off", do=actions.continue_reply),
    Command("drop", "Drop", "Where the context is full: drop the oldest turns, and go on", "alt+j", "drop", do=actions.drop),
    Command("undrop", "Bring back", "Make dropped turns a part of the prompt again", "alt+u", "undrop", do=actions.bring_back),
    Command("system", "System prompt", "What the model is told before this conversation", "alt+y", "system", "[TEXT]",
            'say or set this conversation\'s system prompt; "" for none', do=actions.system),
    Command("as", "As", "Answer as a named system prompt says, with the knobs of its head", slash="as", arguments="[NAME]",
            plain="take a named system prompt with its knobs; alone: list them", do=actions.use_named_prompt,
            words=lambda session: named_prompts.listed()),
)  # fmt: skip

READING = (
    Command("colours", "Tokens", "See replies as tokens in the colours of their origins, or as text", "f2"),
    Command("rejected", "Rejected", "Show drafted tokens that were rejected", "f3"),
    Command("inspect", "Inspect", "Put a cursor on the tokens: where each came from", "f4", "token", "[NUMBER]",
            "where a token of the last reply came from; alone: the last", do=actions.token),
    Command("thinking", "Thinking", "Unfold what the model thought, or fold it", "alt+t"),
    Command("find", "Find", "Find words in this conversation", "ctrl+f"),
    Command("copy-reply", "Copy reply", "Copy the last reply that can be seen, without what it thought", "alt+w"),
    Command("copy-code", "Copy code", "Copy the last code block that can be seen", "alt+k", "code", "[NUMBER]",
            "the last reply's last code block, or another, alone", do=actions.code),
    Command("export", "Export", "Write the conversation to a file: Markdown, or JSON with origins and figures", "alt+x",
            "export", "[NAME]", "write this conversation to a file here: Markdown, or with .json origins and figures",
            do=actions.export_chat),
    Command("page-up", "Page up", "Read back", "pageup"),
    Command("page-down", "Page down", "Read on", "pagedown"),
)  # fmt: skip

PROMPT = (
    Command("send", "Send", "Send the prompt", "enter"),
    Command("newline", "New line", "Begin a new line", "ctrl+j,shift+enter,alt+enter"),
    # No control character: a terminal without bracketed pastes types what is pasted, and such text is full of them.
    Command("editor", "Editor", "Write the prompt in $EDITOR", "alt+o", "editor", "[TEXT]", do=actions.send),
)

WINDOW = (
    Command("help", "Help", "Every command and key, and what stands on the screen", "f1,ctrl+p", "help", plain="this list"),
    Command("quit", "Quit", "Leave at once", "ctrl+q", "quit", plain="leave"),
    Command("suspend", "Suspend", "Undo in the box; with nothing to undo, go to the shell for a while: fg comes back",
            "ctrl+z"),
    Command("theme", "Theme", "Choose how the window looks", "alt+a"),
)  # fmt: skip

GROUPS: Mapping[str, tuple[Command, ...]] = {
    "chat": CHAT, "messages": MESSAGES, "panel": PANEL, "steering": STEERING, "reading": READING, "prompt": PROMPT,
    "window": WINDOW,
}  # fmt: skip
"""By the title in the help."""

COMMANDS: Mapping[str, Command] = {command.id: command for group in GROUPS.values() for command in group}
"""By id."""

FIRST = ("new-chat", "models", "conversations", "edit", "regenerate", "export", "undo")
"""What is done most: the commands that the lists behind a slash and of F1 begin with."""

SLASH: Mapping[str, Command] = {
    command.slash: command for command in [*map(COMMANDS.__getitem__, FIRST), *COMMANDS.values()] if command.slash
}
"""By the name behind a slash."""

LAST_LINE = ("send", "stop", "end-thinking", "without-draft", "load", "last-chat", "safe-mode", "help", "models", "compare",
             "quit")  # fmt: skip
"""The keys on the window's last line, most important first. Those of the focused pane come before the models."""


def with_commands(sentence: str) -> str:
    """A sentence of `chat.sentences` with the plain chat's commands in place of the {ids}."""
    otherwise = {"stop": "Ctrl+C", "last-chat": "/continue", "models": "/load TARGET DRAFT"}

    def command(part: re.Match[str]) -> str:
        known = COMMANDS.get(part[1])
        return otherwise.get(part[1]) or (f"/{known.slash}" if known is not None else part[0])

    return re.sub(r"\{([a-z-]+)\}", command, sentence)
