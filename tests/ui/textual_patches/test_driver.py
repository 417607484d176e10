"""What a terminal sends, in whatever pieces: pasted text is text, and only what was typed is a key."""

import os
import time
import tty
from collections.abc import Iterator, Sequence
from select import select
from threading import Event
from unittest.mock import Mock, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events

from spectui.text import printable
from spectui.ui.textual_patches.driver import TerminalDriver
from spectui.ui.textual_patches.typed import InputParser, lines_as_text
from tests.helpers.terminal import Terminal

START, END = "\x1b[200~", "\x1b[201~"

# Text in which what could be read as something else is likely.
PIECES = ["\x1b", "\x1b[", "\x1bO", "[", "~", "\r", "\x11", "\x03", "\x9b", START, END[:-1],
          "\x1b[13u", "\x1b[9999999u", "\x1b[<0;3;3M", "\x1b[48;0;0;0;0t"]  # fmt: skip
evil = st.lists(st.sampled_from(PIECES) | st.text(max_size=40)).map("".join)
pasted = evil.filter(lambda text: END not in text + END[:-1])


def events_of(pieces: Sequence[str], *, slow: bool) -> Iterator[object]:
    """The events, with a second between two pieces if `slow`: longer than anybody waits for the rest of a sequence."""
    now = 0.0
    with patch("textual._parser.get_time", lambda: now):
        parser = InputParser()
        for piece in pieces:
            yield from parser.feed(piece)
            now += slow
            yield from parser.tick()


