"""The chat as textual-serve runs it: no terminal, frames on standard output, packets on standard input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading

DRIVER = "textual.drivers.web_driver:WebDriver"
COLOURS = re.compile(rb"\x1b\[[0-9;]*m")


def packet(kind: bytes, data: bytes) -> bytes:
    """As textual-serve sends it."""
    return kind + len(data).to_bytes(4, "big") + data


def test_the_window_is_drawn_answers_what_is_typed_in_haste_or_pasted_and_quits_without_a_terminal() -> None:
    environment = os.environ | {"TEXTUAL_DRIVER": DRIVER, "COLUMNS": "100", "ROWS": "30"}
    command = [sys.executable, "-m", "tests.scripted", "chat", "--no-history", "-m", "scripted.gguf"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    patience = threading.Timer(50, process.kill)
    patience.start()
    try:
        assert process.stdin is not None and process.stdout is not None

        def send(kind: bytes, data: bytes) -> None:
            assert process.stdin is not None
            process.stdin.write(packet(kind, data))
            process.stdin.flush()

        until(process, b"sk something")
        # The window has not been told that it has the focus: a page that was clicked while it was loading never tells.
        for character in b"a short one\r":
            send(b"D", bytes([character]))
        until(process, b"8 - 9 - ")
        send(b"M", json.dumps({"type": "blur"}).encode())
        send(b"D", b"\x1b[200~another short one\x1b[201~")
        send(b"D", b"\r")
        until(process, b"another short one")
        until(process, b"8 - 9 - ")
        send(b"M", json.dumps({"type": "blur"}).encode())
        send(b"M", json.dumps({"type": "focus"}).encode())
        until(process, b" Send ")  # what the key line offers in the prompt box
        send(b"M", json.dumps({"type": "quit"}).encode())
        assert process.wait() == 0
    finally:
        patience.cancel()
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[bytes], words: bytes) -> None:
    """Read until the window says this."""
    seen = b""
    assert process.stdout is not None
    while words not in COLOURS.sub(b"", seen):
        more = os.read(process.stdout.fileno(), 1 << 16)
        assert more, f"it ended before {words!r}: {seen[-300:]!r}"
        seen += more
