"""The chat as textual-serve runs it: no terminal, frames on standard output, packets on standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

DRIVER = "textual.drivers.web_driver:WebDriver"


def packet(kind: bytes, data: bytes) -> bytes:
    """As textual-serve sends it."""
    return kind + len(data).to_bytes(4, "big") + data


def test_the_window_is_drawn_and_quits_without_a_terminal() -> None:
    environment = os.environ | {"TEXTUAL_DRIVER": DRIVER, "COLUMNS": "100", "ROWS": "30"}
    command = [sys.executable, "-m", "tests.scripted", "chat", "--no-history", "-m", "scripted.gguf"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    patience = threading.Timer(50, process.kill)
    patience.start()
    try:
        assert process.stdin is not None and process.stdout is not None
        until(process, b"sk something")
        process.stdin.write(packet(b"M", json.dumps({"type": "quit"}).encode()))
        process.stdin.flush()
        assert process.wait() == 0
    finally:
        patience.cancel()
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[bytes], words: bytes) -> None:
    """Read until the window says this."""
    seen = b""
    assert process.stdout is not None
    while words not in seen:
        more = os.read(process.stdout.fileno(), 1 << 16)
        assert more, f"it ended before {words!r}: {seen[-300:]!r}"
        seen += more