def cut(text: str, places: Sequence[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def told(events_: Iterator[object]) -> list[str]:
    return [event.text if isinstance(event, events.Paste) else type(event).__name__ for event in events_]


@given(pasted, st.lists(st.integers(0, 500), max_size=20), st.booleans())
def test_nothing_that_is_pasted_is_a_key(text: str, places: list[int], slow: bool) -> None:
    """However it is cut; and behind it, a key is a key again."""
    pieces = [*cut(text + END, places), "\x1b[15~"]
    assert told(events_of(["a", START, *pieces], slow=slow)) == ["Key", printable(text), "Key"]


@given(pasted, st.integers(1, len(START) - 1), st.booleans())
def test_a_marker_that_comes_in_two_pieces(text: str, place: int, slow: bool) -> None:
    """If it takes its time, what came of it is typed; what follows is pasted nevertheless."""
    *before, paste = told(events_of([START[:place], START[place:] + text + END[:place], END[place:]], slow=slow))
    assert paste == printable(text)
    assert before == [] or slow


@given(pasted, pasted)
def test_two_pastes_at_once(first: str, second: str) -> None:
    assert told(events_of([START + first + END + START + second + END + "x"], slow=False)) == [
        printable(first), printable(second), "Key"]  # fmt: skip


@given(evil)
def test_whatever_is_typed_breaks_nothing(text: str) -> None:
    told(events_of(cut(text, range(0, 500, 7)), slow=False))


@pytest.mark.parametrize("key", "0123456789")
def test_alt_and_a_digit_is_a_key_and_no_sign(key: str) -> None:
    (event,) = events_of(["\x1b" + key], slow=True)
    assert isinstance(event, events.Key) and event.key == f"alt+{key}"


@pytest.mark.parametrize(
    ("typed", "told_"),
    [
        ("one\rtwo\r\n\tthree\n\r", ["one\ntwo\n\tthree", "ctrl+j", "enter"]),
        ("one\r\ntwo\r\n", ["one\ntwo", "enter"]),
        ("\r\rx", ["\n\nx"]),
        ("hi\r", ["h", "i", "enter"]),
        ("hi\r\x1b[A", ["h", "i", "enter", "up"]),
        ("a\tb\t\tc", ["a\tb\t\tc"]),
        ("@s\tx", ["at", "s", "tab", "x"]),
        ("/he\tx", ["slash", "h", "e", "tab", "x"]),
        ("ab\t", ["a", "b", "tab"]),
        ("a\u3000b", ["a\u3000b"]),
        ("\u00a0", ["\u00a0"]),
        ("\U0001f469\u200d\U0001f467", ["\U0001f469\u200d\U0001f467"]),
        ("one\u2028two\rx", ["one\ntwo\nx"]),
        (f"a\r{START}b\rc{END}d\r", ["a\n", "b\nc", "d", "enter"]),
    ],
)
def test_an_enter_with_text_behind_it_is_a_new_line(typed: str, told_: list[str]) -> None:
    came = lines_as_text(events_of([typed], slow=True))  # type: ignore[arg-type]
    assert [each.text if isinstance(each, events.Paste) else each.key for each in came] == told_  # type: ignore[attr-defined]


LINES = [f"line {number}" for number in range(6)]


@pytest.mark.usefixtures("fresh_directories")
def test_in_a_terminal() -> None:
    """Lines in one piece are one prompt; a line with its Enter in one piece, as a program writes it, is sent; Escape acts at
    once; nothing in a paste is a key."""
    with Terminal("chat", "-m", "/models/some.gguf", module="tests.helpers.scripted") as terminal:
        terminal.wait_for_window()
        terminal.type("\r".join(["short", *LINES]) + "\r")
        prompt = " ".join(["short", *LINES])
        terminal.wait("one prompt", lambda: prompt in " ".join(" ".join(e[:60].split()) for e in terminal.screen.display))
        terminal.wait("its reply", lambda: "9 -" in terminal.text)
        terminal.type("short one\r")
        terminal.wait("a prompt that a program sends", lambda: "short one" in terminal.text and terminal.text.count("9 -") == 2)
        terminal.type("go\r")
        terminal.wait("a reply", lambda: "30 -" in terminal.text)
        terminal.type("\x1b5")
        terminal.wait("the page of settings", lambda: "top-k" in terminal.text)
        terminal.press("escape")
        terminal.wait("the way back to the prompt", lambda: "Send" in terminal.screen.display[-1])
        terminal.press("escape")
        time.sleep(0.25)  # what is tried: a person's next key, sooner than the half second that Esc was held back for
        terminal.type("5 words please")
        terminal.wait("the stop", lambda: "stopped" in terminal.text)
        terminal.wait("the sentence", lambda: "5 words please" in terminal.text)
        terminal.paste("\x1b" + "pasted text\r" * 4 + "\x11" * 40 + "behind it")
        terminal.wait("the text, not sent", lambda: "behind it" in terminal.text)
        terminal.child.send(b"\xff\x80\x1b[9999999u still typing")
        terminal.wait("a box to type in", lambda: "still typing" in terminal.text)
        terminal.leave()


@pytest.mark.parametrize("ends", [False, True])
def test_what_comes_while_the_window_leaves_the_terminal_stays_there(ends: bool) -> None:
    """For the editor, or for the window when it is back. At the end of the app it would be in the shell's line."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    driver = TerminalDriver.__new__(TerminalDriver)
    thread = Mock(join=lambda: os.write(ours, b"late"))
    vars(driver).update(fileno=theirs, exit_event=Event(), _mouse=False, _app=Mock(is_running=not ends), _key_thread=thread)
    driver.disable_input()
    assert bool(select([theirs], [], [], 0)[0]) is not ends


def test_a_line_that_was_read_last_is_not_lost() -> None:
    """It waits for what may follow it."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    os.write(ours, b"text\r")
    driver = TerminalDriver.__new__(TerminalDriver)
    ended = Mock(is_set=Mock(side_effect=[False, True]))
    vars(driver).update(fileno=theirs, exit_event=ended, _debug=False, _output=Mock(encoding="utf-8"))
    read: list[str] = []
    with patch.object(TerminalDriver, "process_message", lambda driver, event: read.append(event.key)):
        driver.run_input_thread()
    assert read == [*"text", "enter"]
