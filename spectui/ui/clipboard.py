"""Copying to the clipboard in whatever way there is, and what is known about whether it came there.

The terminal's own way (OSC 52) tells nothing back: tmux drops it by default, and the Linux console has no clipboard.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from spectui import paths
from spectui.atomic import write_atomic

PATIENCE_S = 2.0
"""How long a program may take: one for a display that does not answer would wait for ever."""

Known = Literal["copied", "tmux", "sent", "file"]
"""A program has it; tmux has it and told the terminal; the terminal was told; it is in a file."""


class Program(NamedTuple):
    """A command that takes a text on its standard input, and how it wants it encoded."""

    command: tuple[str, ...]
    encoding: str = "utf-8"


TMUX = Program(("tmux", "load-buffer", "-w", "-"))


def programs(environment: Mapping[str, str]) -> list[Program]:
    """The programs for the clipboard of the person at the keyboard. Over ssh, the machine's own is another's."""
    found: list[Program] = []
    if not {"SSH_CONNECTION", "SSH_TTY"} & environment.keys():
        if environment.get("WAYLAND_DISPLAY"):
            found.append(Program(("wl-copy",)))
        if sys.platform == "darwin":
            found.append(Program(("pbcopy",)))
        if sys.platform == "win32" or environment.get("WSL_DISTRO_NAME"):
            found.append(Program(("clip.exe",), "utf-16"))
    if environment.get("DISPLAY"):  # over ssh it is a forwarded one
        found += [Program(("xclip", "-selection", "clipboard")), Program(("xsel", "--clipboard", "--input"))]
    return [each for each in found if shutil.which(each.command[0])]


async def copy(text: str, send: Callable[[], None], environment: Mapping[str, str] = os.environ) -> tuple[Known, Path | None]:
    """Copy the text, without blocking the window. `send` tells the terminal. Raises OSError if not even a file can be."""
    in_tmux = bool(environment.get("TMUX")) and await _ran(TMUX, text)
    for program in programs(environment):
        if await _ran(program, text):
            return "copied", None
    if in_tmux:
        return "tmux", None
    if environment.get("TERM", "").partition("-")[0] == "linux":
        file = paths.state_directory() / "copied.txt"
        await asyncio.to_thread(write_atomic, file, text.encode("utf-8", "replace"))
        return "file", file
    send()
    return "sent", None


async def _ran(program: Program, text: str) -> bool:
    def run() -> bool:
        try:
            # xclip and wl-copy go on, and give the text to programs that paste: they must not hold this process's streams.
            done = subprocess.run(
                program.command, input=text.encode(program.encoding, "replace"), stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=PATIENCE_S, start_new_session=True, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    return await asyncio.to_thread(run)
