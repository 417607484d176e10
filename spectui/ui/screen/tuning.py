"""Alt+R: `spectui tune` in the terminal, for the loaded models. The chat's own are freed meanwhile."""

from __future__ import annotations

import asyncio
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.app import SuspendNotSupported

from spectui.chat.text.editor import in_terminal
from spectui.knobs import Knobs, Setup, spec_of
from spectui.profiles.file import ProfileFile
from spectui.profiles.setup_line import flags_of
from spectui.text import printable
from spectui.ui.screen.window import Window

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
"""The knobs that it takes from the chat. The other ones are what it varies, or would make it too long."""

NO_TERMINAL = "This is no terminal of its own: run {line} --save NAME."

_BEGINS = "print({line!r}, 'Ctrl+C ends it sooner. The chat waits, and its models are freed.', sep=chr(10))"
_ENDS = "try: input('Enter goes back to the chat. ')\nexcept (EOFError, KeyboardInterrupt): pass"
_NAME = "tuned"
_POLL_S = 0.1


def command(setup: Setup, knobs: Knobs) -> str:
    """The command that finds the best settings for this set-up, and samples as the chat does."""
    words = ["spectui", "tune"]
    for flag, value in (("-m", setup.model), ("-md", setup.draft), ("--system", setup.system)):
        words += [flag, value] if value else []
    for key in _SAMPLING:
        if getattr(knobs, key) != getattr(Knobs(), key):
            words += [spec_of(Knobs, key).flags[0], str(getattr(knobs, key))]
    return f"{shlex.join(words)} {flags_of(setup)}".rstrip()


async def tune(window: Window) -> Mapping[str, Any]:
    """Free the models and find their best settings in the terminal: the knobs, or none if it ended too early. The models are
    not loaded again."""
    models, line = window.session.models, command(window.session.setup, window.session.knobs)
    no_terminal = NO_TERMINAL.format(line=printable(line))
    if window.app.is_web:
        window.say(no_terminal)
        return {}
    models.unload()
    window.show_state()
    while models.measured and not models.unloaded:
        await asyncio.sleep(_POLL_S)
    with tempfile.TemporaryDirectory(prefix="spectui-", ignore_cleanup_errors=True) as directory:
        file = Path(directory) / "config.toml"
        file.touch()
        python = shlex.quote(sys.executable)
        own = f"{python} -m {line} --config {shlex.quote(str(file))} --save {_NAME}"
        begins, ends = (f"{python} -c {shlex.quote(code)}" for code in (_BEGINS.format(line=printable(line)), _ENDS))
        try:
            in_terminal([begins, own, ends], window.app.suspend())
        except SuspendNotSupported:
            window.say(no_terminal)
        profiles = ProfileFile(file)
        return profiles.load(_NAME) if _NAME in profiles.names() else {}
