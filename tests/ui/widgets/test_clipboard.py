"""What is copied comes to the first clipboard that takes it, and no more is said than is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spectui.ui import clipboard
from spectui.ui.clipboard import copy
from tests.ui.pilot_helpers import Window, notified

TEXT = "é\nzwei"


class Machine:
    """Programs in a directory of their own, each keeping what it is given."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def has(self, name: str, script: str = 'cat > "$0.took"') -> None:
        file = self.directory / name
        file.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        file.chmod(0o755)

    def took(self, name: str) -> bytes:
        return (self.directory / f"{name}.took").read_bytes()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path / "state"))
    return Machine(tmp_path)


async def copied(environment: dict[str, str]) -> tuple[str, bool]:
    """What is known, and whether the terminal was told."""
    sent: list[bool] = []
    known, _ = await copy(TEXT, lambda: sent.append(True), environment)
    return known, bool(sent)


async def test_tmux_and_a_display(machine: Machine) -> None:
    machine.has("tmux", 'echo "$@" > "$0.args"; cat > "$0.took"')
    assert await copied({"TMUX": "x"}) == ("tmux", False)
    assert machine.took("tmux") == TEXT.encode()
    assert (machine.directory / "tmux.args").read_text() == "load-buffer -w -\n"
    machine.has("xclip")
    assert await copied({"TMUX": "x", "DISPLAY": ":0"}) == ("copied", False)
    assert machine.took("xclip") == TEXT.encode()


async def test_an_old_tmux_and_a_display_that_is_missing_windows_and_a_machine_behind_ssh(machine: Machine) -> None:
    machine.has("tmux", "exit 1")
    machine.has("xclip", "echo no display >&2; exit 1")
    assert await copied({"TMUX": "x", "DISPLAY": ":0"}) == ("sent", True)
    machine.has("clip.exe")
    assert await copied({"WSL_DISTRO_NAME": "x"}) == ("copied", False)
    assert machine.took("clip.exe").decode("utf-16") == TEXT
    machine.has("wl-copy")
    assert await copied({"SSH_TTY": "/dev/pts/1", "WAYLAND_DISPLAY": "w", "TERM": "xterm"}) == ("sent", True)


async def test_a_program_that_hangs_is_given_up(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipboard, "PATIENCE_S", 0.05)
    machine.has("wl-copy", "exec sleep 60")
    machine.has("xsel")
    assert await copied({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}) == ("copied", False)


async def test_a_console_without_any_gets_a_file(machine: Machine) -> None:
    known, file = await copy(TEXT, lambda: None, {"TERM": "linux"})
    assert known == "file" and file is not None and file.read_text() == TEXT and os.stat(file).st_mode & 0o77 == 0


async def test_what_is_said(window: Window, engine: object) -> None:
    async with window(notifications=True) as (app, pilot):
        app.copy_to_clipboard("x", "code block 1 of 1, 1 line")
        await pilot.pause()
        assert notified(app)[-1] == "Sent to the terminal's clipboard: code block 1 of 1, 1 line."
        app.copy_to_clipboard("y")
        await pilot.pause()
        assert app.clipboard == "y" and len(notified(app)) == 1
