"""What the terminal sent, as events: keys, and pastes as text, whatever is in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

from spectui.text import printable


def lines_as_text(messages: Iterable[Message]) -> Iterator[Message]:
    """What came at once, as events: an Enter with text behind it is a line's end of pasted text, and so is a Tab there.

    Terminals without bracketed pastes type what is pasted. An Enter at the end is a key: so programs send a prompt. Textual
    ignores keys that give no visible sign (a Japanese blank, what joins the parts of an emoji), so they are pasted.
    """
    came = list(messages)
    last = max((at for at, each in enumerate(came) if isinstance(each, events.Paste) or _is_text(each)), default=-1)
    before: Message | None = None
    lines: list[events.Key] = []
    for at, each in enumerate(came):
        if at <= last and isinstance(each, events.Key) and (_is_text(each) or each.key in _BLANKS):
            lines.append(each)
        else:
            yield from _pasted(lines)
            lines = []
            crlf = is_key(before, "enter") and is_key(each, "ctrl+j")
            if not crlf:
                yield each
        before = each
    yield from _pasted(lines)


_BLANKS = {"enter": "\n", "ctrl+j": "\n", "tab": "\t"}


def is_key(message: Message | None, key: str) -> bool:
    return isinstance(message, events.Key) and message.key == key


def _is_text(message: Message) -> bool:
    return (
        isinstance(message, events.Key)
        and bool(message.character)
        and printable(message.character or "") in (message.character, "\n")
        and message.key not in _BLANKS
        and not message.key.startswith(("alt+", "ctrl+"))
    )


def _pasted(keys: list[events.Key]) -> Iterable[Message]:
    """These keys, or one paste if there are several lines of them, or what keys cannot type."""
    text = "".join(each.character or "" for each in keys)
    tabs = re.search(r"[^\t]\t+[^\t]", text) and not re.search(r"(^/|@)\S*\t", text)  # a Tab completes a name
    if tabs or any(each.key in ("enter", "ctrl+j") or not (each.is_printable or each.key == "tab") for each in keys):
        return [events.Paste(printable(text))]
    return keys


class InputParser(XTermParser):
    """Makes one `Paste` of all text between a paste's two markers, however reads cut it. Nothing in it becomes a key.

    An end marker within the pasted text cannot be told from the terminal's own; terminals remove it.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._before = ""
        self._pasted: str | None = None

    @property
    def in_paste(self) -> bool:
        """The end of a paste has not come yet."""
        return self._pasted is not None

    def feed(self, data: str) -> Iterator[Message]:
        """Give the events of these characters."""
        while data:
            if self._pasted is None:
                character, data = data[0], data[1:]
                try:
                    yield from super().feed(character)
                except (ValueError, ArithmeticError):  # an invalid character or size
                    self._forget()
                self._before = (self._before + character)[-len(BRACKETED_PASTE_START) :]
                if self._before == BRACKETED_PASTE_START:
                    self._pasted = ""
                    self._forget()
            else:
                seen = max(0, len(self._pasted) - len(BRACKETED_PASTE_END) + 1)
                self._pasted += data
                data = ""
                if (end := self._pasted.find(BRACKETED_PASTE_END, seen)) >= 0:
                    pasted, data = self._pasted[:end], self._pasted[end + len(BRACKETED_PASTE_END) :]
                    self._pasted, self._before = None, ""
                    yield events.Paste(printable(pasted))

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        """Read an escape with a digit or letter as Alt with that key. Textual reads digits as the signs of one terminal, and
        loses the Alt of a letter that repeats fast."""
        if re.fullmatch("\x1b[0-9a-z]", sequence) and not isinstance(ANSI_SEQUENCES_KEYS.get(sequence), tuple):
            sequence, alt = sequence[1], True
        return super()._sequence_to_key_events(sequence, alt)

    def _forget(self) -> None:
        """Reset the parser, behind a paste's first marker or after an error."""
        self._gen = self.parse(self._tokens.append)
        self._awaiting = next(self._gen)
        self._timeout_time = None
