"""Key to screen while a reply streams: how long until a typed letter stands in the prompt box.

    python -m tests.benchmarks.ui_latency [-n KEYS] [--busy N] [arguments of spectui chat]
    python -m tests.benchmarks.ui_latency --long [TOKENS]

The second runs on a fake engine that writes 1,000 tokens a second, behind a transcript of 100,000 tokens, and prints besides
what a frame costs there and in an empty transcript, and the memory that a token takes.

`--busy`: so many processes compute without end beside the chat.

By hand, on a quiet machine: the terminal emulator runs beside the chat and takes its share of the cores, so what it
prints is an upper bound. The time is from the write into the pseudo-terminal to the moment at which the emulated screen
shows the letter.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from spectui.measure.quiet import Stolen
from tests.helpers.terminal import Terminal, demo_flags

CHAT = (*demo_flags(), "-t", "1", "--temp", "0", "-n", "2000", "--policy", "fixed", "--drafter", "model")


ENDED_S = 1.0
"""Seconds without a new token after which a reply has ended."""


def prompt_row(terminal: Terminal) -> str:
    """The row above the footer, as far as the transcript is wide."""
    row: str = terminal.screen.display[-2]
    return row[:70].strip()


def context(terminal: Terminal) -> str:
    """What the title says of the context: it changes while a reply is written."""
    title: str = terminal.screen.display[0]
    return title.partition("ctx ")[2]


def differs(terminal: Terminal, known: str) -> bool:
    """Whether the title says another context than this."""
    return context(terminal) != known


def measure(terminal: Terminal, keys: int) -> list[float]:
    """Seconds from key to screen, for as many keys as fit into replies."""
    seconds: list[float] = []
    typed, known, grew = "", context(terminal), 0.0
    while len(seconds) < keys:
        if time.monotonic() - grew > ENDED_S:
            if typed:
                terminal.type("\x7f" * len(typed))
                typed = ""
            terminal.type("Write a long story about the sea.\r")
            terminal.wait("a reply", partial(differs, terminal, context(terminal)))
        if len(typed) >= 60:
            terminal.type("\x7f" * len(typed))
            typed = ""
            terminal.wait("an empty box", lambda: prompt_row(terminal) in ("", "Ask something"))
        # Not at the same phase of the drain each time.
        pause = time.monotonic() + 0.05 + 0.033 * (len(seconds) * 0.618 % 1)
        while (left := pause - time.monotonic()) > 0:
            terminal.read(left)
        typed += string.ascii_lowercase[len(seconds) % 26]
        start = time.monotonic()
        terminal.type(typed[-1])
        terminal.wait("the letter", partial(shows, terminal, typed))
        seconds.append(time.monotonic() - start)
        if context(terminal) != known:
            known, grew = context(terminal), time.monotonic()
    return seconds


def long(tokens: int, keys: int) -> list[float]:
    """Seconds from key to screen behind so many tokens; prints what the window says of itself."""
    with tempfile.TemporaryDirectory() as directory:
        results = Path(directory) / "results"
        with Terminal(str(tokens), str(results), module="tests.benchmarks.ui_stream", emulated=False) as terminal:
            terminal.wait("the window", lambda: b"sk something" in terminal.raw)
            terminal.type("go\r")
            terminal.wait("figures", lambda: results.exists() and len(results.read_text().splitlines()) == 3, 600)
            for line in results.read_text().splitlines():
                print(
                    {name: each if isinstance(each, str) else round(each, 1) for name, each in json.loads(line).items()}
                )
            # Each letter stands alone in what is written for it, since the box is drawn for nothing else meanwhile.
            seconds = []
            for number in range(keys):
                pause = time.monotonic() + 0.05 + 0.033 * (number * 0.618 % 1)
                while (left := pause - time.monotonic()) > 0:
                    terminal.read(left)
                letter = string.ascii_uppercase[number % 26]
                before, start = len(terminal.raw), time.monotonic()
                terminal.type(letter)
                terminal.wait("the letter", partial(wrote, terminal, before, letter))
                seconds.append(time.monotonic() - start)
            terminal.press("escape", "ctrl+q")
            terminal.end()
    return seconds


def shows(terminal: Terminal, typed: str) -> bool:
    """Whether this, and nothing else, stands in the prompt box."""
    return prompt_row(terminal) == typed


def wrote(terminal: Terminal, start: int, letter: str) -> bool:
    """Whether a letter was drawn since so many bytes. The fake engine writes none of these, and no figure has one."""
    return letter.encode() in re.sub(rb"\x1b\[[\d;?<>=]*[A-Za-z]", b"", terminal.raw[start:])


@contextmanager
def neighbours(number: int) -> Iterator[None]:
    """Run so many processes that each want a whole core."""
    children = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--keys", type=int, default=200)
    parser.add_argument("--busy", type=int, default=0, help="processes that compute without end beside it")
    parser.add_argument("--long", type=int, nargs="?", const=100_000, help="tokens, on a fake engine")
    options, extra = parser.parse_known_args()
    stolen = Stolen()
    if options.long:
        seconds = sorted(long(options.long, options.keys))
    else:
        with Terminal("chat", *CHAT, *extra) as terminal:
            terminal.wait("the window", lambda: "Ask something" in terminal.text)
            with neighbours(options.busy):
                seconds = sorted(measure(terminal, options.keys))
            terminal.press("ctrl+q")
            terminal.end()
    cuts = statistics.quantiles(seconds, n=100)
    print(
        f"{len(seconds)} keys: p50 {1000 * cuts[49]:.1f} ms, p95 {1000 * cuts[94]:.1f} ms, "
        f"worst {1000 * seconds[-1]:.1f} ms; {os.cpu_count()} cores, of which {stolen}"
    )


if __name__ == "__main__":
    main()
