"""What puts the terminal in order when spectui dies of what cannot be caught: a `kill -9`, a fault in llama.cpp."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# The mouse, focus, pasting, sizes, wrapping, kitty's keys; then the other screen, the cursor and the colours.
_AS_BEFORE = (
    "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?7h\x1b[<u"
    "\x1b[?1049l\x1b[?25h\x1b[0m"
)

# Its input ends when the process does, and before the shell above hears of it. A shell may by then have begun to edit a
# line, with the modes that it needs: those have isig, which Textual takes away.
_SCRIPT = """
trap '' INT QUIT TERM HUP TSTP TTOU
read -r _ && exit
printf '%s' "$1"
exec 3<&1
case $(stty -a <&3) in *-isig*) stty sane <&3 ;; esac
"""


@contextmanager
def guarded(words: str) -> Iterator[None]:
    """Restore the terminal, and write `words` there, should the process die meanwhile. Costs a shell of a megabyte."""
    if sys.platform == "win32":
        yield
        return
    command = ["sh", "-c", _SCRIPT, "spectui-guard", f"{_AS_BEFORE}{words}\n"]
    try:
        guard = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:  # it would only have helped after a crash
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            guard.communicate(b"\n")
