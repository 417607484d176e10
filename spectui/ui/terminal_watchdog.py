"""Restores the terminal if spectui could not: after `kill -9`, a crash in llama.cpp, or an end while the terminal accepted
no output.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Ends: synchronised output, mouse, focus, paste and size reports, no wrapping, kitty's keys; then the alternate screen, the
# hidden cursor and colours.
_AS_BEFORE = (
    "\x1b[?2026l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?7h\x1b[<u"
    "\x1b[?1049l\x1b[?25h\x1b[0m"
)

# Its input ends with the process, before the parent shell knows. That shell may have begun to edit a line, with modes of its
# own: they have isig, which Textual's do not.
_SCRIPT = """
trap '' INT QUIT TERM HUP TSTP TTOU
read -r how
case $how in restored) exit ;; unheard) set -- "$1" ;; esac
printf '%s' "$1$2"
exec 3<&1
case $(stty -a <&3) in *-isig*) stty sane <&3 ;; esac
"""

PATIENCE_S = 1.0
"""Seconds to wait for the watchdog's shell, which may wait for the terminal."""


@contextmanager
def terminal_restored(words: str) -> Iterator[None]:
    """Restore the terminal if this process dies, and write `words` there. Costs a shell of one megabyte.

    If standard error is the null device at the end, the terminal was given up and its modes are restored too.
    """
    if sys.platform == "win32":
        yield
        return
    command = ["sh", "-c", _SCRIPT, "spectui-watchdog", _AS_BEFORE, f"{words}\n"]
    try:
        watchdog = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:  # it is needed only after a crash
        yield
        return
    drawn_on = _on_terminal()
    try:
        yield
    finally:
        given_up = drawn_on and not _on_terminal()
        with suppress(OSError, subprocess.TimeoutExpired):
            watchdog.communicate(b"unheard\n" if given_up else b"restored\n", PATIENCE_S)


def _on_terminal() -> bool:
    return sys.__stderr__ is not None and sys.__stderr__.isatty()
