"""Key to screen while a reply streams: how long until a typed letter stands in the prompt box.

    python -m tests.benchmarks.ui_latency [--long TOKENS] [-n KEYS]

A fake engine writes 1,000 tokens a second, behind a transcript of 100,000 tokens. Printed besides: what a frame costs there
and in an empty transcript, and the memory that a token takes. The time is from the write into the pseudo-terminal to the
moment at which the program has written the letter.
"""

import argparse
import json
import os
import re
import statistics
import string
import tempfile
import time
from functools import partial
from pathlib import Path

from spectui.measure.quiet import Stolen
from tests.helpers.terminal import Terminal


def long(tokens: int, keys: int) -> list[float]:
    """Seconds from key to screen behind so many tokens; prints what the window says of itself."""
    with tempfile.TemporaryDirectory() as directory:
        results = Path(directory) / "results"
        with Terminal(str(tokens), str(results), module="tests.benchmarks.ui_stream", emulated=False) as terminal:
            terminal.wait("the window", lambda: b"sk something" in terminal.raw)
            terminal.type("go\r")
            terminal.wait("figures", lambda: results.exists() and len(results.read_text().splitlines()) == 3, 600)
            for line in results.read_text().splitlines():
                print({name: each if isinstance(each, str) else round(each, 1) for name, each in json.loads(line).items()})
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


def wrote(terminal: Terminal, start: int, letter: str) -> bool:
    """Whether a letter was drawn since so many bytes. The fake engine writes none of these, and no figure has one."""
    return letter.encode() in re.sub(rb"\x1b\[[\d;?<>=]*[A-Za-z]", b"", terminal.raw[start:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--keys", type=int, default=200)
    parser.add_argument("--long", type=int, nargs="?", default=100_000, const=100_000, help="tokens before it")
    options = parser.parse_args()
    stolen = Stolen()
    seconds = sorted(long(options.long, options.keys))
    cuts = statistics.quantiles(seconds, n=100)
    print(
        f"{len(seconds)} keys: p50 {1000 * cuts[49]:.1f} ms, p95 {1000 * cuts[94]:.1f} ms, "
        f"worst {1000 * seconds[-1]:.1f} ms; {os.cpu_count()} cores, of which {stolen}"
    )


if __name__ == "__main__":
    main()
