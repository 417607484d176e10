"""What puts the terminal in order when spectui could not: it died of what cannot be caught, a `kill -9` or a fault in
llama.cpp, or it ended while the terminal took nothing.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# What is half drawn is shown; the mouse, focus, pasting, sizes, wrapping, kitty's keys; then the other screen, the cursor and
# the colours.
_AS_BEFORE = (
    "\x1b[?2026l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?7h\x1b[<u"
    "\x1b[?1049l\x1b[?25h\x1b[0m"
)

# Its input ends when the process does, and before the shell above hears of it. A shell may by then have begun to edit a
# line, with the modes that it needs: those have isig, which Textual takes away.
_SCRIPT = """
trap '' INT QUIT TERM HUP TSTP TTOU
read -r how
case $how in restored) exit ;; unheard) set -- "$1" ;; esac
printf '%s' "$1$2"
exec 3<&1
case $(stty -a <&3) in *-isig*) stty sane <&3 ;; esac
"""

PATIENCE_S = 1.0
"""How long to wait for the shell, which may have to wait for the terminal."""


@contextmanager
def guarded(words: str) -> Iterator[None]:
    """Restore the terminal should nobody else, and write `words` there if the process dies. Costs a shell of a megabyte.

    Whoever gives the terminal up, with modes that are still to be restored, puts the null device in standard error's place.
    """
    if sys.platform == "win32":
        yield
        return
    command = ["sh", "-c", _SCRIPT, "spectui-guard", _AS_BEFORE, f"{words}\n"]
    try:
        guard = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:  # it would only have helped after a crash
        yield
        return
    drawn_on = _on_terminal()
    try:
        yield
    finally:
        given_up = drawn_on and not _on_terminal()
        with suppress(OSError, subprocess.TimeoutExpired):
            guard.communicate(b"unheard\n" if given_up else b"restored\n", PATIENCE_S)


def _on_terminal() -> bool:
    return sys.__stderr__ is not None and sys.__stderr__.isatty()
