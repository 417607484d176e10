"""The program as a person starts it: in a process of its own."""

import subprocess
import sys
from typing import Any

PROGRAM = (sys.executable, "-c", "from spectui.cli import main; main()")


def spectui(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run it to its end."""
    options = {"stdin": subprocess.DEVNULL} | options if "input" not in options else options
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, timeout=300, check=False, **options)


def one_sentence(done: subprocess.CompletedProcess[bytes], code: int) -> str:
    """What it complained, after checking that this is one line and no traceback."""
    message = done.stderr.decode()
    assert done.returncode == code, message
    assert message.startswith("spectui: ")
    assert message.count("\n") == 1
    assert done.stdout == b""
    return message
