"""The chat as textual-serve runs it: no terminal, frames on standard output, packets on standard input."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

DRIVER = "textual.drivers.web_driver:WebDriver"
COLOURS = re.compile(rb"\x1b\[[0-9;]*m")


class Window:
    """What the window says, read up to the words that are waited for; what follows them is kept for the next wait."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._input: IO[bytes] = process.stdin
        self._output: IO[bytes] = process.stdout
        self._unread = b""

    def send(self, kind: bytes, data: bytes) -> None:
        """Send a packet as textual-serve does."""
        self._input.write(kind + len(data).to_bytes(4, "big") + data)
        self._input.flush()

    def tell(self, what: str) -> None:
        """Send a message of the page's own."""
        self.send(b"M", json.dumps({"type": what}).encode())

    def until(self, words: bytes) -> None:
        """Read until it says this."""
        while words not in (said := COLOURS.sub(b"", self._unread)):
            more = os.read(self._output.fileno(), 1 << 16)
            assert more, f"it ended before {words!r}: {said[-300:]!r}"
            self._unread += more
        self._unread = said.partition(words)[2]


@contextmanager
def opened() -> Iterator[Window]:
    """A window that waits for the first prompt, and quits in the end."""
    environment = os.environ | {"TEXTUAL_DRIVER": DRIVER, "COLUMNS": "100", "ROWS": "30"}
    command = [sys.executable, "-m", "tests.helpers.scripted", "chat", "--no-history", "-m", "scripted.gguf"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    patience = threading.Timer(300, process.kill)
    patience.start()
    try:
        window = Window(process)
        window.until(b"sk something")
        yield window
        window.tell("quit")
        assert process.wait() == 0
    finally:
        patience.cancel()
        process.kill()
        process.communicate()


def test_it_answers_what_is_typed_in_haste_or_pasted() -> None:
    with opened() as window:
        # The window has not been told that it has the focus: a page that was clicked while it was loading never tells.
        for character in b"a short one\r":
            window.send(b"D", bytes([character]))
        window.until(b"8 - 9 - ")
        window.tell("blur")
        window.send(b"D", b"\x1b[200~another short one\x1b[201~")
        window.send(b"D", b"\r")
        window.until(b"another short one")
        window.until(b"8 - 9 - ")


def test_the_first_focus_goes_to_the_prompt_box() -> None:
    with opened() as window:
        window.tell("focus")
        window.until(b" Send ")  # what the key line offers in the prompt box alone
