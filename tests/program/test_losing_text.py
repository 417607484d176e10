"""Twenty ways to lose text: whatever comes between two keys (Esc, Ctrl+Z, another size, kill -9), each word stays on disk.

`TEST_KILLS` is in how many of them the program is killed, each time at another key; by hand: `TEST_KILLS=20`.
"""

import os
import random
import re
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress

import pytest

from spectui.store.database import database_file
from spectui.store.prompts import prompts_file
from tests.helpers.terminal import Terminal

KEYS = {
    "enter": "\r", "newline": "\n", "escape": "\x1b[27u", "up": "\x1b[A", "undo": "\x1a", "redo": "\x19", "edit": "\x1be",
    "new chat": "\x0e", "last chat": "\x0f", "again": "\x12", "commands": "\x10", "chats": "\x1bc", "editor": "\x1bo",
    "panel": "\x1b[17~", "knobs": "\x1b5", "inspect": "\x1bOS",
}  # fmt: skip
BEGIN, END = "\x1b[200~", "\x1b[201~"
"""Around what is pasted."""
SEEN = {"commands": b"ilter by key", "chats": b"earch titles"}
"""What stands in a window once it takes keys."""
WAYS = {
    "half a thought": ("half{}",),
    "sent": ("short sent{}", "enter"),
    "two lines": ("one{}", "newline", "two{}", "enter"),
    "a paste": (BEGIN + "short pasted{}\nend{}" + END, "enter"),
    "words after a folded paste": (BEGIN + "line\n" * 30 + "folded{}" + END, " why{}", "enter"),
    "a paste that the terminal types": ("short first{}\rsecond{}\rthird{}",),
    "prompts that wait": ("count run{}", "enter", "short next{}", "enter", "short last{}", "enter"),
    "a prompt that is taken back": ("count long{}", "enter", "waits{}", "enter", "escape"),
    "a reply that is stopped": ("count stop{}", "enter", "beside{}", "escape"),
    "an edit that is left": ("short said{}", "enter", "edit", " changed{}", "escape"),
    "an edit that is sent": ("short put{}", "enter", "edit", " anew{}", "enter"),
    "a reply that is made again": ("short asked{}", "enter", "again", "meanwhile{}"),
    "a new chat": ("old{}", "new chat", "fresh{}", "enter"),
    "a prompt that is recalled": ("short past{}", "enter", "up", " recalled{}", "up"),
    "the list of commands": ("before{}", "commands", "escape", "after{}"),
    "the list of chats": ("kept{}", "chats", "escape", "back{}"),
    "the panel": ("panel", "knobs", "wherever{}", "panel"),
    "a token that is looked at": ("short seen{}", "enter", "inspect", "read{}", "escape"),
    "an editor": ("written{}", "editor", "behind{}"),
    "the last chat": ("short ended{}", "enter", "new chat", "begun{}", "last chat"),
}


def on_disk() -> str:
    """All that was said, sent or typed."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{database_file()}?mode=ro", uri=True)) as connection:
        texts = [text for (text,) in connection.execute("SELECT text FROM message")]
        files = (prompts_file(), prompts_file().with_name("unsent.json"))
        return "\n".join([*texts, *(file.read_text() for file in files if file.is_file())]).replace("\\n", "\n")
    return ""


def opened() -> Terminal:
    terminal = Terminal("chat", "-m", "/models/some.gguf", "-fa", "on", module="tests.helpers.scripted", emulated=False,
                        EDITOR="true")  # fmt: skip
    terminal.wait("the window", lambda: b"settings" in terminal.raw)
    return terminal


def press(terminal: Terminal, key: str, text: str) -> None:
    """Type it; and wait for a window that opens."""
    before = len(terminal.raw)
    terminal.type(KEYS.get(key, text))
    if key in SEEN:
        terminal.wait(key, lambda: SEEN[key] in terminal.raw[before:])


def killed(terminal: Terminal, kept: Callable[[], bool]) -> Terminal:
    terminal.wait("the words on disk", kept)
    os.kill(terminal.child.pid, signal.SIGKILL)
    terminal.end()
    return opened()


def resized(terminal: Terminal, kept: Callable[[], bool]) -> Terminal:
    terminal.child.setwinsize(*((24, 80) if terminal.child.getwinsize()[0] == 40 else (40, 120)))
    return terminal


def typed(*keys: str) -> Callable[[Terminal, Callable[[], bool]], Terminal]:
    def press(terminal: Terminal, kept: Callable[[], bool]) -> Terminal:
        terminal.type("".join(KEYS[key] for key in keys))
        return terminal

    return press


@pytest.mark.usefixtures("fresh_directories")
@pytest.mark.parametrize("between", [typed("escape"), typed("undo", "redo"), resized, killed],
                         ids=["Esc", "Ctrl+Z", "another size", "kill -9"])  # fmt: skip
def test_each_word_is_on_disk(between: Callable[[Terminal, Callable[[], bool]], Terminal]) -> None:
    chance = random.Random(0)
    most = int(os.environ.get("TEST_KILLS", "3")) if between is killed else len(WAYS)
    words: set[str] = set()

    def lost() -> set[str]:
        return words - {*re.findall(r"[a-z]+\d+", on_disk())}

    def kept() -> bool:
        return not lost()

    terminal = opened()
    try:
        for number, (way, keys) in enumerate(chance.sample([*WAYS.items()], most)):
            interrupted = chance.randrange(len(keys))
            for at, key in enumerate(keys):
                text = key.replace("{}", str(number))
                press(terminal, key, text)
                words |= {*re.findall(r"[a-z]+\d+", text)}
                if at == interrupted:
                    terminal = between(terminal, kept)
            try:
                terminal.wait(f"the words on disk: {way}, interrupted after {interrupted}", kept)
            except AssertionError as error:
                error.add_note(f"not on disk: {lost()}")
                raise
    finally:
        terminal.child.close(force=True)
