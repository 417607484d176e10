"""The prompt in a person's own editor."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from pathlib import Path

import pytest

from spectui.chat.text.editor import EditorError, edited

ENDING = (signal.SIGINT, signal.SIGTERM)


def test_what_an_editor_of_windows_saves_has_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf '\\357\\273\\277one\\r\\ntwo\\r\\n' > \"$1\"\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    assert edited("before", nullcontext()) == "one\ntwo"


def test_ctrl_c_is_the_editors_and_a_signal_that_ends_spectui_ends_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nkill -INT $PPID\nkill -TERM $PPID\nexec sleep 600\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    caught: list[int] = []
    before = [signal.signal(number, lambda number, frame: caught.append(number)) for number in ENDING]
    try:
        with pytest.raises(EditorError, match="failed"):
            edited("before", nullcontext())
    finally:
        for number, handler in zip(ENDING, before, strict=True):
            signal.signal(number, handler)
    assert caught == [signal.SIGTERM]
